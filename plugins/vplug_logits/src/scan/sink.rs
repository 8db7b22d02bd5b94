//! What becomes of a block's sums. Plain code, inlined into each path and compiled there for its instructions: so what
//! is rounded, and in which order, is written once.

use std::array::from_fn;

use super::{Dots, Rows, Scan};
use crate::layout::{BLOCK, GROUPS, SUPER};

/// Takes the sums of a block.
pub(super) trait Sink {
    /// # Parameters
    ///
    /// `first`: the query of `dots[0]`, the first one of its state. `count`: queries. `scales`: of the block's rows.
    fn take(&mut self, block: usize, first: usize, count: usize, scales: &[f32; BLOCK], dots: &Dots);
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
    fn take(&mut self, block: usize, first: usize, count: usize, scales: &[f32; BLOCK], dots: &Dots) {
        let column = (block - self.first) * BLOCK;
        let rows = existing(&self.scan, block);
        if self.scan.planes == 1 {
            for (query, dots) in (first..).zip(&dots[..count]) {
                self.keep(
                    query,
                    column,
                    rows,
                    scales,
                    integers(&self.scan, query, dots).map(|integer| integer as f32),
                );
            }
        } else {
            for (state, [high, low]) in (first / 2..).zip(dots[..count].as_chunks().0) {
                let (high, low) = (
                    integers(&self.scan, 2 * state, high),
                    integers(&self.scan, 2 * state + 1, low),
                );
                let numbers = from_fn(|row| high[row] as f32 * 128.0 + low[row] as f32);
                self.keep(state, column, rows, scales, numbers);
            }
        }
    }
}

impl Estimates<'_> {
    #[inline(always)]
    fn keep(&mut self, state: usize, column: usize, rows: usize, scales: &[f32; BLOCK], numbers: [f32; BLOCK]) {
        let (factor, base) = (self.scan.factor[state], self.scan.base[state]);
        let estimates: [f32; BLOCK] = from_fn(|row| numbers[row] * (scales[row] * factor) + base);
        if let Some(whole) = self.target.numbers(state, column, rows).first_chunk_mut() {
            *whole = estimates;
            self.raise(state, column, &estimates);
        } else {
            self.keep_some(state, column, rows, estimates);
        }
    }

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
    pub kept: &'a mut [i32],
}

impl Sink for Integers<'_> {
    #[inline(always)]
    fn take(&mut self, block: usize, first: usize, count: usize, _scales: &[f32; BLOCK], dots: &Dots) {
        let column = (block - self.first) * BLOCK;
        let rows = existing(&self.scan, block);
        for (query, dots) in (first..).zip(&dots[..count]) {
            let kept = &mut self.kept[query * self.columns + column..][..rows];
            kept.copy_from_slice(&integers(&self.scan, query, dots)[..rows]);
        }
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
