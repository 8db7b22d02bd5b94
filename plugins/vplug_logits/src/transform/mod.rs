//! From hidden states to the coordinates of the codes: h' = h T, for a range of the columns of T.
//!
//! The sum of a column runs over its rows in order, in one accumulator, so it is the same to the last bit with each set of
//! instructions, at each number of states, and however the columns are divided among threads. T is read once.
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

/// Rows of T that are gone through together: their products are added before an accumulator is stored again.
const ROWS: usize = 8;
/// States whose float64 accumulators are kept at once.
const GROUP: usize = 16;
/// Float64 accumulators that are kept at once: 32 KiB, so that they stay in the nearest cache.
const KEPT: usize = 4096;

/// Columns of T to multiply states with; all lengths fit each other.
struct Job<'a> {
    /// `(width, width)`, by rows.
    matrix: &'a [bf16],
    /// d, not 0.
    width: usize,
    /// `(many, width)`.
    states: &'a [f32],
    /// n.
    many: usize,
    /// The first of the columns.
    first: usize,
    /// How many columns, at least one; `first + columns <= width`.
    columns: usize,
    /// `(many, columns)`.
    out: &'a mut [f32],
}

impl<'a> Job<'a> {
    /// `None` where there is nothing to do.
    fn checked(
        matrix: &'a [bf16],
        width: usize,
        states: &'a [f32],
        columns: Range<usize>,
        out: &'a mut [f32],
    ) -> Option<Self> {
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
        let job = Self {
            matrix,
            width,
            states,
            many,
            first: columns.start,
            columns: columns.len(),
            out,
        };
        (!job.out.is_empty()).then_some(job)
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
    let Some(mut job) = Job::checked(matrix, width, states, columns, out) else {
        return;
    };
    match isa {
        // SAFETY: the processor has these instructions, as asserted above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512::narrow(&mut job) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::narrow(&mut job) },
        _ => portable::narrow(&mut job, 0),
    }
}

/// As `transform`, but in float64, where the products are exact; h' is rounded at the end.
///
/// # Panics
///
/// As `transform`.
pub fn transform_wide(isa: Isa, matrix: &[bf16], width: usize, states: &[f32], columns: Range<usize>, out: &mut [f32]) {
    assert!(isa.runs_here(), "{} does not run here", isa.name());
    let Some(mut job) = Job::checked(matrix, width, states, columns, out) else {
        return;
    };
    match isa {
        // SAFETY: the processor has these instructions, as asserted above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512::wide(&mut job) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::wide(&mut job) },
        _ => portable::wide(&mut job, 0),
    }
}

/// The length of a vector, summed in float64 and rounded to the nearest float32.
pub fn length(vector: &[f32]) -> f32 {
    let (chunks, rest) = vector.as_chunks::<8>();
    let mut sums = [0.0_f64; 8];
    for chunk in chunks {
        for (sum, &number) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(number) * f64::from(number);
        }
    }
    for (sum, &number) in sums.iter_mut().zip(rest) {
        *sum += f64::from(number) * f64::from(number);
    }
    sums.iter().sum::<f64>().sqrt() as f32
}
