//! A whole step against the rules, written down once more in plain arithmetic; and no byte is touched out of bounds.
//!
//! All numbers are small multiples of an eighth, so that sums are exact in whatever order they are taken: which row is
//! where is then no matter of rounding.
#![cfg(unix)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of a test, small enough by construction"
)]
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, what helps them too")]

mod guarded;

use guarded::{Guarded, Tight};
use half::{bf16, f16};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};
use vplug_logits_kernels::after::{After, Kind};
use vplug_logits_kernels::isa::Isa;
use vplug_logits_kernels::layout::{BLOCK, Bits, LANE, Shape};
use vplug_logits_kernels::query::Queries;
use vplug_logits_kernels::select::widest;
use vplug_logits_kernels::step::{Done, Head, Out, Outcome, Rules, Sketch, Workspace};
use vplug_logits_kernels::weight::{Numbers, Weight};

const KINDS: [Kind; 3] = [Kind::Single, Kind::Brain, Kind::Half];
const LOST: f64 = 1e-6;
/// What stands in the output before, and behind the vocabulary afterwards, too.
const UNTOUCHED: f32 = 77.0;

/// A head, states, and what is asked.
struct Case {
    shape: Shape,
    many: usize,
    gap: usize,
    beyond: usize,
    /// `(V, d)`.
    codes: Vec<u8>,
    scale: Vec<f16>,
    residual: Vec<f16>,
    unit: f64,
    matrix: Vec<bf16>,
    mean: Vec<f32>,
    /// `(V, d + gap)`, the gaps NaN.
    weight: Vec<f32>,
    states: Vec<f32>,
    rules: Rules,
}

/// How a state ends, by the rules.
#[derive(Debug)]
struct Answer {
    outcome: Outcome,
    /// The rows that were rescored.
    ids: Vec<usize>,
    clipped: usize,
    logits: Vec<f32>,
}

/// What is drawn besides numbers.
#[derive(Clone, Copy, Debug)]
struct Asked {
    vocabulary: usize,
    width: usize,
    bits: Bits,
    many: usize,
    rows: usize,
    limit: usize,
    share: Option<f64>,
    possible: f64,
    cap: Option<f64>,
    estimates: bool,
    kind: Kind,
    strange: bool,
}

fn eighths(rng: &mut TestRng, most: i32) -> f32 {
    rng.random_range(-most..=most) as f32 / 8.0
}

impl Case {
    fn drawn(asked: Asked, rng: &mut TestRng) -> Self {
        let shape = Shape::new(asked.vocabulary, asked.width, asked.bits).unwrap();
        let (vocabulary, width, many) = (asked.vocabulary, asked.width, asked.many);
        let gap = rng.random_range(0..5);
        let mut padded = |most: u32| {
            let mut numbers = vec![f16::ZERO; shape.padded_rows()];
            numbers[..vocabulary].fill_with(|| f16::from_f32(rng.random_range(0..=most) as f32 / 16.0));
            numbers
        };
        let (scale, residual) = (padded(16), padded(64));
        let codes = (0..vocabulary * width)
            .map(|_| rng.random_range(0..=asked.bits.largest()) as u8)
            .collect();
        let mut weight = vec![f32::NAN; (vocabulary - 1) * (width + gap) + width];
        for row in 0..vocabulary {
            weight[row * (width + gap)..][..width].fill_with(|| eighths(rng, 15));
        }
        if asked.strange && rng.random_range(0..8) == 0 {
            let row = rng.random_range(0..vocabulary);
            weight[row * (width + gap)] = if rng.random() { f32::NAN } else { f32::INFINITY };
        }
        let mut states: Vec<f32> = (0..many * width).map(|_| eighths(rng, 31)).collect();
        for state in 0..many {
            match rng.random_range(0..if asked.strange { 8 } else { u32::MAX }) {
                0 => states[state * width] = f32::NAN,
                1 => states[state * width + width - 1] = f32::NEG_INFINITY,
                2 => states[state * width..][..width].fill(0.0),
                3 => states[state * width] = 3e38,
                _ => {}
            }
        }
        Self {
            shape,
            many,
            gap,
            beyond: rng.random_range(0..4),
            codes,
            scale,
            residual,
            unit: 0.25,
            matrix: (0..width * width).map(|_| bf16::from_f32(eighths(rng, 8))).collect(),
            mean: (0..width).map(|_| eighths(rng, 8)).collect(),
            weight,
            states,
            rules: Rules {
                rows: asked.rows,
                limit: asked.limit.max(asked.rows),
                share: asked.share,
                possible: asked.possible,
                of_state: 20.0,
                of_transformed: 12.0,
                after: After {
                    cap: asked.cap,
                    kind: asked.kind,
                },
                estimates: asked.estimates,
            },
        }
    }

    fn state(&self, state: usize) -> &[f32] {
        &self.states[state * self.shape.width()..][..self.shape.width()]
    }

    /// h', which is exact in float32, too.
    fn transformed(&self, state: usize) -> Vec<f32> {
        let width = self.shape.width();
        (0..width)
            .map(|column| {
                let products = self
                    .state(state)
                    .iter()
                    .enumerate()
                    .map(|(row, &number)| f64::from(number) * self.matrix[row * width + column].to_f64());
                products.sum::<f64>() as f32
            })
            .collect()
    }

    /// All estimates of a state, by the formula, from the integers of its h'.
    fn estimates(&self, state: usize, turned: &[f32], step: f32) -> Vec<f32> {
        let (bits, width) = (self.shape.bits(), self.shape.width());
        let wide = bits == Bits::Eight;
        let levels: f32 = if wide { 16_256.0 } else { 127.0 };
        let largest = turned.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let inverse = if largest == 0.0 { 0.0 } else { levels / largest };
        let integers: Vec<i64> = turned
            .iter()
            .map(|&number| (number * inverse).round_ties_even() as i64)
            .collect();
        let factor = (0.5 * self.unit * f64::from(step)) as f32;
        let base = dot(self.state(state), &self.mean) as f32;
        (0..self.shape.vocabulary())
            .map(|row| {
                let codes = &self.codes[row * width..][..width];
                let product = |of: &dyn Fn(i64) -> i64| -> f32 {
                    let terms = codes.iter().zip(&integers);
                    let sum: i64 = terms
                        .map(|(&code, &integer)| (2 * i64::from(code) - i64::from(bits.largest())) * of(integer))
                        .sum();
                    sum as f32
                };
                let whole = if wide {
                    let high = |integer: i64| (integer + 64) >> 7;
                    product(&high) * 128.0 + product(&|integer| integer - 128 * high(integer))
                } else {
                    product(&|integer| integer)
                };
                whole * (self.scale[row].to_f32() * factor) + base
            })
            .collect()
    }

    fn exact(&self, state: usize, row: usize) -> f32 {
        let stride = self.shape.width() + self.gap;
        dot(self.state(state), &self.weight[row * stride..][..self.shape.width()]) as f32
    }

    /// What the rules say of all states.
    fn answers(&self) -> Vec<Answer> {
        let mut queries = Queries::new();
        let turned: Vec<Vec<f32>> = (0..self.many).map(|state| self.transformed(state)).collect();
        queries.fill(Isa::Portable, &self.shape, &turned.concat(), self.many);
        let mut found: Vec<Found> = (0..self.many)
            .map(|state| Found::of(self, state, &turned[state], &queries))
            .collect();
        for one in &mut found {
            one.take_best(self);
        }
        believe(self, &mut found);
        if let Some(share) = self.rules.share {
            for one in &mut found {
                one.take_window(self, share);
            }
            believe(self, &mut found);
        }
        found.into_iter().map(|one| one.written(self)).collect()
    }

    fn check(&self) {
        let wanted = self.answers();
        for (tight, isa) in [Tight::Start, Tight::End]
            .into_iter()
            .flat_map(|tight| Isa::available().into_iter().map(move |isa| (tight, isa)))
        {
            let (found, done) = self.answered(isa, 1, tight);
            let stride = self.shape.vocabulary() + self.beyond;
            for (state, (answer, done)) in wanted.iter().zip(&done).enumerate() {
                let logits = &found[state * stride..][..stride];
                assert_eq!(done.outcome, answer.outcome, "state {state} on {}", isa.name());
                assert!(
                    logits[self.shape.vocabulary()..]
                        .iter()
                        .all(|&number| number == UNTOUCHED)
                );
                if answer.outcome == Outcome::Fine {
                    assert_eq!(
                        (done.rescored, done.clipped),
                        (answer.ids.len(), answer.clipped),
                        "state {state}"
                    );
                    for (row, (found, wanted)) in logits.iter().zip(&answer.logits).enumerate() {
                        assert!(
                            found.total_cmp(wanted).is_eq() || (*found == 0.0 && *wanted == 0.0),
                            "row {row} of state {state} on {}: {found} for {wanted}",
                            isa.name()
                        );
                    }
                }
            }
        }
    }

    /// A step, everything behind guard pages; twice in the same workspace, with the same answer.
    fn answered(&self, isa: Isa, threads: usize, tight: Tight) -> (Vec<f32>, Vec<Done>) {
        let (vocabulary, width) = (self.shape.vocabulary(), self.shape.width());
        let codes = Guarded::of(&self.packed(), tight);
        let (scale, residual) = (Guarded::of(&self.scale, tight), Guarded::of(&self.residual, tight));
        let (matrix, mean) = (Guarded::of(&self.matrix, tight), Guarded::of(&self.mean, tight));
        let largest = Guarded::of(&widest(&self.residual), tight);
        let weight = Guarded::of(&self.weight, tight);
        let states = Guarded::of(&self.states, tight);
        let head = Head {
            sketch: Sketch {
                shape: self.shape,
                codes: &codes,
                scale: &scale,
                residual: &residual,
                unit: self.unit,
                matrix: &matrix,
                mean: &mean,
            },
            widest: &largest,
            weight: Weight::new(Numbers::Single(&weight), vocabulary, width, width + self.gap).unwrap(),
            rules: self.rules,
        };
        let stride = vocabulary + self.beyond;
        let mut work = Workspace::default();
        let mut once = || {
            let mut done = vec![Done::default(); self.many];
            let blank = vec![UNTOUCHED; self.many * stride];
            let mut step = |out: Out<'_>| {
                head.step(isa, threads, LOST, &states, out, stride, &mut work, &mut done);
            };
            let logits: Vec<f32> = match self.rules.after.kind {
                Kind::Single => {
                    let mut out = Guarded::of(&blank, tight);
                    step(Out::Single(&mut out));
                    out.to_vec()
                }
                Kind::Brain => {
                    let blank: Vec<bf16> = blank.iter().map(|&number| bf16::from_f32(number)).collect();
                    let mut out = Guarded::of(&blank, tight);
                    step(Out::Brain(&mut out));
                    out.iter().map(|number| number.to_f32()).collect()
                }
                Kind::Half => {
                    let blank: Vec<f16> = blank.iter().map(|&number| f16::from_f32(number)).collect();
                    let mut out = Guarded::of(&blank, tight);
                    step(Out::Half(&mut out));
                    out.iter().map(|number| number.to_f32()).collect()
                }
            };
            (logits, done)
        };
        let (first, _) = once();
        let (second, done) = once();
        for (state, done) in done.iter().enumerate() {
            if done.outcome == Outcome::Fine {
                let row = state * stride..(state + 1) * stride;
                assert!(
                    first[row.clone()]
                        .iter()
                        .zip(&second[row])
                        .all(|(one, other)| one.to_bits() == other.to_bits())
                );
            }
        }
        (second, done)
    }

    fn packed(&self) -> Vec<u8> {
        let shape = &self.shape;
        let mut packed = vec![0; shape.code_bytes()];
        for (row, codes) in self.codes.chunks_exact(shape.width()).enumerate() {
            for (coordinate, code) in codes.iter().enumerate() {
                let (segment, byte) = (coordinate / shape.row_bytes(), coordinate % shape.row_bytes());
                let lane = row / BLOCK * shape.lanes() + byte / LANE;
                packed[(lane * BLOCK + row % BLOCK) * LANE + byte % LANE] |= code << (segment * shape.bits().count());
            }
        }
        packed
    }
}

/// One state on its way through the rules.
struct Found {
    state: usize,
    outcome: Outcome,
    estimates: Vec<f32>,
    length: f64,
    lost: f64,
    slack: f64,
    ids: Vec<usize>,
    known: usize,
    last: f32,
    top: f32,
}

impl Found {
    fn of(case: &Case, state: usize, turned: &[f32], queries: &Queries) -> Self {
        let finite = case.state(state).iter().all(|number| number.is_finite());
        let norm = |numbers: &[f32]| dot(numbers, numbers).sqrt();
        let length = norm(turned);
        let smallest = 2.0_f64.powi(-111) * case.state(state).len() as f64 * (1.0 + case.rules.of_transformed);
        let slack =
            LOST * (case.rules.of_state * norm(case.state(state)) + case.rules.of_transformed * length) + smallest;
        let fits = (length + slack) * 1e9 <= f64::from(f32::MAX);
        Self {
            state,
            outcome: if !finite {
                Outcome::States
            } else if fits {
                Outcome::Fine
            } else {
                Outcome::Overflow
            },
            estimates: if finite && fits {
                case.estimates(state, turned, queries.steps()[state])
            } else {
                Vec::new()
            },
            length,
            lost: f64::from(queries.lost()[state]) * case.rules.of_transformed / 2.0,
            slack,
            ids: Vec::new(),
            known: 0,
            last: f32::NEG_INFINITY,
            top: f32::NEG_INFINITY,
        }
    }

    /// How far a row may be from its estimate, in a share of the bound that always holds.
    fn allowed(&self, case: &Case, share: f64, row: usize) -> f64 {
        share * (self.length * case.unit * case.residual[row].to_f64() + self.lost) + self.slack
    }

    fn take_best(&mut self, case: &Case) {
        if self.outcome != Outcome::Fine {
            return;
        }
        let mut sorted = self.estimates.clone();
        sorted.sort_by(|one, other| other.total_cmp(one));
        if case.rules.rows < sorted.len() {
            self.last = sorted[case.rules.rows - 1];
        }
        self.ids = (0..sorted.len())
            .filter(|&row| self.estimates[row] >= self.last)
            .collect();
        if self.ids.len() > case.rules.limit {
            self.outcome = Outcome::Window;
        }
    }

    fn take_window(&mut self, case: &Case, share: f64) {
        if self.outcome != Outcome::Fine {
            return;
        }
        let top = f64::from(self.top);
        let floor = f64::from((top - case.rules.after.margin(top)) as f32);
        let more: Vec<usize> = (0..self.estimates.len())
            .filter(|&row| self.estimates[row] < self.last)
            .filter(|&row| f64::from(self.estimates[row]) + self.allowed(case, share, row) >= floor)
            .collect();
        self.ids.extend(more);
        if self.ids.len() > case.rules.limit {
            self.outcome = Outcome::Window;
        }
    }

    fn written(mut self, case: &Case) -> Answer {
        let (kind, mut clipped) = (case.rules.after.kind, 0);
        let top = f64::from(self.top);
        let ceiling = kind.rounded((top - case.rules.after.margin(top)) as f32);
        self.ids.sort_unstable();
        let mut logits = Vec::new();
        for (row, &estimate) in self.estimates.iter().enumerate() {
            logits.push(if self.ids.binary_search(&row).is_ok() {
                kind.rounded(case.exact(self.state, row))
            } else if case.rules.estimates {
                clipped += usize::from(estimate > ceiling);
                kind.rounded(estimate.min(ceiling))
            } else {
                f32::NEG_INFINITY
            });
        }
        Answer {
            outcome: self.outcome,
            ids: self.ids,
            clipped,
            logits,
        }
    }
}

/// Looks at what is new: one logit that its code cannot explain loses all states.
fn believe(case: &Case, found: &mut [Found]) {
    let mut drift = false;
    for one in found.iter_mut().filter(|one| one.outcome == Outcome::Fine) {
        for &row in &one.ids[one.known..] {
            let exact = case.exact(one.state, row);
            let away = (f64::from(exact) - f64::from(one.estimates[row])).abs();
            drift |= away > one.allowed(case, case.rules.possible, row);
            let rounded = case.rules.after.kind.rounded(exact);
            one.top = if one.top.is_nan() || rounded.is_nan() {
                f32::NAN
            } else {
                one.top.max(rounded)
            };
        }
        one.known = one.ids.len();
    }
    for one in found.iter_mut().filter(|one| one.outcome == Outcome::Fine) {
        if drift {
            one.outcome = Outcome::Drift;
        } else if !one.top.is_finite() {
            one.outcome = Outcome::Overflow;
        }
    }
}

fn dot(one: &[f32], other: &[f32]) -> f64 {
    let products = one.iter().zip(other);
    products.map(|(&one, &other)| f64::from(one) * f64::from(other)).sum()
}

fn asked() -> impl Strategy<Value = Asked> {
    let size = (
        1..700_usize,
        1..40_usize,
        prop::sample::select(&Bits::ALL[..]),
        1..6_usize,
    );
    let vocabulary =
        prop_oneof![4 => Just(None), 1 => prop::sample::select(vec![1, 15, 16, 17, 255, 256, 257]).prop_map(Some)];
    let rules = (
        1..60_usize,
        1..200_usize,
        prop::option::weighted(0.7, 0.0..0.4_f64),
        prop_oneof![4 => Just(1e9), 1 => 0.0..2.0_f64],
        prop::option::weighted(0.3, prop::sample::select(vec![0.5, 5.0, 300.0])),
    );
    let rest = (any::<bool>(), prop::sample::select(&KINDS[..]), any::<bool>());
    (size, vocabulary, rules, rest).prop_map(
        |((drawn, width, bits, many), vocabulary, (rows, limit, share, possible, cap), (estimates, kind, strange))| {
            Asked {
                vocabulary: vocabulary.unwrap_or(drawn),
                width,
                bits,
                many,
                rows,
                limit,
                share,
                possible,
                cap,
                estimates,
                kind,
                strange,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn a_step_does_what_the_rules_say(asked in asked(), mut rng in any::<u64>().prop_perturb(|_, rng| rng)) {
        Case::drawn(asked, &mut rng).check();
    }
}

/// A head whose step takes helpers.
fn large(bits: Bits, many: usize, kind: Kind) -> Case {
    let asked = Asked {
        vocabulary: 2003,
        width: 9 * 64 + 1,
        bits,
        many,
        rows: 64,
        limit: 2003,
        share: Some(1e-4),
        possible: 1e9,
        cap: None,
        estimates: true,
        kind,
        strange: false,
    };
    Case::drawn(asked, &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn helpers_change_no_bit_and_touch_nothing_out_of_bounds() {
    for (bits, kind) in [
        (Bits::Four, Kind::Single),
        (Bits::Eight, Kind::Brain),
        (Bits::Four, Kind::Half),
    ] {
        for many in [1, 3] {
            let case = large(bits, many, kind);
            let (alone, done) = case.answered(Isa::best(), 1, Tight::End);
            assert!(done.iter().any(|done| done.outcome == Outcome::Fine));
            for (threads, tight) in [(2, Tight::End), (5, Tight::Start)] {
                let (helped, also) = case.answered(Isa::best(), threads, tight);
                for (one, other) in done.iter().zip(&also) {
                    assert_eq!(
                        (one.outcome, one.rescored, one.clipped),
                        (other.outcome, other.rescored, other.clipped)
                    );
                }
                let bits = |logits: &[f32]| logits.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&alone), bits(&helped), "{threads} threads");
            }
        }
    }
}

#[test]
fn all_outcomes_are_met_by_the_cases_that_are_drawn() {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut met = [0_usize; 5];
    for index in 0..200 {
        let asked = Asked {
            vocabulary: 300,
            width: 20,
            bits: Bits::ALL[index % 4],
            many: 4,
            rows: 20,
            limit: 120,
            share: (index % 3 > 0).then_some(0.02),
            possible: if index % 10 == 0 { 0.1 } else { 1e9 },
            cap: None,
            estimates: true,
            kind: KINDS[index % 3],
            strange: true,
        };
        for answer in Case::drawn(asked, &mut rng).answers() {
            met[answer.outcome as usize] += 1;
        }
    }
    assert!(met.iter().all(|&count| count >= 10), "{met:?}");
}

#[test]
#[should_panic(expected = "assertion failed")]
fn an_output_that_is_too_short_is_refused() {
    let case = large(Bits::One, 1, Kind::Single);
    let (codes, largest) = (case.packed(), widest(&case.residual));
    let head = Head {
        sketch: Sketch {
            shape: case.shape,
            codes: &codes,
            scale: &case.scale,
            residual: &case.residual,
            unit: case.unit,
            matrix: &case.matrix,
            mean: &case.mean,
        },
        widest: &largest,
        weight: Weight::new(Numbers::Single(&case.weight), 2003, 577, 577 + case.gap).unwrap(),
        rules: case.rules,
    };
    let mut out = vec![0.0; 2002];
    head.step(
        Isa::best(),
        1,
        LOST,
        &case.states,
        Out::Single(&mut out),
        2002,
        &mut Workspace::default(),
        &mut [Done::default()],
    );
}
