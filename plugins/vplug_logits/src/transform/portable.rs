//! The sums of `transform`, in loops that compilers make vectors of.

use half::bf16;

use super::{Job, ROWS};

/// Float64 accumulators that are kept at once.
const STRIPE: usize = 256;

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

/// The columns of `job` from the one at `from` on, in float64.
pub(super) fn wide(job: &mut Job<'_>, from: usize) {
    let (width, columns) = (job.width, job.columns);
    let mut kept = [0.0_f64; STRIPE];
    for (state, out) in job.states.chunks_exact(width).zip(job.out.chunks_exact_mut(columns)) {
        for begin in (from..columns).step_by(STRIPE) {
            let end = columns.min(begin + STRIPE);
            let sums = &mut kept[..end - begin];
            sums.fill(0.0);
            for (at, &factor) in state.iter().enumerate() {
                let line = &job.matrix[at * width + job.first..][begin..end];
                for (sum, &number) in sums.iter_mut().zip(line) {
                    *sum += f64::from(factor) * f64::from(widened(number));
                }
            }
            for (number, &sum) in out[begin..end].iter_mut().zip(&*sums) {
                *number = sum as f32;
            }
        }
    }
}
