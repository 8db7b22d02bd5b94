//! Exact logits of chosen rows: gathered dot products with the live weight.
//!
//! Coordinate c of a row is added, fused, to sum (c / 16) % 4 of lane c % 16. The four sums of a lane are added in pairs,
//! then the lanes, halves onto halves. So a logit is the same to the last bit with each set of instructions.
#![expect(
    unsafe_code,
    reason = "functions that need certain instructions are called where these were found"
)]

use half::{bf16, f16};

use crate::isa::Isa;
use crate::weight::{Numbers, Weight};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

/// Lanes of a sum.
const LANES: usize = 16;
/// Sums of a lane.
const CHAINS: usize = 4;
/// Bytes that memory gives at once.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// Different rows that are asked for ahead of their turn.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 4;

/// Pairs of rows and states to multiply; all lengths fit each other, all rows and owners exist.
struct Job<'a, T> {
    /// Row after row.
    numbers: &'a [T],
    /// Numbers from one row to the next.
    stride: usize,
    /// Numbers of a row and of a state.
    width: usize,
    /// `(pairs,)`.
    rows: &'a [u32],
    /// `(pairs,)`.
    owners: &'a [u32],
    /// `(n, width)`.
    states: &'a [f32],
    /// `(pairs,)`.
    out: &'a mut [f32],
}

/// Numbers of a weight, of which each is a float32.
trait Widen: Copy {
    /// The same number.
    fn widened(self) -> f32;
}

impl Widen for f32 {
    fn widened(self) -> f32 {
        self
    }
}

impl Widen for bf16 {
    fn widened(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

impl Widen for f16 {
    fn widened(self) -> f32 {
        self.to_f32()
    }
}

/// Writes `weight[rows[k]] . states[owners[k]]` to `out[k]`, in float32.
///
/// Any order of pairs is right; where those of one row follow each other, it is fetched once (and loaded once for up to
/// four of them with AVX-512).
///
/// # Parameters
///
/// `states`: h, `(n, weight.width())`. `rows`, `owners`, `out`: `(pairs,)`.
///
/// # Panics
///
/// Lengths that do not fit each other, rows or owners that do not exist, or instructions that this processor has not.
pub fn rescore(isa: Isa, weight: &Weight<'_>, rows: &[u32], owners: &[u32], states: &[f32], out: &mut [f32]) {
    assert!(isa.runs_here(), "{} does not run here", isa.name());
    let width = weight.width();
    assert!(
        states.len().is_multiple_of(width),
        "{} numbers are no states of {width}",
        states.len()
    );
    assert!(
        rows.len() == out.len() && owners.len() == out.len(),
        "{} rows and {} owners for {} logits",
        rows.len(),
        owners.len(),
        out.len()
    );
    let Some((&row, &owner)) = rows.iter().max().zip(owners.iter().max()) else {
        return;
    };
    assert!((row as usize) < weight.rows(), "row {row} of {}", weight.rows());
    assert!(
        (owner as usize) < states.len() / width,
        "state {owner} of {}",
        states.len() / width
    );
    match weight.numbers() {
        Numbers::Single(numbers) => run(isa, numbers, weight, rows, owners, states, out),
        Numbers::Brain(numbers) => run(isa, numbers, weight, rows, owners, states, out),
        Numbers::Half(numbers) => run(isa, numbers, weight, rows, owners, states, out),
    }
}

fn run<T: Number>(
    isa: Isa,
    numbers: &[T],
    weight: &Weight<'_>,
    rows: &[u32],
    owners: &[u32],
    states: &[f32],
    out: &mut [f32],
) {
    let job = &mut Job {
        numbers,
        stride: weight.stride(),
        width: weight.width(),
        rows,
        owners,
        states,
        out,
    };
    match isa {
        // SAFETY: the processor has these instructions, as asserted at the entry.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512::run(job) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::run(job) },
        _ => portable::run(job),
    }
}

/// What each set of instructions can load.
#[cfg(target_arch = "x86_64")]
trait Number: avx2::Load + avx512::Load {}
#[cfg(target_arch = "x86_64")]
impl<T: avx2::Load + avx512::Load> Number for T {}
#[cfg(not(target_arch = "x86_64"))]
trait Number: Widen {}
#[cfg(not(target_arch = "x86_64"))]
impl<T: Widen> Number for T {}

/// The rows of pairs, each that differs from the one before it, as they are asked for ahead of their turn.
#[cfg(target_arch = "x86_64")]
struct Ahead<'a> {
    rows: &'a [u32],
}

#[cfg(target_arch = "x86_64")]
impl<'a> Ahead<'a> {
    /// Asks for the first ones, and stands behind these.
    fn of<T>(job: &Job<'a, T>) -> Self {
        let mut ahead = Self { rows: job.rows };
        for _ in 0..AHEAD {
            let Some(begin) = ahead.next(job) else { break };
            for at in (0..job.width).step_by(LINE / size_of::<T>()) {
                ask(begin.wrapping_add(at));
            }
        }
        ahead
    }

    /// Where the next row begins.
    #[inline]
    fn next<T>(&mut self, job: &Job<'_, T>) -> Option<*const T> {
        let (&row, mut rest) = self.rows.split_first()?;
        while let Some((&same, after)) = rest.split_first()
            && same == row
        {
            rest = after;
        }
        self.rows = rest;
        Some(job.numbers.as_ptr().wrapping_add(row as usize * job.stride))
    }
}

/// Asks for the cache line of a number.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ask<T>(number: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    // SAFETY: asking for memory is no access: any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(number.cast()) };
}
