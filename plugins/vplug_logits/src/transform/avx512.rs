//! The sums of `transform` with AVX-512: 64 columns of up to four states in registers.
#![expect(unsafe_code, reason = "vectors are loaded from and stored to addresses")]

use std::arch::x86_64::{
    __m512, __m512d, __m512i, _mm256_maskz_loadu_epi16, _mm512_add_ps, _mm512_and_si512, _mm512_castps512_ps256,
    _mm512_castsi512_ps, _mm512_cvtepu16_epi32, _mm512_cvtps_pd, _mm512_extractf32x8_ps, _mm512_fmadd_pd,
    _mm512_loadu_pd, _mm512_mask_storeu_ps, _mm512_maskz_loadu_epi16, _mm512_maskz_loadu_ps, _mm512_mul_ps,
    _mm512_permutex2var_ps, _mm512_set1_epi32, _mm512_set1_pd, _mm512_set1_ps, _mm512_setr_epi32, _mm512_setzero_pd,
    _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_pd,
};
use std::ops::Range;

use half::bf16;

use super::{GROUP, Job, Part, ROWS, fetch};

/// Numbers of bfloat16 in a register, and columns in two of float32: the even ones in the first, the odd ones in the second.
const PAIR: usize = 32;
/// The width from which on a matrix is no longer found in a near cache.
const LONG: usize = 1024;

/// All columns, in float32.
///
/// How many rows at a time: few keep up with memory, many spare the sums (measured).
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn narrow(job: &mut Job<'_>) {
    match job.many {
        1 | 2 if job.columns == job.width && job.width >= LONG => by_rows::<false>(job, 3),
        1..=4 => by_rows::<true>(job, 8),
        _ => by_rows::<true>(job, 16),
    }
}

/// The same, so `many` rows at a time; these ask for the next ones in one go, or each for one (`ASK`).
#[target_feature(enable = "avx512f,avx512bw")]
fn by_rows<const ASK: bool>(job: &mut Job<'_>, many: usize) {
    let whole = job.columns - job.columns % (2 * PAIR);
    for row in (0..job.width).step_by(many) {
        let rows = row..job.width.min(row + many);
        for column in (0..whole).step_by(2 * PAIR) {
            if !ASK {
                Ahead::of(job, &rows, column).ask_twice(&rows, job.width);
            }
            states::<2, ASK>(job, &rows, column);
        }
        for column in (whole..job.columns).step_by(PAIR) {
            states::<1, ASK>(job, &rows, column);
        }
    }
}

/// `PAIRS` pairs of columns from the one at `column` on, for all states; the first of them may ask for the rows that come
/// next.
#[target_feature(enable = "avx512f,avx512bw")]
fn states<const PAIRS: usize, const ASK: bool>(job: &mut Job<'_>, rows: &Range<usize>, column: usize) {
    let mut state = match job.many {
        1 => block::<1, PAIRS, ASK>(job, rows, column, 0),
        2 => block::<2, PAIRS, ASK>(job, rows, column, 0),
        3 => block::<3, PAIRS, ASK>(job, rows, column, 0),
        _ => block::<4, PAIRS, ASK>(job, rows, column, 0),
    };
    while state < job.many {
        state = match job.many - state {
            1 => block::<1, PAIRS, false>(job, rows, column, state),
            2 => block::<2, PAIRS, false>(job, rows, column, state),
            3 => block::<3, PAIRS, false>(job, rows, column, state),
            _ => block::<4, PAIRS, false>(job, rows, column, state),
        };
    }
}

/// Adds the products of `rows` to the sums of `STATES` states and `PAIRS` x 32 columns; these begin with the first row.
///
/// A single pair may go beyond the last column. Of two, `out` holds the even and the odd sums apart until the last row.
/// Returns the state after its own.
#[target_feature(enable = "avx512f,avx512bw")]
fn block<const STATES: usize, const PAIRS: usize, const ASK: bool>(
    job: &mut Job<'_>,
    rows: &Range<usize>,
    column: usize,
    state: usize,
) -> usize {
    let single = PAIRS == 1;
    assert!(state + STATES <= job.many && rows.end <= job.width);
    assert!(column + if single { 1 } else { PAIRS * PAIR } <= job.columns);
    let mask = if single { first(job.columns - column) } else { u32::MAX };
    let mut ahead = Ahead::of(job, rows, column);
    let mut sums = [[[_mm512_setzero_ps(); 2]; PAIRS]; STATES];
    if rows.start > 0 {
        for (at, sums) in sums.iter_mut().enumerate() {
            for (pair, sums) in sums.iter_mut().enumerate() {
                let from = job
                    .out
                    .as_ptr()
                    .wrapping_add((state + at) * job.columns + column + pair * PAIR);
                // SAFETY: columns of a state, which end where the mask does or later.
                *sums = unsafe { loaded(from, mask) };
                if single {
                    *sums = apart(*sums);
                }
            }
        }
    }
    for row in rows.clone() {
        if ASK {
            ahead.ask();
        }
        let line = job.matrix.as_ptr().wrapping_add(row * job.width + job.first + column);
        let mut numbers = [[_mm512_setzero_ps(); 2]; PAIRS];
        for (pair, numbers) in numbers.iter_mut().enumerate() {
            // SAFETY: columns of a row of the matrix, which end where the mask does or later.
            *numbers = widened(unsafe { _mm512_maskz_loadu_epi16(mask, line.wrapping_add(pair * PAIR).cast()) });
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
    let last = single || rows.end == job.width;
    for (at, sums) in sums.iter().enumerate() {
        for (pair, &sums) in sums.iter().enumerate() {
            let to = job
                .out
                .as_mut_ptr()
                .wrapping_add((state + at) * job.columns + column + pair * PAIR);
            // SAFETY: as they were read.
            unsafe { store(to, mask, if last { together(sums) } else { sums }) };
        }
    }
    state + STATES
}

/// Where in the matrix a cache line or two are asked for with each row, while the rows before are worked on.
struct Ahead {
    next: *const bf16,
    /// Numbers to the place after it.
    step: usize,
}

impl Ahead {
    /// Of whole rows in the order in which they lie, as memory likes it; else of the same columns, a row further each.
    fn of(job: &Job<'_>, rows: &Range<usize>, column: usize) -> Self {
        let begin = job.matrix.as_ptr().wrapping_add(rows.end * job.width + job.first);
        if job.columns == job.width {
            Self {
                next: begin.wrapping_add(column * rows.len()),
                step: 2 * PAIR,
            }
        } else {
            Self {
                next: begin.wrapping_add(column),
                step: job.width,
            }
        }
    }

    #[inline]
    fn ask(&mut self) {
        fetch(self.next);
        fetch(self.next.wrapping_add(PAIR));
        self.next = self.next.wrapping_add(self.step);
    }

    /// Asks for all places of `rows`, and for those of as many rows after: each line twice, since few sums run so far ahead
    /// of memory that requests are dropped (measured: 195 us for 290, of 190 that reading takes).
    #[inline]
    fn ask_twice(&mut self, rows: &Range<usize>, width: usize) {
        let mut after = Self {
            next: self.next.wrapping_add(rows.len() * width),
            step: self.step,
        };
        for _ in rows.clone() {
            self.ask();
            after.ask();
        }
    }
}

/// A mask of the first numbers of 32.
fn first(many: usize) -> u32 {
    if many >= PAIR { u32::MAX } else { (1 << many) - 1 }
}

/// # Safety
///
/// Numbers at `from` where the mask has ones.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn loaded(from: *const f32, mask: u32) -> [__m512; 2] {
    // SAFETY: the caller's.
    unsafe {
        [
            _mm512_maskz_loadu_ps(mask as u16, from),
            _mm512_maskz_loadu_ps((mask >> 16) as u16, from.wrapping_add(16)),
        ]
    }
}

/// # Safety
///
/// Room at `to` where the mask has ones.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn store(to: *mut f32, mask: u32, sums: [__m512; 2]) {
    // SAFETY: the caller's.
    unsafe {
        _mm512_mask_storeu_ps(to, mask as u16, sums[0]);
        _mm512_mask_storeu_ps(to.wrapping_add(16), (mask >> 16) as u16, sums[1]);
    }
}

/// The even and the odd ones of 32 numbers of bfloat16, as float32.
#[target_feature(enable = "avx512f,avx512bw")]
fn widened(words: __m512i) -> [__m512; 2] {
    let odd = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed()));
    [
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words)),
        _mm512_castsi512_ps(odd),
    ]
}

/// The even and the odd ones of 32 numbers.
#[target_feature(enable = "avx512f,avx512bw")]
fn apart([first, second]: [__m512; 2]) -> [__m512; 2] {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    [
        _mm512_permutex2var_ps(first, even, second),
        _mm512_permutex2var_ps(first, odd, second),
    ]
}

/// Even and odd numbers in turn.
#[target_feature(enable = "avx512f,avx512bw")]
fn together([even, odd]: [__m512; 2]) -> [__m512; 2] {
    let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    [
        _mm512_permutex2var_ps(even, first, odd),
        _mm512_permutex2var_ps(even, second, odd),
    ]
}

/// Sixteen columns of float64 sums.
const SIXTEEN: usize = 16;

/// Adds the products of a part of the matrix to its sums; see `super::wide`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn add_wide(job: &Job<'_>, part: &Part, sums: &mut [f64]) {
    let many = job.many;
    let mut factors = [[0.0_f64; GROUP]; ROWS];
    for (factors, row) in factors.iter_mut().zip(part.rows.clone()) {
        for (factor, state) in factors.iter_mut().zip(job.states.chunks_exact(job.width)) {
            *factor = f64::from(state[row]);
        }
    }
    for column in part.columns.clone().step_by(SIXTEEN) {
        part.ask(job, column);
        let sums = &mut sums[column - part.columns.start..];
        let mut of = 0;
        while many - of >= 4 {
            wide_block::<4>(job, part, column, &factors, of, sums);
            of += 4;
        }
        match many - of {
            3 => wide_block::<3>(job, part, column, &factors, of, sums),
            2 => wide_block::<2>(job, part, column, &factors, of, sums),
            1 => wide_block::<1>(job, part, column, &factors, of, sums),
            _ => (),
        }
    }
}

/// Adds to sixteen sums of each of `STATES` states from the `of`th one on; where `sums` begins, the first one's column is.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn wide_block<const STATES: usize>(
    job: &Job<'_>,
    part: &Part,
    column: usize,
    factors: &[[f64; GROUP]; ROWS],
    of: usize,
    sums: &mut [f64],
) {
    assert!(column < part.columns.end && part.columns.end <= job.columns && part.rows.end <= job.width);
    let mask = first(SIXTEEN.min(part.columns.end - column)) as u16;
    let mut kept = [[_mm512_setzero_pd(); 2]; STATES];
    for (at, kept) in kept.iter_mut().enumerate() {
        let from = sums[(of + at) * part.padded..][..SIXTEEN].as_ptr();
        // SAFETY: sixteen numbers, as cut out above.
        *kept = unsafe { [_mm512_loadu_pd(from), _mm512_loadu_pd(from.add(8))] };
    }
    for (row, factors) in part.rows.clone().zip(factors) {
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
        let to = sums[(of + at) * part.padded..][..SIXTEEN].as_mut_ptr();
        // SAFETY: sixteen numbers, as cut out above.
        unsafe {
            _mm512_storeu_pd(to, kept[0]);
            _mm512_storeu_pd(to.add(8), kept[1]);
        }
    }
}
