//! Sums with VNNI: a vector is 16 rows times four bytes, and four of them a lane of a block.
#![expect(unsafe_code, reason = "loads and stores of vectors go through pointers")]

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm512_add_epi32, _mm512_and_si512, _mm512_cvtph_ps,
    _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_srai_epi32, _mm512_srli_epi32, _mm512_storeu_ps, _mm512_storeu_si512,
};
use std::array::from_fn;
use std::ops::Range;

use half::f16;

use super::sink::{Sink, give};
use super::{Batch, Dots, LANE_BYTES, Scan, TOGETHER};
use crate::layout::{BLOCK, Bits};

/// Rows of a vector.
const TILE: usize = 16;
/// Vectors of a lane.
const TILES: usize = BLOCK / TILE;
/// How far ahead codes are asked for, in bytes.
const AHEAD: usize = 10_240;

/// Hands each block's sums to `sink`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn scan<S: Sink>(scan: &Scan<'_>, blocks: Range<usize>, sink: &mut S) {
    let mut dots: Dots = [[0; BLOCK]; TOGETHER];
    for block in blocks {
        let scales = widened(scan.scales(block));
        for batch in scan.batches(TOGETHER) {
            let codes = scan.block(block);
            match (scan.shape.bits(), batch.stride) {
                (Bits::One, 1) => one::<1, 8>(codes, batch.words, &mut dots[0]),
                (Bits::Two, 1) => one::<2, 4>(codes, batch.words, &mut dots[0]),
                (Bits::Four, 1) => one::<4, 2>(codes, batch.words, &mut dots[0]),
                (Bits::One, _) => several::<1>(codes, batch, &mut dots),
                (Bits::Two, _) => several::<2>(codes, batch, &mut dots),
                (Bits::Four, _) => several::<4>(codes, batch, &mut dots),
                (Bits::Eight, _) => several::<8>(codes, batch, &mut dots),
            }
            give(scan, sink, block, (batch.first, batch.count), &scales, &dots);
        }
    }
}

/// The only query. Codes are not shifted but masked where they are, and those of each place in a byte have sums of
/// their own, too large by a power of two until the end. A byte of eight codes is taken as two halves, so that four
/// places are all.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn one<const BITS: u32, const SEGMENTS: usize>(codes: &[[u8; LANE_BYTES]], words: &[i32], dots: &mut [i32; BLOCK]) {
    let places = SEGMENTS.min(4);
    let masks: [_; 4] =
        from_fn(|place| _mm512_set1_epi8((((1 << BITS) - 1) << ((place as u32 * BITS) % 8)) as u8 as i8));
    let mut sums = [[_mm512_setzero_si512(); TILES]; 4];
    for (codes, words) in codes.iter().zip(words.as_chunks::<SEGMENTS>().0) {
        ask(codes);
        let mut raw: [_; TILES] = from_fn(|tile| load(codes, tile));
        for words in words.chunks_exact(places) {
            for place in 0..places {
                let word = _mm512_set1_epi32(words[place]);
                for tile in 0..TILES {
                    let masked = _mm512_and_si512(raw[tile], masks[place]);
                    sums[place][tile] = _mm512_dpbusd_epi32(sums[place][tile], masked, word);
                }
            }
            raw = raw.map(|raw| _mm512_srli_epi32::<4>(raw));
        }
    }
    let mut total = [_mm512_setzero_si512(); TILES];
    for sums in sums[..places].iter().rev() {
        // What the later places add up to are multiples.
        total = from_fn(|tile| _mm512_add_epi32(_mm512_srai_epi32::<BITS>(total[tile]), sums[tile]));
    }
    for (tile, sum) in total.into_iter().enumerate() {
        store(dots, tile, sum);
    }
}

/// Up to 8 queries.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn several<const BITS: u32>(codes: &[[u8; LANE_BYTES]], batch: Batch<'_>, dots: &mut Dots) {
    match batch.count {
        1 => tiles::<BITS, 1, 4>(codes, batch, dots),
        2 => tiles::<BITS, 2, 4>(codes, batch, dots),
        3 => tiles::<BITS, 3, 4>(codes, batch, dots),
        4 => tiles::<BITS, 4, 4>(codes, batch, dots),
        5 => tiles::<BITS, 5, 2>(codes, batch, dots),
        6 => tiles::<BITS, 6, 2>(codes, batch, dots),
        7 => tiles::<BITS, 7, 2>(codes, batch, dots),
        _ => tiles::<BITS, 8, 2>(codes, batch, dots),
    }
}

/// `COUNT` queries, `WIDE` vectors at a time: as many sums as registers hold, and each vector is unpacked once.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn tiles<const BITS: u32, const COUNT: usize, const WIDE: usize>(
    codes: &[[u8; LANE_BYTES]],
    batch: Batch<'_>,
    dots: &mut Dots,
) {
    let segments = 8 / BITS as usize;
    let mask = _mm512_set1_epi8(((1_u32 << BITS) - 1) as u8 as i8);
    for first in (0..TILES).step_by(WIDE) {
        let mut sums = [[_mm512_setzero_si512(); WIDE]; COUNT];
        for (codes, words) in codes.iter().zip(batch.lanes(segments)) {
            if first == 0 {
                ask(codes);
            }
            let mut raw: [_; WIDE] = from_fn(|tile| load(codes, first + tile));
            for segment in 0..segments {
                let unpacked = raw.map(|raw| if BITS == 8 { raw } else { _mm512_and_si512(raw, mask) });
                let words = words.segment::<COUNT>(segment);
                for query in 0..COUNT {
                    let word = _mm512_set1_epi32(words[query]);
                    for tile in 0..WIDE {
                        sums[query][tile] = _mm512_dpbusd_epi32(sums[query][tile], unpacked[tile], word);
                    }
                }
                raw = raw.map(|raw| _mm512_srli_epi32::<BITS>(raw));
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
#[target_feature(enable = "avx512f")]
fn ask(codes: &[u8; LANE_BYTES]) {
    for line in codes.as_chunks::<64>().0 {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(AHEAD).cast());
    }
}

/// A vector of codes.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(codes: &[u8; LANE_BYTES], tile: usize) -> __m512i {
    let codes: &[u8; LANE_BYTES / TILES] = &codes.as_chunks().0[tile];
    // SAFETY: 64 bytes are there, and need not be aligned.
    unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) }
}

/// Keeps the sums of 16 rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(dots: &mut [i32; BLOCK], tile: usize, sums: __m512i) {
    let dots: &mut [i32; TILE] = &mut dots.as_chunks_mut().0[tile];
    // SAFETY: there is room for 16 numbers, and it need not be aligned.
    unsafe { _mm512_storeu_si512(dots.as_mut_ptr().cast(), sums) }
}

/// The scales of a block's rows in f32.
#[inline]
#[target_feature(enable = "avx512f")]
fn widened(scales: &[f16]) -> [f32; BLOCK] {
    let mut wide = [0.0; BLOCK];
    for (wide, scales) in wide
        .as_chunks_mut::<TILE>()
        .0
        .iter_mut()
        .zip(scales.as_chunks::<TILE>().0)
    {
        // SAFETY: 16 scales of 16 bits are there, and need not be aligned.
        let scales = unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) };
        // SAFETY: there is room for 16 numbers, and it need not be aligned.
        unsafe { _mm512_storeu_ps(wide.as_mut_ptr(), _mm512_cvtph_ps(scales)) };
    }
    wide
}
