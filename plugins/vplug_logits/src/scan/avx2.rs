//! Sums with AVX2: products of bytes are added in pairs in i16 for as long as they fit, then in i32. Those of eight bits
//! do not fit: `avx2_eight`.
#![expect(unsafe_code, reason = "loads and stores of vectors go through pointers")]

use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256,
    _mm256_cvtph_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_setzero_si256, _mm256_srav_epi32, _mm256_srli_epi32, _mm256_storeu_ps,
    _mm256_storeu_si256,
};
use std::array::from_fn;
use std::ops::Range;

use half::f16;

use super::sink::{Sink, give};
use super::{Batch, Dots, LANE_BYTES, Scan, TOGETHER, avx2_eight};
use crate::layout::{BLOCK, Bits};

/// Rows of a vector.
pub(super) const TILE: usize = 8;
/// Vectors of a lane.
pub(super) const TILES: usize = BLOCK / TILE;
/// How far ahead codes are asked for, in bytes.
const AHEAD: usize = 10_240;
/// The most queries at a time: more sums than registers hold would help nobody.
const MOST: usize = 4;

/// Hands each block's sums to `sink`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scan<S: Sink>(scan: &Scan<'_>, blocks: Range<usize>, sink: &mut S) {
    if scan.shape.bits() == Bits::Eight {
        return avx2_eight::scan(scan, blocks, sink);
    }
    let mut dots: Dots = [[0; BLOCK]; TOGETHER];
    for block in blocks {
        let scales = widened(scan.scales(block));
        for batch in scan.batches(MOST) {
            let codes = scan.block(block);
            match (scan.shape.bits(), batch.stride) {
                (Bits::One, 1) => one::<1, 8, 2>(codes, batch.words, &mut dots[0]),
                (Bits::Two, 1) => one::<2, 4, 4>(codes, batch.words, &mut dots[0]),
                (Bits::Four, 1) => one::<4, 2, 4>(codes, batch.words, &mut dots[0]),
                (Bits::One, _) => several::<1>(codes, batch, &mut dots),
                (Bits::Two, _) => several::<2>(codes, batch, &mut dots),
                _ => several::<4>(codes, batch, &mut dots),
            }
            give(scan, sink, block, (batch.first, batch.count), &scales, &dots);
        }
    }
}

/// The only query, of fewer than eight bits. Codes are masked where they are in each half of a byte, not shifted down,
/// and those of each place have sums of their own, too large by a power of two until they are put together.
#[target_feature(enable = "avx2")]
fn one<const BITS: i32, const SEGMENTS: usize, const WIDE: usize>(
    codes: &[[u8; LANE_BYTES]],
    words: &[i32],
    dots: &mut [i32; BLOCK],
) {
    let places = SEGMENTS / 2;
    let masks: [_; 4] = from_fn(|place| _mm256_set1_epi8((((1_i32 << BITS) - 1) << ((place as i32 * BITS) % 4)) as i8));
    // Each lane adds twice two products to an i16: at most 15 times two of 8 * 128 fit, 10 times two of 12 * 128, 8
    // times two of 15 * 128.
    let lanes_at_once = match BITS {
        1 => 7,
        2 => 5,
        _ => 4,
    };
    for first in (0..TILES).step_by(WIDE) {
        let mut sums = [_mm256_setzero_si256(); WIDE];
        let words = words.as_chunks::<SEGMENTS>().0;
        for (codes, words) in codes.chunks(lanes_at_once).zip(words.chunks(lanes_at_once)) {
            let mut pairs = [[_mm256_setzero_si256(); WIDE]; 4];
            for (codes, words) in codes.iter().zip(words) {
                if first == 0 {
                    ask(codes);
                }
                let mut raw: [_; WIDE] = from_fn(|tile| load(codes, first + tile));
                for words in words.chunks_exact(places) {
                    for place in 0..places {
                        let word = _mm256_set1_epi32(words[place]);
                        for tile in 0..WIDE {
                            let product = _mm256_maddubs_epi16(_mm256_and_si256(raw[tile], masks[place]), word);
                            pairs[place][tile] = _mm256_add_epi16(pairs[place][tile], product);
                        }
                    }
                    raw = raw.map(|raw| _mm256_srli_epi32::<4>(raw));
                }
            }
            for (place, pairs) in pairs[..places].iter().enumerate() {
                let weight = _mm256_set1_epi16(1 << (4 - BITS - place as i32 * BITS));
                for (sum, pairs) in sums.iter_mut().zip(pairs) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*pairs, weight));
                }
            }
        }
        for (tile, sum) in sums.into_iter().enumerate() {
            // All places were made as large as the last one: multiples.
            let sum = _mm256_srav_epi32(sum, _mm256_set1_epi32(4 - BITS));
            store(dots, first + tile, sum);
        }
    }
}

#[target_feature(enable = "avx2")]
fn several<const BITS: i32>(codes: &[[u8; LANE_BYTES]], batch: Batch<'_>, dots: &mut Dots) {
    match batch.count {
        1 => tiles::<BITS, 1, 4>(codes, batch, dots),
        2 => tiles::<BITS, 2, 2>(codes, batch, dots),
        3 => tiles::<BITS, 3, 2>(codes, batch, dots),
        _ => tiles::<BITS, 4, 2>(codes, batch, dots),
    }
}

/// `COUNT` queries, `WIDE` vectors at a time.
#[target_feature(enable = "avx2")]
fn tiles<const BITS: i32, const COUNT: usize, const WIDE: usize>(
    codes: &[[u8; LANE_BYTES]],
    batch: Batch<'_>,
    dots: &mut Dots,
) {
    let segments = 8 / BITS as usize;
    let ones = _mm256_set1_epi16(1);
    let mask = _mm256_set1_epi8(((1_u32 << BITS) - 1) as i8);
    // Each segment adds two products to an i16: at most 127 times two of 1 * 128 fit, 42 times two of 3 * 128, 8 times
    // two of 15 * 128. Of eight bits only two products fit, once.
    let lanes_at_once = match BITS {
        1 => 15,
        2 => 10,
        _ => 4,
    };
    for first in (0..TILES).step_by(WIDE) {
        let mut sums = [[_mm256_setzero_si256(); WIDE]; COUNT];
        let mut words = batch.lanes(segments);
        for codes in codes.chunks(lanes_at_once) {
            let mut pairs = [[_mm256_setzero_si256(); WIDE]; COUNT];
            for (codes, words) in codes.iter().zip(&mut words) {
                if first == 0 {
                    ask(codes);
                }
                let mut raw: [_; WIDE] = from_fn(|tile| load(codes, first + tile));
                for segment in 0..segments {
                    let words = words.segment::<COUNT>(segment);
                    for query in 0..COUNT {
                        let word = _mm256_set1_epi32(words[query]);
                        for tile in 0..WIDE {
                            let product = _mm256_maddubs_epi16(_mm256_and_si256(raw[tile], mask), word);
                            pairs[query][tile] = _mm256_add_epi16(pairs[query][tile], product);
                        }
                    }
                    raw = raw.map(|raw| _mm256_srli_epi32::<BITS>(raw));
                }
            }
            for (sums, pairs) in sums.iter_mut().zip(pairs) {
                for (sum, pairs) in sums.iter_mut().zip(pairs) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
                }
            }
        }
        for (dots, sums) in dots.iter_mut().zip(sums) {
            for (tile, sum) in sums.into_iter().enumerate() {
                store(dots, first + tile, sum);
            }
        }
    }
}

/// Asks for the lane that is `AHEAD` in memory: a prefetch reads nothing, wherever it points.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn ask(codes: &[u8; LANE_BYTES]) {
    for line in codes.as_chunks::<64>().0 {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(AHEAD).cast());
    }
}

/// A vector of codes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(codes: &[u8; LANE_BYTES], tile: usize) -> __m256i {
    let codes: &[u8; LANE_BYTES / TILES] = &codes.as_chunks().0[tile];
    // SAFETY: 32 bytes are there, and need not be aligned.
    unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) }
}

/// Keeps the sums of 8 rows.
#[inline]
#[target_feature(enable = "avx2")]
fn store(dots: &mut [i32; BLOCK], tile: usize, sums: __m256i) {
    let dots: &mut [i32; TILE] = &mut dots.as_chunks_mut().0[tile];
    // SAFETY: there is room for 8 numbers, and it need not be aligned.
    unsafe { _mm256_storeu_si256(dots.as_mut_ptr().cast(), sums) }
}

/// The scales of a block's rows in f32.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn widened(scales: &[f16]) -> [f32; BLOCK] {
    let mut wide = [0.0; BLOCK];
    for (wide, scales) in wide
        .as_chunks_mut::<TILE>()
        .0
        .iter_mut()
        .zip(scales.as_chunks::<TILE>().0)
    {
        // SAFETY: 8 scales of 16 bits are there, and need not be aligned.
        let scales = unsafe { _mm_loadu_si128(scales.as_ptr().cast()) };
        // SAFETY: there is room for 8 numbers, and it need not be aligned.
        unsafe { _mm256_storeu_ps(wide.as_mut_ptr(), _mm256_cvtph_ps(scales)) };
    }
    wide
}
