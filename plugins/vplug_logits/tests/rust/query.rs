//! The integers of states are those of the definition, and what is lost by them is never more than `Queries` says.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, what helps them too")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the definition goes from float to integer and back"
)]

mod guarded;

use guarded::{Guarded, Tight};
use proptest::prelude::*;
use vplug_logits_kernels::isa::Isa;
use vplug_logits_kernels::layout::{Bits, LANE, Shape};
use vplug_logits_kernels::query::Queries;

/// One state, `(planes, width)` integers and their step.
fn by_definition(state: &[f32], planes: usize) -> (Vec<Vec<i32>>, f32) {
    let levels = if planes == 2 { 16_256.0_f32 } else { 127.0 };
    let largest = state.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    let (mut inverse, mut step) = (levels / largest, largest / levels);
    if !inverse.is_finite() {
        (inverse, step) = (0.0, 0.0);
    }
    let integers: Vec<i32> = state
        .iter()
        .map(|number| (number * inverse).round_ties_even() as i32)
        .collect();
    if planes == 1 {
        return (vec![integers], step);
    }
    let high: Vec<i32> = integers.iter().map(|integer| (integer + 64).div_euclid(128)).collect();
    let low = integers
        .iter()
        .zip(&high)
        .map(|(integer, high)| integer - 128 * high)
        .collect();
    (vec![high, low], step)
}

/// The integers of a query, out of its words: `(padded width,)`.
fn read(queries: &Queries, shape: &Shape, query: usize) -> Vec<i32> {
    let segments = shape.bits().segments();
    (0..shape.padded_width())
        .map(|coordinate| {
            let (segment, byte) = (coordinate / shape.row_bytes(), coordinate % shape.row_bytes());
            let word = queries.words()[(byte / LANE * segments + segment) * queries.count() + query];
            i32::from((word >> (8 * (byte % LANE))) as i8)
        })
        .collect()
}

/// Whether a batch has the integers, sums and steps of the definition, and loses no more than it says.
fn check(queries: &Queries, shape: &Shape, states: &[f32]) {
    let width = shape.width();
    assert_eq!(queries.states(), states.len() / width);
    assert_eq!(queries.words().len(), queries.count() * shape.padded_width() / LANE);
    for (at, state) in states.chunks_exact(width).enumerate() {
        let (planes, step) = by_definition(state, queries.planes());
        assert_eq!(queries.steps()[at].to_bits(), step.to_bits(), "step of {at}");
        for (plane, integers) in planes.iter().enumerate() {
            let query = at * queries.planes() + plane;
            let got = read(queries, shape, query);
            assert_eq!(got[..width], integers[..], "query {query}");
            assert!(got[width..].iter().all(|&integer| integer == 0));
            assert!(got.iter().all(|integer| (-127..=127).contains(integer)));
            assert_eq!(queries.sums()[query], integers.iter().sum::<i32>());
        }
        let lost = distance(state, &planes, step);
        let said = f64::from(queries.lost()[at]);
        assert!(said >= lost, "{said} is said, {lost} is lost");
        assert!(
            said <= lost * (1.0 + 1e-6) + 3e-45,
            "{said} is said, only {lost} is lost"
        );
    }
}

/// |h' - step q| in float64, summed with what rounding takes (Neumaier).
fn distance(state: &[f32], planes: &[Vec<i32>], step: f32) -> f64 {
    let (mut sum, mut rest) = (0.0_f64, 0.0_f64);
    for (at, &number) in state.iter().enumerate() {
        let integer = planes.iter().fold(0, |integer, plane| 128 * integer + plane[at]);
        let gap = f64::from(number) - f64::from(step) * f64::from(integer);
        let next = sum + gap * gap;
        rest += if sum >= gap * gap {
            (sum - next) + gap * gap
        } else {
            (gap * gap - next) + sum
        };
        sum = next;
    }
    (sum + rest).sqrt()
}

/// All that is public, as bits.
fn all(queries: &Queries) -> (usize, Vec<i32>, Vec<i32>, Vec<u32>, Vec<u32>) {
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    (
        queries.planes(),
        queries.words().to_vec(),
        queries.sums().to_vec(),
        bits(queries.steps()),
        bits(queries.lost()),
    )
}

fn any_bits() -> impl Strategy<Value = Bits> {
    prop::sample::select(&Bits::ALL)
}

/// Vectors of one scale, with spikes, and with zeros.
fn a_state(width: usize) -> impl Strategy<Value = Vec<f32>> {
    let number = prop_oneof![
        8 => -1.0..1.0_f32,
        1 => Just(0.0_f32),
        1 => -1e-3..1e-3_f32,
        1 => Just(30.0_f32),
    ];
    let size = prop_oneof![
        4 => Just(0),
        1 => -149..-100_i32,
        1 => -100..100_i32,
        1 => 100..122_i32,
    ];
    (prop::collection::vec(number, width), size).prop_map(|(state, size)| {
        // In two steps: no power of two below 2^-126 is normal.
        let half = 2.0_f32.powi(size / 2);
        let other = 2.0_f32.powi(size - size / 2);
        state.into_iter().map(|number| number * half * other).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_path_rounds_as_the_definition_says(
        bits in any_bits(),
        (width, states) in (1..200_usize).prop_flat_map(|width| (
            Just(width),
            prop::collection::vec(a_state(width), 0..6).prop_map(|states| states.concat()),
        )),
    ) {
        let shape = Shape::new(1, width, bits).unwrap();
        let mut first = None;
        for isa in Isa::available() {
            for tight in [Tight::Start, Tight::End] {
                let mut queries = Queries::new();
                let guarded = Guarded::of(&states, tight);
                queries.fill(isa, &shape, &guarded, states.len() / width);
                check(&queries, &shape, &states);
                let got = all(&queries);
                prop_assert_eq!(first.get_or_insert_with(|| got.clone()), &got);
            }
        }
    }
}

#[test]
fn a_buffer_that_has_held_more_says_the_same() {
    let (large, small) = (
        Shape::new(1, 640, Bits::Eight).unwrap(),
        Shape::new(1, 17, Bits::Two).unwrap(),
    );
    let states: Vec<f32> = (0..640 * 4).map(|at| (at as f32 * 0.7).sin()).collect();
    let mut used = Queries::new();
    used.fill(Isa::best(), &large, &states, 4);
    check(&used, &large, &states);
    let words = used.words().as_ptr();
    used.fill(Isa::best(), &small, &states[..34], 2);
    check(&used, &small, &states[..34]);
    let mut fresh = Queries::new();
    fresh.fill(Isa::best(), &small, &states[..34], 2);
    assert_eq!(all(&used), all(&fresh));
    assert_eq!(used.words().as_ptr(), words, "nothing was allocated");
}

#[test]
fn states_at_both_ends_of_float32_lose_no_more_than_is_said() {
    for bits in Bits::ALL {
        for width in [1, 16, 33, 640] {
            let shape = Shape::new(1, width, bits).unwrap();
            for size in [
                f32::MAX,
                f32::MAX / 3.0,
                1e-33,
                1e-35,
                3e-37,
                f32::MIN_POSITIVE,
                1e-40,
                1e-45,
                0.0,
            ] {
                let states: Vec<f32> = (0..width).map(|at| size * (at as f32 * 1.3).cos()).collect();
                for isa in Isa::available() {
                    let mut queries = Queries::new();
                    queries.fill(isa, &shape, &states, 1);
                    check(&queries, &shape, &states);
                    assert!(queries.steps()[0].is_finite() && queries.lost()[0].is_finite());
                }
            }
        }
    }
}

#[test]
fn a_state_that_is_not_finite_has_an_infinite_step_and_spoils_no_other() {
    for bits in Bits::ALL {
        let shape = Shape::new(1, 19, bits).unwrap();
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut states = vec![0.5_f32; 57];
            states[19 + 11] = bad;
            for isa in Isa::available() {
                let mut queries = Queries::new();
                queries.fill(isa, &shape, &states, 3);
                assert!(queries.steps()[1].is_infinite() && queries.lost()[1].is_infinite());
                assert!(queries.steps()[0].is_finite() && queries.steps()[2].is_finite());
                for plane in 0..queries.planes() {
                    let planes = queries.planes();
                    assert!(
                        read(&queries, &shape, planes + plane)
                            .iter()
                            .all(|&integer| integer == 0)
                    );
                    assert_eq!(queries.sums()[planes + plane], 0);
                    assert_eq!(queries.sums()[plane], queries.sums()[2 * planes + plane]);
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "20 numbers are not 3 states of 10")]
fn another_number_of_states_is_refused() {
    Queries::new().fill(Isa::Portable, &Shape::new(1, 10, Bits::One).unwrap(), &[0.0; 20], 3);
}
