//! What becomes of a block's sums. Plain code, inlined into each path and compiled there for its instructions: so what is
//! rounded, and in which order, is written once.

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
        let planes = self.scan.planes;
        let column = (block - self.first) * BLOCK;
        let rows = existing(&self.scan, block);
        for (state, dots) in (first / planes..).zip(dots[..count].chunks_exact(planes)) {
            let (factor, base) = (self.scan.factor[state], self.scan.base[state]);
            let mut numbers = [0.0; BLOCK];
            for (plane, dots) in dots.iter().enumerate() {
                for (number, integer) in numbers
                    .iter_mut()
                    .zip(integers(&self.scan, state * planes + plane, dots))
                {
                    *number = *number * 128.0 + integer as f32;
                }
            }
            for (number, scale) in numbers.iter_mut().zip(scales) {
                *number = *number * (scale * factor) + base;
            }
            self.target
                .numbers(state, column, rows)
                .copy_from_slice(&numbers[..rows]);
            numbers[rows..].fill(f32::NEG_INFINITY);

            let maxima = self.maxima.numbers(state, column / SUPER * GROUPS, GROUPS);
            if column.is_multiple_of(SUPER) {
                maxima.fill(f32::NEG_INFINITY);
            }
            for numbers in numbers.chunks_exact(GROUPS) {
                for (maximum, number) in maxima.iter_mut().zip(numbers) {
                    *maximum = if *number > *maximum { *number } else { *maximum };
                }
            }
        }
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
