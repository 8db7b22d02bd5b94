//! The sums of `transform` with AVX-512: 64 columns of up to four states in registers.
#![expect(unsafe_code, reason = "vectors are loaded from and stored to addresses")]

use std::arch::x86_64::{
    __m512, __m512d, __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_maskz_loadu_epi16, _mm512_add_ps,
    _mm512_castps512_ps256, _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_cvtps_pd, _mm512_extractf32x8_ps,
    _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_epi16, _mm512_maskz_loadu_ps, _mm512_maskz_permutexvar_epi16, _mm512_mul_ps, _mm512_set1_pd,
    _mm512_set1_ps, _mm512_setzero_pd, _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_pd, _mm512_storeu_ps,
};
use std::ops::Range;

use super::{GROUP, Job, KEPT, ROWS};

/// Numbers of bfloat16 in a register.
const PAIR: usize = 32;
/// Words of one half of a register, each in the upper half of its place; the places between stay free.
const LOWER: [u16; PAIR] = places(0);
/// The same of the other half.
const UPPER: [u16; PAIR] = places(16);

const fn places(first: u16) -> [u16; PAIR] {
    let mut places = [0; PAIR];
    let mut at = 0;
    while at < PAIR {
        places[at] = first + at as u16 / 2;
        at += 1;
    }
    places
}

/// All columns, in float32.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn narrow(job: &mut Job<'_>) {
    for row in (0..job.width).step_by(ROWS) {
        let rows = row..job.width.min(row + ROWS);
        let whole = job.columns - job.columns % (2 * PAIR);
        for column in (0..whole).step_by(2 * PAIR) {
            ahead(job, &rows, column);
            states::<2>(job, &rows, column);
        }
        for column in (whole..job.columns).step_by(PAIR) {
            states::<1>(job, &rows, column);
        }
    }
}

/// Asks for the columns at `column` of the rows that come after `rows`.
#[target_feature(enable = "avx512f,avx512bw")]
fn ahead(job: &Job<'_>, rows: &Range<usize>, column: usize) {
    for row in rows.end..rows.end + ROWS {
        let line = job.matrix.as_ptr().wrapping_add(row * job.width + job.first + column);
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
        _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(PAIR).cast());
    }
}

/// `PAIRS` registers of columns from the one at `column` on, for all states.
#[target_feature(enable = "avx512f,avx512bw")]
fn states<const PAIRS: usize>(job: &mut Job<'_>, rows: &Range<usize>, column: usize) {
    let mut state = 0;
    while job.many - state >= 4 {
        block::<4, PAIRS>(job, rows, column, state);
        state += 4;
    }
    match job.many - state {
        3 => block::<3, PAIRS>(job, rows, column, state),
        2 => block::<2, PAIRS>(job, rows, column, state),
        1 => block::<1, PAIRS>(job, rows, column, state),
        _ => (),
    }
}

/// Adds the products of `rows` to `STATES` x `PAIRS` x 32 sums, which begin with the first row; a single pair may go beyond
/// the last column.
#[target_feature(enable = "avx512f,avx512bw")]
fn block<const STATES: usize, const PAIRS: usize>(job: &mut Job<'_>, rows: &Range<usize>, column: usize, state: usize) {
    debug_assert!(state + STATES <= job.many && rows.end <= job.width);
    debug_assert!(PAIRS == 1 || column + PAIRS * PAIR <= job.columns);
    let mask = if PAIRS == 1 {
        first(job.columns - column)
    } else {
        u32::MAX
    };
    let halves = [mask as u16, (mask >> 16) as u16];
    // SAFETY: tables of the size of a register.
    let places = unsafe {
        [
            _mm512_loadu_si512(LOWER.as_ptr().cast()),
            _mm512_loadu_si512(UPPER.as_ptr().cast()),
        ]
    };
    let mut sums = [[[_mm512_setzero_ps(); 2]; PAIRS]; STATES];
    if rows.start > 0 {
        for (at, sums) in sums.iter_mut().enumerate() {
            for (pair, sums) in sums.iter_mut().enumerate() {
                for (half, sum) in sums.iter_mut().enumerate() {
                    let from = job
                        .out
                        .as_ptr()
                        .wrapping_add((state + at) * job.columns + column + pair * PAIR + half * 16);
                    // SAFETY: these lie in the row of a state, where the mask ends it or all columns are there.
                    *sum = unsafe {
                        if PAIRS == 1 {
                            _mm512_maskz_loadu_ps(halves[half], from)
                        } else {
                            _mm512_loadu_ps(from)
                        }
                    };
                }
            }
        }
    }
    for row in rows.clone() {
        let line = job.matrix.as_ptr().wrapping_add(row * job.width + job.first + column);
        let mut numbers = [[_mm512_setzero_ps(); 2]; PAIRS];
        for (pair, numbers) in numbers.iter_mut().enumerate() {
            let from = line.wrapping_add(pair * PAIR).cast();
            // SAFETY: the row is one of the matrix, and its columns end where the mask does or later.
            let words = unsafe {
                if PAIRS == 1 {
                    _mm512_maskz_loadu_epi16(mask, from)
                } else {
                    _mm512_loadu_si512(from.cast())
                }
            };
            *numbers = [widened(words, places[0]), widened(words, places[1])];
        }
        for (at, sums) in sums.iter_mut().enumerate() {
            // SAFETY: number `row` of a state, of which there are `many`.
            let factor = _mm512_set1_ps(unsafe { *job.states.get_unchecked((state + at) * job.width + row) });
            for (sums, numbers) in sums.iter_mut().zip(&numbers) {
                for (sum, &number) in sums.iter_mut().zip(numbers) {
                    *sum = _mm512_add_ps(*sum, _mm512_mul_ps(factor, number));
                }
            }
        }
    }
    for (at, sums) in sums.iter().enumerate() {
        for (pair, sums) in sums.iter().enumerate() {
            for (half, &sum) in sums.iter().enumerate() {
                let to = job
                    .out
                    .as_mut_ptr()
                    .wrapping_add((state + at) * job.columns + column + pair * PAIR + half * 16);
                // SAFETY: as they were read.
                unsafe {
                    if PAIRS == 1 {
                        _mm512_mask_storeu_ps(to, halves[half], sum);
                    } else {
                        _mm512_storeu_ps(to, sum);
                    }
                }
            }
        }
    }
}

/// A mask of the first numbers of 32.
fn first(many: usize) -> u32 {
    if many >= PAIR { u32::MAX } else { (1 << many) - 1 }
}

/// Sixteen numbers of bfloat16 at `places`, as float32.
#[target_feature(enable = "avx512f,avx512bw")]
fn widened(words: __m512i, places: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAA_AAAA, places, words))
}

/// Sixteen columns of float64 sums.
const SIXTEEN: usize = 16;

/// All columns, in float64: for so many columns at a time that the sums of a group of states stay near.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn wide(job: &mut Job<'_>) {
    let mut kept = [0.0_f64; KEPT];
    for state in (0..job.many).step_by(GROUP) {
        let many = GROUP.min(job.many - state);
        let stripe = KEPT / many.next_power_of_two();
        for column in (0..job.columns).step_by(stripe) {
            let columns = column..job.columns.min(column + stripe);
            let padded = columns.len().next_multiple_of(SIXTEEN);
            let sums = &mut kept[..many * padded];
            sums.fill(0.0);
            for row in (0..job.width).step_by(ROWS) {
                let rows = row..job.width.min(row + ROWS);
                wide_rows(job, state, many, &rows, &columns, sums);
            }
            for (at, sums) in sums.chunks_exact(padded).enumerate() {
                let begin = (state + at) * job.columns;
                for (number, &sum) in job.out[begin + columns.start..begin + columns.end].iter_mut().zip(sums) {
                    *number = sum as f32;
                }
            }
        }
    }
}

/// Adds the products of `rows` to the sums of the states from `state` on, `(many, padded)`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn wide_rows(job: &Job<'_>, state: usize, many: usize, rows: &Range<usize>, columns: &Range<usize>, sums: &mut [f64]) {
    let padded = sums.len() / many;
    let mut factors = [[0.0_f64; GROUP]; ROWS];
    for (at, row) in rows.clone().enumerate() {
        for (of, factor) in factors[at][..many].iter_mut().enumerate() {
            *factor = f64::from(job.states[(state + of) * job.width + row]);
        }
    }
    for column in columns.clone().step_by(SIXTEEN) {
        ahead(job, rows, column);
        let sums = &mut sums[column - columns.start..];
        let mask = first((columns.end - column).min(SIXTEEN)) as u16;
        let mut of = 0;
        while of < many {
            match many - of {
                1 => wide_block::<1>(job, rows, column, mask, &factors, of, sums, padded),
                2 | 3 => wide_block::<2>(job, rows, column, mask, &factors, of, sums, padded),
                _ => wide_block::<4>(job, rows, column, mask, &factors, of, sums, padded),
            }
            of += match many - of {
                1 => 1,
                2 | 3 => 2,
                _ => 4,
            };
        }
    }
}

/// Adds the products of `rows` to sixteen sums of each of `STATES` states; where `sums` begins, the first one's column is.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[expect(clippy::too_many_arguments, reason = "the innermost loop, of one caller")]
fn wide_block<const STATES: usize>(
    job: &Job<'_>,
    rows: &Range<usize>,
    column: usize,
    mask: u16,
    factors: &[[f64; GROUP]; ROWS],
    of: usize,
    sums: &mut [f64],
    padded: usize,
) {
    let mut kept = [[_mm512_setzero_pd(); 2]; STATES];
    for (at, kept) in kept.iter_mut().enumerate() {
        let from = sums[(of + at) * padded..][..SIXTEEN].as_ptr();
        // SAFETY: sixteen numbers, as cut out above.
        *kept = unsafe { [_mm512_loadu_pd(from), _mm512_loadu_pd(from.add(8))] };
    }
    for (row, factors) in rows.clone().zip(factors) {
        let line = job.matrix.as_ptr().wrapping_add(row * job.width + job.first + column);
        // SAFETY: the row is one of the matrix, and its columns end where the mask does or later.
        let words = unsafe { _mm256_maskz_loadu_epi16(mask, line.cast()) };
        let numbers = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(words)));
        let numbers: [__m512d; 2] = [
            _mm512_cvtps_pd(_mm512_castps512_ps256(numbers)),
            _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(numbers)),
        ];
        for (at, kept) in kept.iter_mut().enumerate() {
            let factor = _mm512_set1_pd(factors[of + at]);
            for (sum, &number) in kept.iter_mut().zip(&numbers) {
                // The product is exact in float64, so that fusing changes nothing.
                *sum = _mm512_fmadd_pd(factor, number, *sum);
            }
        }
    }
    for (at, kept) in kept.iter().enumerate() {
        let to = sums[(of + at) * padded..][..SIXTEEN].as_mut_ptr();
        // SAFETY: sixteen numbers, as cut out above.
        unsafe {
            _mm512_storeu_pd(to, kept[0]);
            _mm512_storeu_pd(to.add(8), kept[1]);
        }
    }
}
