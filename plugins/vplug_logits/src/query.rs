//! What a scan multiplies codes with: int8 of transformed states, four to a word, in the order in which it needs them.
#![expect(
    unsafe_code,
    reason = "functions that need certain instructions are called where these were found"
)]

use crate::isa::Isa;
use crate::layout::{Bits, LANE, Shape};

/// Adding it to a small float32 rounds that to an integer, half to even, and leaves the integer in the lowest bits.
const ROUNDING: f32 = 12_582_912.0; // 1.5 * 2^23
/// The largest integer of one plane.
const SINGLE: f32 = 127.0;
/// The largest integer of two planes: 127 * 128.
const DOUBLE: f32 = 16_256.0;
/// Sums of one state that run side by side.
const SUMS: usize = 16;

/// The integers of a batch of transformed states, and what was lost by rounding to them.
///
/// At 1, 2 and 4 bits a state is one query, h' = step * q. At 8 bits it is two, its planes: h' = step * (128 hi + lo).
/// Query `state * planes + plane` comes in that order, hi first. Buffers are kept from one batch to the next.
#[derive(Debug, Default)]
pub struct Queries {
    states: usize,
    planes: usize,
    words: Vec<i32>,
    sums: Vec<i32>,
    steps: Vec<f32>,
    lost: Vec<f32>,
    /// The integers of one state: `(planes, padded width)`.
    integers: Vec<i8>,
}

/// What one state gave besides its integers.
struct Rounded {
    step: f32,
    lost: f32,
    sums: [i32; 2],
}

impl Queries {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            states: 0,
            planes: 1,
            words: Vec::new(),
            sums: Vec::new(),
            steps: Vec::new(),
            lost: Vec::new(),
            integers: Vec::new(),
        }
    }

    /// Takes the place of what was there with the integers of `n` states.
    ///
    /// # Parameters
    ///
    /// `transformed`: h', `(n, shape.width())`.
    ///
    /// # Panics
    ///
    /// A number of states that is another one, or instructions that this processor has not.
    pub fn fill(&mut self, isa: Isa, shape: &Shape, transformed: &[f32], n: usize) {
        self.fill_planes(
            isa,
            shape,
            transformed,
            n,
            if shape.bits() == Bits::Eight { 2 } else { 1 },
        );
    }

    /// The same with a given number of planes, 1 or 2, whatever the codes are.
    ///
    /// # Panics
    ///
    /// As `fill`, and for another number.
    pub fn fill_planes(&mut self, isa: Isa, shape: &Shape, transformed: &[f32], n: usize, planes: usize) {
        assert!(matches!(planes, 1 | 2), "{planes} planes of a state");
        assert!(isa.runs_here(), "{} does not run here", isa.name());
        let (width, padded) = (shape.width(), shape.padded_width());
        assert!(
            n.checked_mul(width) == Some(transformed.len()),
            "{} numbers are not {n} states of {width}",
            transformed.len()
        );
        self.states = n;
        self.planes = planes;
        let count = self.count();
        self.words.resize(count * padded / LANE, 0);
        self.sums.resize(count, 0);
        self.steps.resize(n, 0.0);
        self.lost.resize(n, 0.0);
        self.integers.clear();
        self.integers.resize(self.planes * padded, 0); // the padding stays 0
        for (at, state) in transformed.chunks_exact(width).enumerate() {
            let (high, low) = self.integers.split_at_mut(padded);
            let low = if self.planes == 2 { &mut low[..width] } else { &mut [] };
            let rounded = rounded(isa, state, &mut high[..width], low);
            self.steps[at] = rounded.step;
            self.lost[at] = rounded.lost;
            for (plane, integers) in self.integers.chunks_exact(padded).enumerate() {
                let query = at * self.planes + plane;
                self.sums[query] = rounded.sums[plane];
                spread(integers, shape.bits().segments(), &mut self.words[query..], count);
            }
        }
    }

    /// n.
    pub const fn states(&self) -> usize {
        self.states
    }

    /// Queries of a state.
    pub const fn planes(&self) -> usize {
        self.planes
    }

    /// m, all queries.
    pub const fn count(&self) -> usize {
        self.states * self.planes
    }

    /// `(lanes, segments, m)`: byte j of word (k, s, query), from the lowest one, is the integer of coordinate
    /// s * row bytes + 4 k + j, and 0 where that is padding.
    pub fn words(&self) -> &[i32] {
        &self.words
    }

    /// `(m,)`: the sum of all integers of a query.
    pub fn sums(&self) -> &[i32] {
        &self.sums
    }

    /// `(n,)`: what the integers of a state are multiples of.
    ///
    /// Infinite where a state is not finite: its integers are 0, and it must be refused. 0 where a state is 0, or so small
    /// (below 3.8e-37, or 4.8e-35 at 8 bits) that the inverse of its step is no float32: its integers are 0, and `lost` is all of
    /// its length.
    pub fn steps(&self) -> &[f32] {
        &self.steps
    }

    /// `(n,)`: the distance of a state from its integers times its step; rounded up, so never less than the true one.
    pub fn lost(&self) -> &[f32] {
        &self.lost
    }
}

/// Writes the integers of a query as words, `apart` from one another.
fn spread(integers: &[i8], segments: usize, words: &mut [i32], apart: usize) {
    let (fours, _) = integers.as_chunks::<LANE>();
    let lanes = fours.len() / segments;
    for (segment, fours) in fours.chunks_exact(lanes).enumerate() {
        for (lane, four) in fours.iter().enumerate() {
            words[(lane * segments + segment) * apart] = i32::from_le_bytes(four.map(i8::cast_unsigned));
        }
    }
}

/// Rounds a state to integers: of one plane where `low` is empty.
fn rounded(isa: Isa, state: &[f32], high: &mut [i8], low: &mut [i8]) -> Rounded {
    match isa {
        // SAFETY: the processor has these instructions, as `fill` has asserted.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { rounded_avx512(state, high, low) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { rounded_avx2(state, high, low) },
        _ => rounded_anywhere(state, high, low),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn rounded_avx512(state: &[f32], high: &mut [i8], low: &mut [i8]) -> Rounded {
    rounded_anywhere(state, high, low)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn rounded_avx2(state: &[f32], high: &mut [i8], low: &mut [i8]) -> Rounded {
    rounded_anywhere(state, high, low)
}

/// The same bits, whatever the compiler makes of it: nothing is added in another order, nothing is fused.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of whoever calls it")]
fn rounded_anywhere(state: &[f32], high: &mut [i8], low: &mut [i8]) -> Rounded {
    // As integers, the sign cleared, floats are in the order of their sizes: infinity behind all numbers, NaN behind it.
    let largest = f32::from_bits(
        state
            .iter()
            .fold(0, |largest, number| largest.max(number.to_bits() & 0x7FFF_FFFF)),
    );
    let levels = if low.is_empty() { SINGLE } else { DOUBLE };
    let (mut inverse, mut step) = (levels / largest, largest / levels);
    if !largest.is_finite() {
        high.fill(0);
        low.fill(0);
        return Rounded {
            step: f32::INFINITY,
            lost: f32::INFINITY,
            sums: [0; 2],
        };
    }
    if !inverse.is_finite() {
        (inverse, step) = (0.0, 0.0);
    }
    let mut sums = [[0_i32; SUMS]; 2];
    let mut gaps = [0.0_f64; SUMS];
    let mut place = |lane: usize, number: f32, high: &mut i8, low: Option<&mut i8>| {
        let integer = (number * inverse + ROUNDING).to_bits().cast_signed() - ROUNDING.to_bits().cast_signed();
        // Exact but for the last rounding: a step has 24 bits, an integer 15.
        let gap = f64::from(number) - f64::from(step) * f64::from(integer);
        gaps[lane] += gap * gap;
        if let Some(low) = low {
            let upper = (integer + 64) >> 7;
            *high = upper as i8;
            *low = (integer - 128 * upper) as i8;
            sums[0][lane] += upper;
            sums[1][lane] += integer - 128 * upper;
        } else {
            *high = integer as i8;
            sums[0][lane] += integer;
        }
    };
    let (states, rest) = state.as_chunks::<SUMS>();
    let (highs, rest_high) = high.as_chunks_mut::<SUMS>();
    let (lows, rest_low) = low.as_chunks_mut::<SUMS>();
    if lows.is_empty() && rest_low.is_empty() {
        for (state, high) in states.iter().zip(highs) {
            for lane in 0..SUMS {
                place(lane, state[lane], &mut high[lane], None);
            }
        }
        for (lane, (&number, high)) in rest.iter().zip(rest_high).enumerate() {
            place(lane, number, high, None);
        }
    } else {
        for ((state, high), low) in states.iter().zip(highs).zip(lows) {
            for lane in 0..SUMS {
                place(lane, state[lane], &mut high[lane], Some(&mut low[lane]));
            }
        }
        for (lane, ((&number, high), low)) in rest.iter().zip(rest_high).zip(rest_low).enumerate() {
            place(lane, number, high, Some(low));
        }
    }
    let lost = gaps.iter().sum::<f64>().sqrt();
    Rounded {
        step,
        lost: upwards(lost),
        sums: sums.map(|sums| sums.iter().sum()),
    }
}

/// A float32 that is not below `exact`, nor below what that is but for the errors of a few thousand float64 sums.
fn upwards(exact: f64) -> f32 {
    if exact == 0.0 {
        0.0
    } else {
        ((exact * (1.0 + 1e-9)) as f32).next_up()
    }
}
