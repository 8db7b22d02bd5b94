//! The sums of `rescore` with AVX-512: a register for each of the four sums.
#![expect(unsafe_code, reason = "vectors are loaded from addresses")]
#![expect(clippy::inline_always, reason = "loads take the instructions of whoever calls them")]

use std::arch::x86_64::{
    __m512, __mmask16, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehl_ps, _mm_shuffle_ps, _mm256_add_ps,
    _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_loadu_si256, _mm256_maskz_loadu_epi16, _mm512_add_ps,
    _mm512_castps512_ps256, _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_extractf32x8_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask3_fmadd_ps, _mm512_maskz_loadu_ps, _mm512_setzero_ps,
    _mm512_slli_epi32,
};

use half::{bf16, f16};

use super::{Ahead, CHAINS, Job, LANES, LINE, Widen, ask};

/// Sixteen numbers as float32.
pub(super) trait Load: Widen {
    /// # Safety
    ///
    /// AVX-512 F, BW and VL; sixteen numbers at `from`.
    unsafe fn load(from: *const Self) -> __m512;

    /// # Safety
    ///
    /// AVX-512 F, BW and VL; numbers at `from` where the mask has ones.
    unsafe fn load_masked(mask: __mmask16, from: *const Self) -> __m512;
}

impl Load for f32 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_masked(mask: __mmask16, from: *const Self) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }
}

impl Load for bf16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m512 {
        // SAFETY: the caller's.
        unsafe {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(
                from.cast(),
            ))))
        }
    }

    #[inline(always)]
    unsafe fn load_masked(mask: __mmask16, from: *const Self) -> __m512 {
        // SAFETY: the caller's.
        unsafe {
            let words = _mm256_maskz_loadu_epi16(mask, from.cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(words)))
        }
    }
}

impl Load for f16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_masked(mask: __mmask16, from: *const Self) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.cast())) }
    }
}

/// All pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn dot<T: Load, const ASK: bool>(numbers: *const T, state: *const f32, width: usize, next: *const T) -> f32 {
    let mut sums = [_mm512_setzero_ps(); CHAINS];
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
        for (chain, sum) in sums.iter_mut().enumerate() {
            // SAFETY: four times sixteen numbers are left.
            unsafe {
                let from = at + chain * LANES;
                *sum = _mm512_fmadd_ps(T::load(numbers.add(from)), _mm512_loadu_ps(state.add(from)), *sum);
            }
        }
        at += CHAINS * LANES;
    }
    for sum in &mut sums {
        if at >= width {
            break;
        }
        let mask = if width - at >= LANES {
            u16::MAX
        } else {
            (1 << (width - at)) - 1
        };
        // SAFETY: the numbers that are left, up to sixteen; lanes without one keep their sums.
        unsafe {
            let factors = _mm512_maskz_loadu_ps(mask, state.add(at));
            *sum = _mm512_mask3_fmadd_ps(T::load_masked(mask, numbers.add(at)), factors, *sum, mask);
        }
        at += LANES;
    }
    let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    let sum = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps::<1>(sum));
    let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps::<1>(sum, sum)))
}
