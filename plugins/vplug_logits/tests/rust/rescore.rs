//! `rescore` says the same with each set of instructions and dtype, near the exact product, and reads no further than the
//! rows it was told.
#![cfg(unix)]
#![expect(clippy::cast_possible_truncation, reason = "indices are small")]
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, what helps them too")]

mod guarded;

use guarded::{Guarded, Tight};
use half::{bf16, f16};
use proptest::prelude::*;
use proptest::test_runner::TestRng;
use vplug_logits_kernels::isa::Isa;
use vplug_logits_kernels::rescore::rescore;
use vplug_logits_kernels::weight::{Numbers, Weight};

/// What a weight may be made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Single,
    Brain,
    Half,
}

const KINDS: [Kind; 3] = [Kind::Single, Kind::Brain, Kind::Half];

/// Numbers of a weight behind guard pages.
enum Held {
    Single(Guarded<f32>),
    Brain(Guarded<bf16>),
    Half(Guarded<f16>),
}

impl Held {
    fn of(kind: Kind, numbers: &[f32], tight: Tight) -> Self {
        let brain = || numbers.iter().map(|&number| bf16::from_f32(number)).collect::<Vec<_>>();
        let half = || numbers.iter().map(|&number| f16::from_f32(number)).collect::<Vec<_>>();
        match kind {
            Kind::Single => Self::Single(Guarded::of(numbers, tight)),
            Kind::Brain => Self::Brain(Guarded::of(&brain(), tight)),
            Kind::Half => Self::Half(Guarded::of(&half(), tight)),
        }
    }

    fn numbers(&self) -> Numbers<'_> {
        match self {
            Self::Single(numbers) => Numbers::Single(numbers),
            Self::Brain(numbers) => Numbers::Brain(numbers),
            Self::Half(numbers) => Numbers::Half(numbers),
        }
    }

    fn get(&self, at: usize) -> f32 {
        match self {
            Self::Single(numbers) => numbers[at],
            Self::Brain(numbers) => numbers[at].to_f32(),
            Self::Half(numbers) => numbers[at].to_f32(),
        }
    }
}

/// Its bits, all NaNs being one.
fn bits(number: f32) -> u32 {
    if number.is_nan() {
        f32::NAN.to_bits()
    } else {
        number.to_bits()
    }
}

/// Four sums of sixteen lanes, fused, then added in pairs and halves: as the definition says it.
fn by_definition(row: &[f32], state: &[f32]) -> f32 {
    let mut sums = [[0.0_f32; 16]; 4];
    for (at, (&number, &factor)) in row.iter().zip(state).enumerate() {
        let sum = &mut sums[at / 16 % 4][at % 16];
        *sum = number.mul_add(factor, *sum);
    }
    let mut lanes: Vec<f32> = (0..16)
        .map(|lane| (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]))
        .collect();
    while lanes.len() > 1 {
        let (lower, upper) = lanes.split_at(lanes.len() / 2);
        lanes = lower.iter().zip(upper).map(|(lower, upper)| lower + upper).collect();
    }
    lanes[0]
}

struct Case {
    rows: usize,
    width: usize,
    stride: usize,
    numbers: Vec<f32>,
    states: Vec<f32>,
    /// Row and owner.
    pairs: Vec<(u32, u32)>,
}

impl Case {
    fn drawn(width: usize, gap: usize, many: usize, pairs: usize, strange: bool, rng: &mut TestRng) -> Self {
        let (rows, stride) = (rng.random_range(1..20), width + gap);
        // What lies between rows is NaN: who reads it is found out.
        let mut numbers = vec![f32::NAN; stride * (rows - 1) + width];
        for row in 0..rows {
            for number in &mut numbers[row * stride..][..width] {
                *number = match rng.random_range(0..if strange { 60 } else { u32::MAX }) {
                    0 => f32::INFINITY,
                    1 => f32::NEG_INFINITY,
                    2 => f32::NAN,
                    3 => f32::MIN_POSITIVE / 64.0,
                    4 => 1e-6,
                    5 => -0.0,
                    6 => -f32::MIN_POSITIVE,
                    _ => rng.random::<f32>() - 0.5,
                };
            }
        }
        let states = (0..many * width).map(|_| rng.random::<f32>() - 0.5).collect();
        let mut pairs: Vec<(u32, u32)> = (0..pairs)
            .map(|_| (rng.random_range(0..rows as u32), rng.random_range(0..many as u32)))
            .collect();
        if rng.random() {
            pairs.sort_unstable();
        }
        if let Some(last) = pairs.last_mut() {
            *last = (rows as u32 - 1, many as u32 - 1);
        }
        Self {
            rows,
            width,
            stride,
            numbers,
            states,
            pairs,
        }
    }

    fn check(&self) {
        for (kind, tight) in KINDS
            .into_iter()
            .flat_map(|kind| [(kind, Tight::Start), (kind, Tight::End)])
        {
            let held = Held::of(kind, &self.numbers, tight);
            let weight = Weight::new(held.numbers(), self.rows, self.width, self.stride).unwrap();
            let rows = Guarded::of(&self.pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(), tight);
            let owners = Guarded::of(&self.pairs.iter().map(|pair| pair.1).collect::<Vec<_>>(), tight);
            let states = Guarded::of(&self.states, tight);
            let wanted: Vec<u32> = self.pairs.iter().map(|&pair| bits(self.wanted(&held, pair))).collect();
            for isa in Isa::available() {
                let mut out = Guarded::of(&vec![f32::NAN; self.pairs.len()], tight);
                rescore(isa, &weight, &rows, &owners, &states, &mut out);
                let got: Vec<u32> = out.iter().copied().map(bits).collect();
                assert_eq!(got, wanted, "{} of {kind:?}, {tight:?}", isa.name());
            }
        }
    }

    fn wanted(&self, held: &Held, (row, owner): (u32, u32)) -> f32 {
        let row: Vec<f32> = (0..self.width)
            .map(|at| held.get(row as usize * self.stride + at))
            .collect();
        by_definition(&row, &self.states[owner as usize * self.width..][..self.width])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn each_path_gives_the_bits_of_the_definition(
        width in 1..200_usize,
        gap in 0..40_usize,
        many in 1..6_usize,
        pairs in 0..60_usize,
        strange: bool,
        mut rng in any::<u64>().prop_perturb(|_, rng| rng),
    ) {
        Case::drawn(width, gap, many, pairs, strange, &mut rng).check();
    }
}

#[test]
fn widths_of_real_heads_give_the_bits_of_the_definition() {
    for (width, gap) in [(576, 0), (640, 3), (2048, 0)] {
        let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
        Case::drawn(width, gap, 3, 40, true, &mut rng).check();
    }
}

#[test]
fn a_logit_is_near_the_exact_product() {
    let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let case = Case::drawn(641, 0, 2, 30, false, &mut rng);
    let held = Held::of(Kind::Single, &case.numbers, Tight::End);
    for &(row, owner) in &case.pairs {
        let (mut exact, mut size) = (0.0_f64, 0.0_f64);
        for at in 0..641 {
            let product =
                f64::from(held.get(row as usize * 641 + at)) * f64::from(case.states[owner as usize * 641 + at]);
            exact += product;
            size += product.abs();
        }
        let got = f64::from(case.wanted(&held, (row, owner)));
        assert!((got - exact).abs() <= 1e-6 * size, "{got} for {exact}");
    }
}

#[test]
fn a_lane_beyond_the_last_coordinate_keeps_its_sign_of_zero() {
    // Too small for any float32, so the sum is -0; 0 * 0 added to it would make it +0.
    let numbers = [-f32::MIN_POSITIVE; 80];
    let mut states = [f32::MIN_POSITIVE; 80];
    states[64..].fill(0.0);
    for width in [63, 65, 66, 79] {
        let weight = Weight::new(Numbers::Single(&numbers), 1, width, width).unwrap();
        let wanted = by_definition(&numbers[..width], &states[..width]);
        for isa in Isa::available() {
            let mut out = [f32::NAN];
            rescore(isa, &weight, &[0], &[0], &states[..width], &mut out);
            assert_eq!(out[0].to_bits(), wanted.to_bits(), "{} at {width}", isa.name());
        }
    }
}

#[test]
#[should_panic(expected = "row 3 of 3")]
fn a_row_that_does_not_exist_is_refused() {
    let weight = Weight::new(Numbers::Single(&[0.0; 12]), 3, 4, 4).unwrap();
    rescore(Isa::best(), &weight, &[0, 3], &[0, 0], &[0.0; 4], &mut [0.0; 2]);
}

#[test]
#[should_panic(expected = "state 1 of 1")]
fn a_state_that_does_not_exist_is_refused() {
    let weight = Weight::new(Numbers::Single(&[0.0; 12]), 3, 4, 4).unwrap();
    rescore(Isa::best(), &weight, &[0, 2], &[0, 1], &[0.0; 4], &mut [0.0; 2]);
}

#[test]
#[should_panic(expected = "2 rows and 1 owners for 2 logits")]
fn lists_of_other_lengths_are_refused() {
    let weight = Weight::new(Numbers::Single(&[0.0; 12]), 3, 4, 4).unwrap();
    rescore(Isa::best(), &weight, &[0, 2], &[0], &[0.0; 4], &mut [0.0; 2]);
}
