//! The sums of `transform` with AVX2: sixteen columns of up to four states in registers.
#![expect(unsafe_code, reason = "vectors are loaded from and stored to addresses")]

use std::arch::x86_64::{
    __m256, __m256d, _mm_loadu_si128, _mm256_add_ps, _mm256_castps256_ps128, _mm256_castsi256_ps,
    _mm256_cvtepu16_epi32, _mm256_cvtps_pd, _mm256_extractf128_ps, _mm256_fmadd_pd, _mm256_loadu_pd, _mm256_loadu_ps,
    _mm256_mul_ps, _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_pd, _mm256_setzero_ps, _mm256_slli_epi32,
    _mm256_storeu_pd, _mm256_storeu_ps,
};
use std::ops::Range;

use super::{Job, Part, ROWS, ask, portable};

/// Columns that are summed at once.
const SIXTEEN: usize = 16;
/// Columns of a cache line.
const LINE: usize = 32;

/// All columns, in float32.
#[target_feature(enable = "avx2")]
pub(super) fn narrow(job: &mut Job<'_>) {
    let whole = job.columns - job.columns % SIXTEEN;
    for row in (0..job.width).step_by(ROWS) {
        let rows = row..job.width.min(row + ROWS);
        for column in (0..whole).step_by(SIXTEEN) {
            if column % LINE == 0 {
                ask(job, &rows, column);
            }
            let mut state = 0;
            while job.many - state >= 4 {
                block::<4>(job, &rows, column, state);
                state += 4;
            }
            match job.many - state {
                3 => block::<3>(job, &rows, column, state),
                2 => block::<2>(job, &rows, column, state),
                1 => block::<1>(job, &rows, column, state),
                _ => (),
            }
        }
    }
    portable::narrow(job, whole);
}

/// Adds the products of `rows` to `STATES` x 16 sums, which begin with the first row.
#[target_feature(enable = "avx2")]
fn block<const STATES: usize>(job: &mut Job<'_>, rows: &Range<usize>, column: usize, state: usize) {
    assert!(state + STATES <= job.many && rows.end <= job.width && column + SIXTEEN <= job.columns);
    let mut sums = [[_mm256_setzero_ps(); 2]; STATES];
    if rows.start > 0 {
        for (at, sums) in sums.iter_mut().enumerate() {
            let from = job.out.as_ptr().wrapping_add((state + at) * job.columns + column);
            // SAFETY: sixteen columns of a state.
            *sums = unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] };
        }
    }
    for row in rows.clone() {
        let numbers = widened(job, row, column);
        for (at, sums) in sums.iter_mut().enumerate() {
            // SAFETY: number `row` of a state, of which there are `many`.
            let factor = _mm256_set1_ps(unsafe { *job.states.get_unchecked((state + at) * job.width + row) });
            for (sum, &number) in sums.iter_mut().zip(&numbers) {
                *sum = _mm256_add_ps(*sum, _mm256_mul_ps(factor, number));
            }
        }
    }
    for (at, sums) in sums.iter().enumerate() {
        let to = job.out.as_mut_ptr().wrapping_add((state + at) * job.columns + column);
        // SAFETY: as they were read.
        unsafe {
            _mm256_storeu_ps(to, sums[0]);
            _mm256_storeu_ps(to.add(8), sums[1]);
        }
    }
}

/// Sixteen numbers of a row of the matrix, as float32.
#[target_feature(enable = "avx2")]
fn widened(job: &Job<'_>, row: usize, column: usize) -> [__m256; 2] {
    assert!(row < job.width && column + SIXTEEN <= job.columns);
    let line = job.matrix.as_ptr().wrapping_add(row * job.width + job.first + column);
    // SAFETY: a row of the matrix has these columns.
    let [lower, upper] = unsafe { [_mm_loadu_si128(line.cast()), _mm_loadu_si128(line.add(8).cast())] };
    [
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(lower))),
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(upper))),
    ]
}

/// Adds the products of a part of the matrix to its sums; see `super::wide`.
#[target_feature(enable = "avx2,fma")]
pub(super) fn add_wide(job: &Job<'_>, part: &Part, sums: &mut [f64]) {
    let (many, columns) = (job.many, &part.columns);
    let whole = columns.end - columns.len() % SIXTEEN;
    for column in (columns.start..whole).step_by(SIXTEEN) {
        part.ask(job, column);
        let sums = &mut sums[column - columns.start..];
        for of in (0..many - many % 2).step_by(2) {
            wide_block::<2>(job, part, column, of, sums);
        }
        if many % 2 == 1 {
            wide_block::<1>(job, part, column, many - 1, sums);
        }
    }
    portable::add_wide_from(job, part, whole, sums);
}

/// Adds to sixteen sums of each of `STATES` states from the `of`th one on; where `sums` begins, the first one's column is.
#[target_feature(enable = "avx2,fma")]
fn wide_block<const STATES: usize>(job: &Job<'_>, part: &Part, column: usize, of: usize, sums: &mut [f64]) {
    let mut kept = [[_mm256_setzero_pd(); 4]; STATES];
    for (at, kept) in kept.iter_mut().enumerate() {
        let from = sums[(of + at) * part.padded..][..SIXTEEN].as_ptr();
        for (quarter, sum) in kept.iter_mut().enumerate() {
            // SAFETY: four of the sixteen numbers cut out above.
            *sum = unsafe { _mm256_loadu_pd(from.add(4 * quarter)) };
        }
    }
    for row in part.rows.clone() {
        let [lower, upper] = widened(job, row, column);
        let numbers: [__m256d; 4] = [
            _mm256_cvtps_pd(_mm256_castps256_ps128(lower)),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(lower)),
            _mm256_cvtps_pd(_mm256_castps256_ps128(upper)),
            _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(upper)),
        ];
        for (at, kept) in kept.iter_mut().enumerate() {
            let factor = _mm256_set1_pd(f64::from(job.states[(of + at) * job.width + row]));
            for (sum, &number) in kept.iter_mut().zip(&numbers) {
                // The product is exact in float64, so that fusing changes nothing.
                *sum = _mm256_fmadd_pd(factor, number, *sum);
            }
        }
    }
    for (at, kept) in kept.iter().enumerate() {
        let to = sums[(of + at) * part.padded..][..SIXTEEN].as_mut_ptr();
        for (quarter, &sum) in kept.iter().enumerate() {
            // SAFETY: four of the sixteen numbers cut out above.
            unsafe { _mm256_storeu_pd(to.add(4 * quarter), sum) };
        }
    }
}
