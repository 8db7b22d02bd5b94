//! From hidden states to the coordinates of the codes: h' = h T, for a range of the columns of T.
//!
//! The sum of a column runs over its rows in order, in one accumulator, so it is the same to the last bit with each set of
//! instructions, at each number of states, and however the columns are divided among threads. T is read once for
//! eight states.
#![expect(
    unsafe_code,
    reason = "functions that need certain instructions are called where these were found"
)]

use std::ops::Range;

use half::bf16;

use crate::isa::Isa;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

/// Rows of T that are gone through together, so that a sum is loaded and stored once for all of them.
const ROWS: usize = 8;
/// States of one pass over T. More of them only push each other out of the nearest cache, and eight are busy for longer than
/// it takes to read T (measured).
const GROUP: usize = 8;
/// Float64 accumulators that are kept at once: 32 KiB, so that they stay in the nearest cache.
const KEPT: usize = 4096;
/// Float64 accumulators that are read and written at once.
const PADDING: usize = 16;

/// Columns of T to multiply states with; all lengths fit each other.
struct Job<'a> {
    /// `(width, width)`, by rows.
    matrix: &'a [bf16],
    /// d, not 0.
    width: usize,
    /// `(many, width)`.
    states: &'a [f32],
    /// n, up to `GROUP`.
    many: usize,
    /// The first of the columns.
    first: usize,
    /// How many columns, at least one; `first + columns <= width`.
    columns: usize,
    /// `(many, columns)`.
    out: &'a mut [f32],
}

/// Checks all lengths, then runs so many states at a time.
fn by_groups(
    matrix: &[bf16],
    width: usize,
    states: &[f32],
    columns: &Range<usize>,
    out: &mut [f32],
    run: impl Fn(&mut Job<'_>),
) {
    assert!(width > 0, "states without numbers");
    assert!(
        width.checked_mul(width) == Some(matrix.len()),
        "a matrix of {} numbers, not {width} x {width}",
        matrix.len()
    );
    assert!(
        states.len().is_multiple_of(width),
        "{} numbers are no states of {width}",
        states.len()
    );
    let many = states.len() / width;
    assert!(
        columns.start <= columns.end && columns.end <= width,
        "columns {columns:?} of a matrix of {width}"
    );
    assert!(
        many.checked_mul(columns.len()) == Some(out.len()),
        "room for {} numbers, not for {many} x {}",
        out.len(),
        columns.len()
    );
    if out.is_empty() {
        return;
    }
    let (first, columns) = (columns.start, columns.len());
    for (states, out) in states.chunks(GROUP * width).zip(out.chunks_mut(GROUP * columns)) {
        let many = states.len() / width;
        run(&mut Job {
            matrix,
            width,
            states,
            many,
            first,
            columns,
            out,
        });
    }
}

/// h' = h T in float32: products are rounded, then added.
///
/// # Parameters
///
/// `matrix`: T, `(width, width)` by rows. `states`: h, `(n, width)`. `columns`: those of T that are wanted. `out`: their h',
/// `(n, columns.len())`; what it held is not read.
///
/// # Panics
///
/// Lengths that do not fit each other, or instructions that this processor has not.
pub fn transform(isa: Isa, matrix: &[bf16], width: usize, states: &[f32], columns: Range<usize>, out: &mut [f32]) {
    assert!(isa.runs_here(), "{} does not run here", isa.name());
    by_groups(matrix, width, states, &columns, out, |job| match isa {
        // SAFETY: the processor has these instructions, as asserted above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512::narrow(job) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::narrow(job) },
        _ => portable::narrow(job, 0),
    });
}

/// As `transform`, but in float64, where the products are exact; h' is rounded at the end.
///
/// # Panics
///
/// As `transform`.
pub fn transform_wide(isa: Isa, matrix: &[bf16], width: usize, states: &[f32], columns: Range<usize>, out: &mut [f32]) {
    assert!(isa.runs_here(), "{} does not run here", isa.name());
    by_groups(matrix, width, states, &columns, out, |job| match isa {
        // SAFETY: the processor has these instructions, as asserted above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => wide(job, |job, part, sums| unsafe { avx512::add_wide(job, part, sums) }),
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => wide(job, |job, part, sums| unsafe { avx2::add_wide(job, part, sums) }),
        _ => wide(job, portable::add_wide),
    });
}

/// Rows and columns of the matrix, whose products are added to the sums of all states of a job.
struct Part {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Sums of a state: at least the columns, rounded up.
    padded: usize,
}

#[cfg(target_arch = "x86_64")]
impl Part {
    /// Where a cache line begins with `column`, asks for it in the rows that come next.
    #[inline]
    fn ask(&self, job: &Job<'_>, column: usize) {
        if (column - self.columns.start).is_multiple_of(32) {
            ask(job, &self.rows, column);
        }
    }
}

/// Asks for the cache line of `column` in as many rows as come after `rows`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ask(job: &Job<'_>, rows: &Range<usize>, column: usize) {
    for row in rows.end..rows.end + rows.len() {
        fetch(job.matrix.as_ptr().wrapping_add(row * job.width + job.first + column));
    }
}

/// Asks for the cache line of a number.
#[cfg(target_arch = "x86_64")]
#[inline]
fn fetch(number: *const bf16) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    // SAFETY: asking for memory is no access: any address will do.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(number.cast()) };
}

/// Float64 sums of all columns: of so many at a time that they stay near.
///
/// `add` adds the products of a part of the matrix to sums `(many, padded)`.
fn wide(job: &mut Job<'_>, add: impl Fn(&Job<'_>, &Part, &mut [f64])) {
    let mut kept = [0.0_f64; KEPT];
    let stripe = KEPT / job.many.next_power_of_two();
    for column in (0..job.columns).step_by(stripe) {
        let columns = column..job.columns.min(column + stripe);
        let padded = columns.len().next_multiple_of(PADDING);
        let sums = &mut kept[..job.many * padded];
        sums.fill(0.0);
        let mut part = Part {
            rows: 0..0,
            columns,
            padded,
        };
        for row in (0..job.width).step_by(ROWS) {
            part.rows = row..job.width.min(row + ROWS);
            add(job, &part, sums);
        }
        for (out, sums) in job.out.chunks_exact_mut(job.columns).zip(sums.chunks_exact(padded)) {
            for (number, &sum) in out[part.columns.clone()].iter_mut().zip(sums) {
                *number = sum as f32;
            }
        }
    }
}

/// The length of a vector, summed in float64 and rounded to the nearest float32.
pub fn length(vector: &[f32]) -> f32 {
    dot(vector, vector).sqrt() as f32
}

/// A dot product in float64, in eight sums.
pub fn dot(one: &[f32], other: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    for (one, other) in one.chunks(8).zip(other.chunks(8)) {
        for ((sum, &one), &other) in sums.iter_mut().zip(one).zip(other) {
            *sum += f64::from(one) * f64::from(other);
        }
    }
    sums.iter().sum()
}
