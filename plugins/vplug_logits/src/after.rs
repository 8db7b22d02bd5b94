//! Rounding: how far below the best logit a row may lie and still win. As `vplug_logits/after.py`, which says why.

/// Rounding steps at the best logit.
const STEPS: f64 = 4.0;

/// The number type of the logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// float32.
    Single,
    /// bfloat16.
    Brain,
    /// float16.
    Half,
}

impl Kind {
    /// The relative distance of two neighbours, and the smallest normal number.
    const fn epsilon(self) -> (f64, f64) {
        match self {
            Self::Single => (f32::EPSILON as f64, f32::MIN_POSITIVE as f64),
            Self::Brain => (1.0 / 128.0, f32::MIN_POSITIVE as f64),
            Self::Half => (1.0 / 1024.0, 1.0 / 16384.0),
        }
    }

    /// A number as this type holds it.
    pub fn rounded(self, value: f32) -> f32 {
        match self {
            Self::Single => value,
            Self::Brain => half::bf16::from_f32(value).to_f32(),
            Self::Half => half::f16::from_f32(value).to_f32(),
        }
    }
}

/// What the host does to the logits afterwards: a soft cap, cap tanh(l / cap), that makes distinct logits equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct After {
    /// The cap, if there is one.
    pub cap: Option<f64>,
    /// The type in which the host rounds.
    pub kind: Kind,
}

impl After {
    /// How far below `best` a logit may lie and still become equal to it; infinite where the cap is flat.
    pub fn margin(&self, best: f64) -> f64 {
        let (epsilon, tiny) = self.kind.epsilon();
        let steps = STEPS * (best.abs() * epsilon).max(tiny);
        let Some(cap) = self.cap else { return steps };
        let flat = (best / cap).tanh();
        let lower = flat - STEPS * (flat.abs() * epsilon).max(tiny);
        best - cap * lower.max(-1.0).atanh() + steps
    }
}

#[cfg(test)]
mod tests {
    use super::{After, Kind};

    #[test]
    fn a_margin_is_a_few_steps_of_the_type() {
        let margin = |kind| After { cap: None, kind }.margin(16.0);
        assert!((margin(Kind::Brain) - 4.0 * 16.0 / 128.0).abs() < 1e-9);
        assert!((margin(Kind::Half) - 4.0 * 16.0 / 1024.0).abs() < 1e-9);
        assert!(margin(Kind::Single) < 1e-5);
    }

    #[test]
    fn a_cap_widens_it_where_it_is_flat() {
        let after = After {
            cap: Some(30.0),
            kind: Kind::Brain,
        };
        assert!(after.margin(60.0) > after.margin(10.0));
        assert!(
            After {
                cap: Some(1.0),
                kind: Kind::Brain
            }
            .margin(60.0)
            .is_infinite()
                || after.margin(60.0) > 1.0
        );
    }
}
