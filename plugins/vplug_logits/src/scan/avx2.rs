//! Sums with AVX2: products of bytes are added in pairs in i16 for as long as they fit, then in i32.
#![expect(unsafe_code, reason = "loads and stores of vectors go through pointers")]

use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256,
    _mm256_cvtph_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_setzero_si256, _mm256_srav_epi32, _mm256_srli_epi16, _mm256_srli_epi32, _mm256_storeu_ps,
    _mm256_storeu_si256,
};
use std::array::from_fn;
use std::cell::Cell;
use std::ops::Range;

use half::f16;

use super::sink::{Sink, give, give_whole};
use super::{Batch, Dots, LANE_BYTES, Scan, TOGETHER};
use crate::layout::{BLOCK, Bits};

/// Rows of a vector.
const TILE: usize = 8;
/// Vectors of a lane.
const TILES: usize = BLOCK / TILE;
/// How far ahead codes are asked for, in bytes.
const AHEAD: usize = 10_240;
/// The most queries at a time: more sums than registers hold would help nobody.
const MOST: usize = 4;

/// The most states at a time where codes have eight bits, for the same reason.
const MOST_WHOLE: usize = 4;
/// Lanes whose products of eight bits an i32 holds: each adds four, of at most 255 * (128 * 127 + 127).
const LANES_AT_ONCE: usize = 128;
/// The integers of a lane of a state: coordinates 0 and 2, then 1 and 3, as i16.
type Whole = [i32; 2];

thread_local! {
    /// Where the integers of all states are put together, kept from one call to the next.
    static WHOLE: Cell<Vec<Whole>> = const { Cell::new(Vec::new()) };
}

/// Hands each block's sums to `sink`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scan<S: Sink>(scan: &Scan<'_>, blocks: Range<usize>, sink: &mut S) {
    if scan.shape.bits() == Bits::Eight {
        return scan_whole(scan, blocks, sink);
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

/// The same for codes of eight bits: their products with a query do not fit an i16 two by two, those of an i16 fit an
/// i32, and so both planes of a state are one multiplication.
#[target_feature(enable = "avx2,fma,f16c")]
fn scan_whole<S: Sink>(scan: &Scan<'_>, blocks: Range<usize>, sink: &mut S) {
    let mut words = WHOLE.take();
    put_together(scan, &mut words);
    for block in blocks {
        let scales = widened(scan.scales(block));
        for first in (0..scan.states).step_by(MOST_WHOLE) {
            let codes = scan.block(block);
            let mut dots = [[0.0; BLOCK]; MOST_WHOLE];
            let count = MOST_WHOLE.min(scan.states - first);
            match count {
                1 => whole::<1, 8>(codes, &words, (scan.states, first), &mut dots),
                2 => whole::<2, 4>(codes, &words, (scan.states, first), &mut dots),
                3 => whole::<3, 2>(codes, &words, (scan.states, first), &mut dots),
                _ => whole::<4, 2>(codes, &words, (scan.states, first), &mut dots),
            }
            for (state, dots) in (first..).zip(&dots[..count]) {
                give_whole(scan, sink, block, state, &scales, dots);
            }
        }
    }
    WHOLE.set(words);
}

/// Makes i16 of the int8 of all states, `(lanes, states)`.
#[target_feature(enable = "avx2")]
fn put_together(scan: &Scan<'_>, whole: &mut Vec<Whole>) {
    let pair = |word: i32, byte: usize| {
        let bytes = word.to_le_bytes();
        [bytes[byte], bytes[byte + 2]].map(|byte| i16::from(byte as i8))
    };
    let word = |[a, b]: [i16; 2]| i32::from(a as u16) | i32::from(b) << 16;
    whole.clear();
    if scan.planes == 2 {
        whole.extend(scan.words.as_chunks().0.iter().map(|&[high, low]| {
            [0, 1].map(|byte| {
                let (high, low) = (pair(high, byte), pair(low, byte));
                word(from_fn(|at| 128 * high[at] + low[at]))
            })
        }));
    } else {
        whole.extend(
            scan.words
                .iter()
                .map(|&query| [0, 1].map(|byte| word(pair(query, byte)))),
        );
    }
}

/// `COUNT` states from `first` on, `WIDE` vectors at a time. `dots` are 0.
#[target_feature(enable = "avx2")]
fn whole<const COUNT: usize, const WIDE: usize>(
    codes: &[[u8; LANE_BYTES]],
    words: &[Whole],
    (states, first): (usize, usize),
    dots: &mut [[f64; BLOCK]; MOST_WHOLE],
) {
    let mask = _mm256_set1_epi16(255);
    for tiles in (0..TILES).step_by(WIDE) {
        for (codes, words) in codes.chunks(LANES_AT_ONCE).zip(words.chunks(LANES_AT_ONCE * states)) {
            let mut sums = [[_mm256_setzero_si256(); WIDE]; COUNT];
            for (codes, words) in codes.iter().zip(words.chunks_exact(states)) {
                let words: &[Whole; COUNT] = &words[first..].as_chunks().0[0];
                if tiles == 0 {
                    ask(codes);
                }
                let raw: [_; WIDE] = from_fn(|tile| load(codes, tiles + tile));
                let even = raw.map(|raw| _mm256_and_si256(raw, mask));
                let odd = raw.map(|raw| _mm256_srli_epi16::<8>(raw));
                for state in 0..COUNT {
                    let [first, second] = [_mm256_set1_epi32(words[state][0]), _mm256_set1_epi32(words[state][1])];
                    for tile in 0..WIDE {
                        let products = _mm256_add_epi32(
                            _mm256_madd_epi16(even[tile], first),
                            _mm256_madd_epi16(odd[tile], second),
                        );
                        sums[state][tile] = _mm256_add_epi32(sums[state][tile], products);
                    }
                }
            }
            for (dots, sums) in dots.iter_mut().zip(sums) {
                for (tile, sum) in sums.into_iter().enumerate() {
                    let rows: &mut [f64; TILE] = &mut dots.as_chunks_mut().0[tiles + tile];
                    let mut more = [0_i32; TILE];
                    // SAFETY: there is room for 8 numbers, and it need not be aligned.
                    unsafe { _mm256_storeu_si256(more.as_mut_ptr().cast(), sum) };
                    *rows = from_fn(|row| rows[row] + f64::from(more[row]));
                }
            }
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
fn ask(codes: &[u8; LANE_BYTES]) {
    for line in codes.as_chunks::<64>().0 {
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(AHEAD).cast());
    }
}

/// A vector of codes.
#[inline]
#[target_feature(enable = "avx2")]
fn load(codes: &[u8; LANE_BYTES], tile: usize) -> __m256i {
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
fn widened(scales: &[f16]) -> [f32; BLOCK] {
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
