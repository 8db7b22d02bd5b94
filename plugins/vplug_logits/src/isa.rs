//! Which instructions the kernels use.
#![expect(
    clippy::inline_always,
    reason = "what is inlined is compiled for the instructions of its caller"
)]
#![expect(
    unsafe_code,
    reason = "functions with instructions that not every processor has are unsafe to call"
)]

/// A set of instructions that the kernels are written for.
///
/// Ordered: a later one is the faster one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// What each processor has; the compiler makes of it what it can (NEON on Arm).
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
}

impl Isa {
    /// All of them, the slowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Its name for people and tests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// Whether this processor has the instructions, and the system keeps their registers.
    pub fn runs_here(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.runs_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Those that run here, the slowest first.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|isa| isa.runs_here()).collect()
    }

    /// The fastest one that runs here.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::Portable)
    }
}

/// Runs plain code, compiled for these instructions: what the compiler makes of loops is then as wide as they are.
///
/// The closure and all that it calls must be inlined to gain from it.
///
/// # Panics
///
/// The processor lacks the instructions.
#[inline(always)]
pub fn compiled_for<R>(isa: Isa, work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        assert!(isa == Isa::Portable || isa.runs_here());
        match isa {
            // SAFETY: the instructions were found on this processor.
            Isa::Avx512 => return unsafe { with_avx512(work) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { with_avx2(work) },
            Isa::Portable => {}
        }
    }
    let _ = isa;
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(test)]
mod tests {
    use super::Isa;

    #[test]
    fn the_best_one_runs_here() {
        assert!(Isa::best().runs_here());
    }

    #[test]
    fn names_are_read_back() {
        for isa in Isa::ALL {
            assert_eq!(Isa::named(isa.name()), Some(isa));
        }
        assert_eq!(Isa::named("sse9"), None);
    }
}
