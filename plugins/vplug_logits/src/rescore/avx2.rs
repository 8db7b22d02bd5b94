//! The sums of `rescore` with AVX2: two registers for each of the four sums.
#![expect(unsafe_code, reason = "vectors are loaded from addresses")]
#![expect(clippy::inline_always, reason = "loads take the instructions of whoever calls them")]

use std::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_loadu_si128, _mm_movehl_ps, _mm_shuffle_ps, _mm256_add_ps,
    _mm256_castps256_ps128, _mm256_castsi256_ps, _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_extractf128_ps,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_storeu_ps,
};

use half::{bf16, f16};

use super::{Ahead, CHAINS, Job, LANES, LINE, Widen, ask};

/// Half of the lanes.
const HALF: usize = LANES / 2;

/// Eight numbers as float32.
pub(super) trait Load: Widen {
    /// # Safety
    ///
    /// AVX2 and F16C; eight numbers at `from`.
    unsafe fn load(from: *const Self) -> __m256;
}

impl Load for f32 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m256 {
        // SAFETY: the caller's.
        unsafe { _mm256_loadu_ps(from) }
    }
}

impl Load for bf16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m256 {
        // SAFETY: the caller's.
        unsafe {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(
                from.cast(),
            ))))
        }
    }
}

impl Load for f16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m256 {
        // SAFETY: the caller's.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
}

/// All pairs.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run<T: Load>(job: &mut Job<'_, T>) {
    let mut ahead = Ahead::of(job);
    let mut before = None;
    for pair in 0..job.out.len() {
        let (row, owner) = (job.rows[pair], job.owners[pair]);
        let numbers = job.numbers.as_ptr().wrapping_add(row as usize * job.stride);
        let state = job.states.as_ptr().wrapping_add(owner as usize * job.width);
        let next = if before == Some(row) { None } else { ahead.next(job) };
        before = Some(row);
        // SAFETY: the row and the state exist, as `rescore` has asserted, and have so many numbers.
        job.out[pair] = unsafe {
            match next {
                Some(next) => dot::<T, true>(numbers, state, job.width, next),
                None => dot::<T, false>(numbers, state, job.width, numbers),
            }
        };
    }
}

/// Asks for the numbers at `next` meanwhile.
///
/// # Safety
///
/// `width` numbers at both.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dot<T: Load, const ASK: bool>(numbers: *const T, state: *const f32, width: usize, next: *const T) -> f32 {
    let mut sums = [[_mm256_setzero_ps(); 2]; CHAINS];
    let mut at = 0;
    if ASK {
        ask(next.wrapping_add(width - 1)); // the last line, where the row does not end with one
    }
    while width - at >= CHAINS * LANES {
        if ASK {
            for from in (0..CHAINS * LANES).step_by(LINE / size_of::<T>()) {
                ask(next.wrapping_add(at + from));
            }
        }
        for (chain, sums) in sums.iter_mut().enumerate() {
            // SAFETY: four times sixteen numbers are left.
            unsafe { chunk(sums, numbers.add(at + chain * LANES), state.add(at + chain * LANES)) };
        }
        at += CHAINS * LANES;
    }
    let mut chain = 0;
    while width - at >= LANES {
        // SAFETY: sixteen numbers are left.
        unsafe { chunk(&mut sums[chain], numbers.add(at), state.add(at)) };
        at += LANES;
        chain += 1;
    }
    if at < width {
        let mut lanes = [0.0_f32; LANES];
        // SAFETY: room for sixteen numbers, and as many to read; one after another is left of both operands.
        unsafe {
            _mm256_storeu_ps(lanes.as_mut_ptr(), sums[chain][0]);
            _mm256_storeu_ps(lanes.as_mut_ptr().add(HALF), sums[chain][1]);
            for (lane, sum) in lanes.iter_mut().enumerate().take(width - at) {
                *sum = (*numbers.add(at + lane)).widened().mul_add(*state.add(at + lane), *sum);
            }
            sums[chain] = [
                _mm256_loadu_ps(lanes.as_ptr()),
                _mm256_loadu_ps(lanes.as_ptr().add(HALF)),
            ];
        }
    }
    let [first, second, third, fourth] = sums;
    let lower = _mm256_add_ps(_mm256_add_ps(first[0], second[0]), _mm256_add_ps(third[0], fourth[0]));
    let upper = _mm256_add_ps(_mm256_add_ps(first[1], second[1]), _mm256_add_ps(third[1], fourth[1]));
    let sum = _mm256_add_ps(lower, upper);
    let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps::<1>(sum, sum)))
}

/// Adds sixteen products.
///
/// # Safety
///
/// Sixteen numbers at both.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn chunk<T: Load>(sums: &mut [__m256; 2], numbers: *const T, state: *const f32) {
    for (half, sum) in sums.iter_mut().enumerate() {
        // SAFETY: eight of sixteen numbers.
        unsafe {
            let (numbers, state) = (
                T::load(numbers.add(half * HALF)),
                _mm256_loadu_ps(state.add(half * HALF)),
            );
            *sum = _mm256_fmadd_ps(numbers, state, *sum);
        }
    }
}
