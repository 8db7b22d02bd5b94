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

/// All pairs: those of one row together, up to four at once, which load it once.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn run<T: Load>(job: &mut Job<'_, T>) {
    let mut ahead = Ahead::of(job);
    let mut pair = 0;
    for same in job.rows.chunk_by(|one, other| one == other) {
        let numbers = job.numbers.as_ptr().wrapping_add(same[0] as usize * job.stride);
        let mut next = ahead.next(job);
        let end = pair + same.len();
        while pair < end {
            // SAFETY: the row exists, as `rescore` has asserted, and has so many numbers.
            pair = unsafe {
                match (end - pair, next) {
                    (1, Some(next)) => dots::<T, 1, true>(job, numbers, pair, next),
                    (1, None) => dots::<T, 1, false>(job, numbers, pair, numbers),
                    (2 | 3, Some(next)) => dots::<T, 2, true>(job, numbers, pair, next),
                    (2 | 3, None) => dots::<T, 2, false>(job, numbers, pair, numbers),
                    (_, Some(next)) => dots::<T, 4, true>(job, numbers, pair, next),
                    (_, None) => dots::<T, 4, false>(job, numbers, pair, numbers),
                }
            };
            next = None;
        }
    }
}

/// Products of the row at `numbers` with the states of `MANY` pairs from `pair` on; returns the pair after them.
///
/// Asks for the numbers at `next` meanwhile (`ASK`).
///
/// # Safety
///
/// `job.width` numbers at `numbers`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn dots<T: Load, const MANY: usize, const ASK: bool>(
    job: &mut Job<'_, T>,
    numbers: *const T,
    pair: usize,
    next: *const T,
) -> usize {
    let width = job.width;
    let mut states = [job.states.as_ptr(); MANY];
    for (state, &owner) in states.iter_mut().zip(&job.owners[pair..pair + MANY]) {
        *state = state.wrapping_add(owner as usize * width);
    }
    let mut sums = [[_mm512_setzero_ps(); CHAINS]; MANY];
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
        for chain in 0..CHAINS {
            let from = at + chain * LANES;
            // SAFETY: four times sixteen numbers of the row are left, and of each state: the owners exist.
            unsafe {
                let row = T::load(numbers.add(from));
                for (sums, state) in sums.iter_mut().zip(&states) {
                    sums[chain] = _mm512_fmadd_ps(row, _mm512_loadu_ps(state.add(from)), sums[chain]);
                }
            }
        }
        at += CHAINS * LANES;
    }
    for chain in 0..CHAINS {
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
            let row = T::load_masked(mask, numbers.add(at));
            for (sums, state) in sums.iter_mut().zip(&states) {
                let factors = _mm512_maskz_loadu_ps(mask, state.add(at));
                sums[chain] = _mm512_mask3_fmadd_ps(row, factors, sums[chain], mask);
            }
        }
        at += LANES;
    }
    for (out, &sums) in job.out[pair..pair + MANY].iter_mut().zip(&sums) {
        *out = folded(sums);
    }
    pair + MANY
}

/// All sums in one.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn folded(sums: [__m512; CHAINS]) -> f32 {
    let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    let sum = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps::<1>(sum));
    let sum = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    _mm_cvtss_f32(_mm_add_ss(sum, _mm_shuffle_ps::<1>(sum, sum)))
}
