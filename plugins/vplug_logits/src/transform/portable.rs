//! The sums of `transform`, in loops that compilers make vectors of.

use half::bf16;

use super::{Job, Part, ROWS};

/// Its exact value, without a branch on NaN.
fn widened(number: bf16) -> f32 {
    f32::from_bits(u32::from(number.to_bits()) << 16)
}

/// The columns of `job` from the one at `from` on, in float32.
pub(super) fn narrow(job: &mut Job<'_>, from: usize) {
    let (width, columns) = (job.width, job.columns);
    for out in job.out.chunks_exact_mut(columns) {
        out[from..].fill(0.0);
    }
    for row in (0..width).step_by(ROWS) {
        for (state, out) in job.states.chunks_exact(width).zip(job.out.chunks_exact_mut(columns)) {
            for (at, &factor) in state.iter().enumerate().skip(row).take(ROWS) {
                let begin = at * width + job.first;
                let line = &job.matrix[begin + from..begin + columns];
                for (sum, &number) in out[from..].iter_mut().zip(line) {
                    *sum += factor * widened(number);
                }
            }
        }
    }
}

/// Adds the products of a part of the matrix to its sums; see `super::wide`.
pub(super) fn add_wide(job: &Job<'_>, part: &Part, sums: &mut [f64]) {
    add_wide_from(job, part, part.columns.start, sums);
}

/// The same, from the column at `from` on.
pub(super) fn add_wide_from(job: &Job<'_>, part: &Part, from: usize, sums: &mut [f64]) {
    let columns = from - part.columns.start..part.columns.len();
    for (state, sums) in sums.chunks_exact_mut(part.padded).enumerate() {
        let sums = &mut sums[columns.clone()];
        for row in part.rows.clone() {
            let factor = f64::from(job.states[state * job.width + row]);
            let line = &job.matrix[row * job.width + job.first + from..][..sums.len()];
            for (sum, &number) in sums.iter_mut().zip(line) {
                *sum += factor * f64::from(widened(number));
            }
        }
    }
}
