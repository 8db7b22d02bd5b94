//! The scan: int8 queries times the codes of all rows, made estimates, with the maximum of each group of rows.
//!
//! ```text
//! integer  = 2 * sum(code * query) - largest code * sum(query)                  (exact)
//! estimate = f32(integer) * (scale * factor) + base                             (f32, each step rounded)
//! ```
//!
//! A state of two planes has 128 * integer(first) + integer(second) instead, exact as well, so that a path may sum both
//! planes at once; only then it is rounded. The integers and, by the fixed order of the f32 steps, the estimates are the
//! same on each path and in each batch, to the last bit.
//!
//! A path goes through the codes once, block after block, with a few queries at a time; `sink` takes the sums.
#![expect(
    clippy::inline_always,
    reason = "what is inlined is compiled for the instructions of its caller"
)]

mod portable;
mod rows;
mod sink;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_eight;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::ops::Range;

use half::f16;

use crate::isa::Isa;
use crate::layout::{BLOCK, GROUPS, LANE, SUPER, Shape};
pub use rows::Rows;
use sink::{Estimates, Integers, Sink};

/// Bytes of one lane of a block.
const LANE_BYTES: usize = LANE * BLOCK;
/// The most queries that share a pass over a block.
const TOGETHER: usize = 8;
/// sum(code * query) of the rows of a block, for up to `TOGETHER` queries.
type Dots = [[i32; BLOCK]; TOGETHER];

/// What is scanned, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// The size of the sketch.
    pub shape: Shape,
    /// Its codes, as in `layout`.
    pub codes: &'a [u8],
    /// The scale of each padded row, finite.
    pub scale: &'a [f16],
    /// Four int8 each, of -127 to 127: `words[(lane * segments + segment) * queries + query]`, padding coordinates 0.
    pub words: &'a [i32],
    /// The sum of each query's int8.
    pub sums: &'a [i32],
    /// How many states there are.
    pub states: usize,
    /// Queries of each state, 1 or 2; they follow each other, and the first of two counts 128 times.
    pub planes: usize,
    /// By what a state's integers are multiplied besides the row's scale.
    pub factor: &'a [f32],
    /// What is added to a state's estimates.
    pub base: &'a [f32],
}

impl Scan<'_> {
    /// Writes the estimates and the groups' maxima of some superblocks.
    ///
    /// # Parameters
    ///
    /// `estimates`: `(states, columns(supers))`. `maxima`: `(states, 16 * supers.len())`; -inf where a group has no
    /// row.
    ///
    /// # Panics
    ///
    /// A slice has another length than the shape asks for, a superblock does not exist, or the processor lacks `isa`.
    pub fn run(&self, isa: Isa, supers: Range<usize>, estimates: &mut Rows<'_>, maxima: &mut Rows<'_>) {
        self.check(&supers);
        let columns = self.columns(&supers);
        assert_eq!(
            (estimates.rows(), estimates.columns()),
            (self.states, columns.len()),
            "size of `estimates`"
        );
        assert_eq!(
            (maxima.rows(), maxima.columns()),
            (self.states, GROUPS * supers.len()),
            "size of `maxima`"
        );
        self.lead(
            isa,
            supers,
            &mut Estimates {
                scan: *self,
                first: columns.start / BLOCK,
                target: estimates.borrowed(),
                maxima: maxima.borrowed(),
            },
        );
    }

    /// The rows of some superblocks: the last superblock may be short.
    pub fn columns(&self, supers: &Range<usize>) -> Range<usize> {
        let vocabulary = self.shape.vocabulary();
        (supers.start * SUPER).min(vocabulary)..(supers.end * SUPER).min(vocabulary)
    }

    /// The integers of some superblocks, `(states, columns(supers))`, for whoever compares the paths.
    ///
    /// # Panics
    ///
    /// As `run`.
    pub fn integers(&self, isa: Isa, supers: Range<usize>) -> Vec<i64> {
        self.check(&supers);
        let columns = self.columns(&supers);
        let mut integers = vec![0; self.states * columns.len()];
        self.lead(
            isa,
            supers,
            &mut Integers {
                scan: *self,
                first: columns.start / BLOCK,
                columns: columns.len(),
                kept: &mut integers,
            },
        );
        integers
    }

    #[cfg_attr(
        target_arch = "x86_64",
        expect(unsafe_code, reason = "only here is it asked what the processor has")
    )]
    fn lead(&self, isa: Isa, supers: Range<usize>, sink: &mut impl Sink) {
        assert!(isa.runs_here(), "this processor does not run {}", isa.name());
        let blocks = 4 * supers.start..(4 * supers.end).min(self.shape.blocks());
        match isa {
            Isa::Portable => portable::scan(self, blocks, sink),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has the instructions, as was just asked.
            Isa::Avx2 => unsafe { avx2::scan(self, blocks, sink) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has the instructions, as was just asked.
            Isa::Avx512 => unsafe { avx512::scan(self, blocks, sink) },
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => {}
        }
    }

    fn check(&self, supers: &Range<usize>) {
        let shape = &self.shape;
        assert!(
            supers.start <= supers.end && supers.end <= shape.supers(),
            "superblocks {supers:?} of {}",
            shape.supers()
        );
        assert!(matches!(self.planes, 1 | 2), "{} planes of a state", self.planes);
        assert_eq!(self.codes.len(), shape.code_bytes(), "length of `codes`");
        assert_eq!(self.scale.len(), shape.padded_rows(), "length of `scale`");
        let words = shape.lanes() * shape.bits().segments() * self.queries();
        assert_eq!(self.words.len(), words, "length of `words`");
        assert_eq!(self.sums.len(), self.queries(), "length of `sums`");
        assert_eq!(self.factor.len(), self.states, "length of `factor`");
        assert_eq!(self.base.len(), self.states, "length of `base`");
    }

    const fn queries(&self) -> usize {
        self.states * self.planes
    }

    /// The codes of a block.
    fn block(&self, block: usize) -> &[[u8; LANE_BYTES]] {
        let bytes = self.shape.block_bytes();
        self.codes[block * bytes..][..bytes].as_chunks().0
    }

    /// The scales of a block's rows.
    fn scales(&self, block: usize) -> &[f16] {
        &self.scale[block * BLOCK..][..BLOCK]
    }

    /// The queries, a few at a time: whole states, since `most` is even.
    fn batches(&self, most: usize) -> impl Iterator<Item = Batch<'_>> {
        let queries = self.queries();
        (0..queries).step_by(most).map(move |first| Batch {
            words: self.words,
            stride: queries,
            first,
            count: most.min(queries - first),
        })
    }
}

/// Queries that share a pass over a block.
#[derive(Clone, Copy)]
struct Batch<'a> {
    words: &'a [i32],
    stride: usize,
    first: usize,
    count: usize,
}

impl<'a> Batch<'a> {
    /// The words of each lane and, within, of each segment, those of `COUNT` queries at a time.
    #[inline(always)]
    fn lanes(self, segments: usize) -> impl Iterator<Item = Lane<'a>> {
        self.words.chunks_exact(segments * self.stride).map(move |words| Lane {
            words,
            stride: self.stride,
            first: self.first,
        })
    }
}

/// The words of one lane.
#[derive(Clone, Copy)]
struct Lane<'a> {
    words: &'a [i32],
    stride: usize,
    first: usize,
}

impl<'a> Lane<'a> {
    /// Those of one segment, of `COUNT` queries.
    #[inline(always)]
    fn segment<const COUNT: usize>(self, segment: usize) -> &'a [i32; COUNT] {
        &self.words[segment * self.stride + self.first..].as_chunks().0[0]
    }
}
