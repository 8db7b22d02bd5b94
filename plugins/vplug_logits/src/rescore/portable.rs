//! The sums of `rescore`, in plain Rust.

use super::{CHAINS, Job, LANES, Widen};

/// All pairs.
pub(super) fn run<T: Widen>(job: &mut Job<'_, T>) {
    for ((out, &row), &owner) in job.out.iter_mut().zip(job.rows).zip(job.owners) {
        let numbers = &job.numbers[row as usize * job.stride..][..job.width];
        let state = &job.states[owner as usize * job.width..][..job.width];
        *out = dot(numbers, state);
    }
}

fn dot<T: Widen>(numbers: &[T], state: &[f32]) -> f32 {
    let mut sums = [[0.0_f32; LANES]; CHAINS];
    for (chunk, (numbers, state)) in numbers.chunks(LANES).zip(state.chunks(LANES)).enumerate() {
        for ((sum, number), &factor) in sums[chunk % CHAINS].iter_mut().zip(numbers).zip(state) {
            *sum = number.widened().mul_add(factor, *sum);
        }
    }
    folded(&sums)
}

/// All sums in one.
pub(super) fn folded(sums: &[[f32; LANES]; CHAINS]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for (lane, sum) in lanes.iter_mut().enumerate() {
        *sum = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
    }
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    lanes[0]
}
