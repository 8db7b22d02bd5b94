//! `transform` says the same with each set of instructions, however columns and states are divided, and reads no further
//! than its slices.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, what helps them too")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "float64 is rounded to float32 where the definition does"
)]

mod guarded;

use std::ops::Range;

use guarded::{Guarded, Tight};
use half::bf16;
use proptest::prelude::*;
use proptest::test_runner::TestRng;
use vplug_logits_kernels::isa::Isa;
use vplug_logits_kernels::transform::{length, transform, transform_wide};

type Definition = fn(&[bf16], usize, &[f32], usize) -> f32;
type Transform = fn(Isa, &[bf16], usize, &[f32], Range<usize>, &mut [f32]);

/// As the definition says it: one sum for a column, over the rows in order.
fn narrow_by_definition(matrix: &[bf16], width: usize, state: &[f32], column: usize) -> f32 {
    let mut sum = 0.0_f32;
    for row in 0..width {
        let product = state[row] * matrix[row * width + column].to_f32();
        sum += product;
    }
    sum
}

fn wide_by_definition(matrix: &[bf16], width: usize, state: &[f32], column: usize) -> f32 {
    let mut sum = 0.0_f64;
    for row in 0..width {
        sum += f64::from(state[row]) * matrix[row * width + column].to_f64();
    }
    sum as f32
}

/// Its bits, all NaNs being one.
fn bits(number: f32) -> u32 {
    if number.is_nan() {
        f32::NAN.to_bits()
    } else {
        number.to_bits()
    }
}

struct Case {
    matrix: Vec<bf16>,
    width: usize,
    states: Vec<f32>,
    many: usize,
}

impl Case {
    /// Numbers of many sizes, and some that are none.
    fn drawn(width: usize, many: usize, strange: bool, rng: &mut TestRng) -> Self {
        let mut number = || {
            let number = (rng.random::<f32>() - 0.5) * 2.0_f32.powi(rng.random_range(-12..4));
            match rng.random_range(0..400) {
                0 if strange => f32::INFINITY,
                1 if strange => f32::NAN,
                2 if strange => f32::MIN_POSITIVE / 8.0,
                3 if strange => -0.0,
                _ => number,
            }
        };
        let matrix = (0..width * width).map(|_| bf16::from_f32(number())).collect();
        let states = (0..many * width).map(|_| number()).collect();
        Self {
            matrix,
            width,
            states,
            many,
        }
    }

    /// With guard pages about all that is read and written, what was there before being NaN.
    fn run(&self, transform: Transform, isa: Isa, columns: &Range<usize>, tight: Tight) -> Vec<f32> {
        let matrix = Guarded::of(&self.matrix, tight);
        let states = Guarded::of(&self.states, tight);
        let mut out = Guarded::of(&vec![f32::NAN; self.many * columns.len()], tight);
        transform(isa, &matrix, self.width, &states, columns.clone(), &mut out);
        out.to_vec()
    }

    /// Whether each path gives the bits of the definition.
    fn check(&self, columns: &Range<usize>) -> Result<(), TestCaseError> {
        let kinds: [(Transform, Definition); 2] =
            [(transform, narrow_by_definition), (transform_wide, wide_by_definition)];
        for (kind, (transform, by_definition)) in kinds.into_iter().enumerate() {
            let wanted: Vec<u32> = self
                .states
                .chunks_exact(self.width)
                .flat_map(|state| {
                    columns
                        .clone()
                        .map(|column| bits(by_definition(&self.matrix, self.width, state, column)))
                })
                .collect();
            for isa in Isa::available() {
                for tight in [Tight::Start, Tight::End] {
                    let got: Vec<u32> = self.run(transform, isa, columns, tight).into_iter().map(bits).collect();
                    prop_assert_eq!(&got, &wanted, "{} of kind {}, {:?}", isa.name(), kind, tight);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_path_gives_the_bits_of_the_definition(
        width in 1..200_usize,
        many in 0..10_usize,
        ends: (prop::sample::Index, prop::sample::Index),
        strange: bool,
        mut rng in any::<u64>().prop_perturb(|_, rng| rng),
    ) {
        let [one, other] = [ends.0, ends.1].map(|end| end.index(width + 1));
        Case::drawn(width, many, strange, &mut rng).check(&(one.min(other)..one.max(other)))?;
    }
}

#[test]
fn widths_of_real_heads_give_the_bits_of_the_definition() {
    for (width, many, columns) in [(576, 1, 0..576), (640, 5, 13..640), (576, 17, 288..576)] {
        let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
        Case::drawn(width, many, false, &mut rng).check(&columns).unwrap();
    }
}

#[test]
fn a_part_of_the_columns_is_a_part_of_the_whole() {
    let mut rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let case = Case::drawn(150, 3, false, &mut rng);
    let whole = case.run(transform, Isa::best(), &(0..150), Tight::End);
    for columns in [0..1, 7..8, 7..90, 90..150, 149..150] {
        let part = case.run(transform, Isa::best(), &columns, Tight::End);
        for (state, part) in part.chunks_exact(columns.len()).enumerate() {
            assert_eq!(part, &whole[state * 150..][columns.clone()]);
        }
    }
}

#[test]
#[should_panic(expected = "a matrix of 6 numbers, not 3 x 3")]
fn a_matrix_that_is_too_small_is_refused() {
    transform(Isa::Portable, &[bf16::ZERO; 6], 3, &[0.0; 3], 0..3, &mut [0.0; 3]);
}

#[test]
#[should_panic(expected = "columns 2..4 of a matrix of 3")]
fn columns_beyond_the_matrix_are_refused() {
    transform_wide(Isa::Portable, &[bf16::ZERO; 9], 3, &[0.0; 3], 2..4, &mut [0.0; 2]);
}

#[test]
#[should_panic(expected = "room for 3 numbers, not for 2 x 3")]
fn a_result_that_is_too_small_is_refused() {
    transform(Isa::Portable, &[bf16::ZERO; 9], 3, &[0.0; 6], 0..3, &mut [0.0; 3]);
}

#[test]
fn a_length_is_exact_where_squares_are_no_float32() {
    assert_eq!(length(&[]).to_bits(), 0);
    assert_eq!(length(&[3e30, 4e30]).to_bits(), 5e30_f32.to_bits());
    assert_eq!(length(&[3e-30; 25]).to_bits(), 15e-30_f32.to_bits());
    assert!(length(&[1.0, f32::NAN]).is_nan());
}
