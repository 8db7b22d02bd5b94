//! What becomes of a block's sums. Plain code, inlined into each path and compiled there for its instructions: so what
//! is rounded, and in which order, is written once.

use std::array::from_fn;

use super::{Dots, Rows, Scan};
use crate::layout::{BLOCK, GROUPS, SUPER};

/// How often the first of two planes counts.
const HIGH: f64 = 128.0;

/// Takes the integers of a block.
pub(super) trait Sink {
    /// # Parameters
    ///
    /// `scales`: of the block's rows. `integers`: of `state`, exact; those of rows that do not exist mean nothing.
    fn take<N: Integer>(&mut self, block: usize, state: usize, scales: &[f32; BLOCK], integers: [N; BLOCK]);
}

/// A number without a fraction.
pub(super) trait Integer: Copy {
    /// Rounded once, half to even.
    fn to_f32(self) -> f32;
    /// The same number.
    fn to_i64(self) -> i64;
}

impl Integer for i32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }

    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.into()
    }
}

/// Up to 2^53 of either sign. A float64 becomes a float32 with instructions that processors have, an i64 need not.
impl Integer for f64 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }

    #[inline(always)]
    fn to_i64(self) -> i64 {
        self as i64
    }
}

/// Hands the integers of `count` queries to `sink`, where those of two planes come as one.
///
/// # Parameters
///
/// `first`: the query of `dots[0]`, the first one of its state.
#[inline(always)]
pub(super) fn give<S: Sink>(
    scan: &Scan<'_>,
    sink: &mut S,
    block: usize,
    (first, count): (usize, usize),
    scales: &[f32; BLOCK],
    dots: &Dots,
) {
    if scan.planes == 1 {
        for (state, dots) in (first..).zip(&dots[..count]) {
            sink.take(block, state, scales, integers(scan, state, dots));
        }
    } else {
        for (state, [high, low]) in (first / 2..).zip(dots[..count].as_chunks().0) {
            let (high, low) = (integers(scan, 2 * state, high), integers(scan, 2 * state + 1, low));
            let both: [_; BLOCK] = from_fn(|row| f64::from(high[row]) * HIGH + f64::from(low[row]));
            sink.take(block, state, scales, both);
        }
    }
}

/// Hands the integers of a state to `sink`, whose planes were summed at once: `dots` are sum(code * (128 * first + second)),
/// or sum(code * query) where there is one plane.
#[inline(always)]
pub(super) fn give_joined<S: Sink>(
    scan: &Scan<'_>,
    sink: &mut S,
    block: usize,
    state: usize,
    scales: &[f32; BLOCK],
    dots: &[f64; BLOCK],
) {
    let sum = match scan.sums[state * scan.planes..][..scan.planes] {
        [high, low] => f64::from(high) * HIGH + f64::from(low),
        ref sums => f64::from(sums[0]),
    };
    let offset = f64::from(scan.shape.bits().largest()) * sum;
    sink.take(block, state, scales, dots.map(|dot| 2.0 * dot - offset));
}

/// Makes estimates and maxima of them.
pub(super) struct Estimates<'a> {
    pub scan: Scan<'a>,
    /// The block that the first column belongs to.
    pub first: usize,
    pub target: Rows<'a>,
    pub maxima: Rows<'a>,
}

impl Sink for Estimates<'_> {
    #[inline(always)]
    fn take<N: Integer>(&mut self, block: usize, state: usize, scales: &[f32; BLOCK], integers: [N; BLOCK]) {
        let column = (block - self.first) * BLOCK;
        let rows = existing(&self.scan, block);
        let (factor, base) = (self.scan.factor[state], self.scan.base[state]);
        let estimates: [f32; BLOCK] = from_fn(|row| integers[row].to_f32() * (scales[row] * factor) + base);
        if let Some(whole) = self.target.numbers(state, column, rows).first_chunk_mut() {
            *whole = estimates;
            self.raise(state, column, &estimates);
        } else {
            self.keep_some(state, column, rows, estimates);
        }
    }
}

impl Estimates<'_> {
    /// The last block, apart, so that the estimates of the others stay in registers.
    #[cold]
    #[inline(never)]
    fn keep_some(&mut self, state: usize, column: usize, rows: usize, mut estimates: [f32; BLOCK]) {
        self.target
            .numbers(state, column, rows)
            .copy_from_slice(&estimates[..rows]);
        estimates[rows..].fill(f32::NEG_INFINITY);
        self.raise(state, column, &estimates);
    }

    /// Raises the maxima of a superblock, which its first block begins.
    #[inline(always)]
    fn raise(&mut self, state: usize, column: usize, estimates: &[f32; BLOCK]) {
        let maxima = &mut self
            .maxima
            .numbers(state, column / SUPER * GROUPS, GROUPS)
            .as_chunks_mut::<GROUPS>()
            .0[0];
        let mut highest = if column.is_multiple_of(SUPER) {
            [f32::NEG_INFINITY; GROUPS]
        } else {
            *maxima
        };
        for estimates in estimates.as_chunks::<GROUPS>().0 {
            highest = from_fn(|group| {
                if estimates[group] > highest[group] {
                    estimates[group]
                } else {
                    highest[group]
                }
            });
        }
        *maxima = highest;
    }
}

/// Keeps the integers.
pub(super) struct Integers<'a> {
    pub scan: Scan<'a>,
    /// The block that the first column belongs to.
    pub first: usize,
    pub columns: usize,
    pub kept: &'a mut [i64],
}

impl Sink for Integers<'_> {
    #[inline(always)]
    fn take<N: Integer>(&mut self, block: usize, state: usize, _scales: &[f32; BLOCK], integers: [N; BLOCK]) {
        let column = (block - self.first) * BLOCK;
        let rows = existing(&self.scan, block);
        let kept = &mut self.kept[state * self.columns + column..][..rows];
        kept.copy_from_slice(&integers.map(Integer::to_i64)[..rows]);
    }
}

/// How many rows of a block exist.
#[inline(always)]
fn existing(scan: &Scan<'_>, block: usize) -> usize {
    (scan.shape.vocabulary() - block * BLOCK).min(BLOCK)
}

/// 2 * dot - largest * sum: each step may wrap, but what comes out is a sum of (2 * code - largest) * query and fits.
#[inline(always)]
fn integers(scan: &Scan<'_>, query: usize, dots: &[i32; BLOCK]) -> [i32; BLOCK] {
    let offset = scan.shape.bits().largest().wrapping_mul(scan.sums[query]);
    dots.map(|dot| dot.wrapping_mul(2).wrapping_sub(offset))
}
