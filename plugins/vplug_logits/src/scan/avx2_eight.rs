//! Sums of codes of eight bits with AVX2. Two products of a byte and a byte do not fit an i16, but those of an i16 and an
//! i16 fit an i32: so both planes of a state are multiplied at once, and one plane as if the other one were 0.
#![expect(unsafe_code, reason = "stores of vectors go through pointers")]

use std::arch::x86_64::{
    _mm256_add_epi32, _mm256_and_si256, _mm256_madd_epi16, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_srli_epi16, _mm256_storeu_si256,
};
use std::array::from_fn;
use std::cell::Cell;
use std::ops::Range;

use super::avx2::{TILE, TILES, ask, load, widened};
use super::sink::{Sink, give_joined};
use super::{LANE_BYTES, Scan};
use crate::layout::BLOCK;

/// The most states at a time: more sums than registers hold would help nobody.
const MOST: usize = 4;
/// Lanes whose sum fits an i32: each adds four products, of at most 255 * (128 * 127 + 127).
const LANES_AT_ONCE: usize = 128;

/// What a lane is multiplied with for one state, two i16 to a word: for its even bytes, and for its odd ones.
#[derive(Clone, Copy)]
struct Joined {
    even: i32,
    odd: i32,
}

thread_local! {
    /// Those of all states, `(lanes, states)`, kept so that the next call allocates nothing.
    static JOINED: Cell<Vec<Joined>> = const { Cell::new(Vec::new()) };
}

/// Hands each block's sums to `sink`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn scan<S: Sink>(scan: &Scan<'_>, blocks: Range<usize>, sink: &mut S) {
    let mut joined = JOINED.take();
    join(scan, &mut joined);
    for block in blocks {
        let (codes, scales) = (scan.block(block), widened(scan.scales(block)));
        for first in (0..scan.states).step_by(MOST) {
            let mut dots = [[0.0; BLOCK]; MOST];
            let count = MOST.min(scan.states - first);
            match count {
                1 => tiles::<1, 8>(codes, &joined, scan.states, first, &mut dots),
                2 => tiles::<2, 4>(codes, &joined, scan.states, first, &mut dots),
                3 => tiles::<3, 2>(codes, &joined, scan.states, first, &mut dots),
                _ => tiles::<4, 2>(codes, &joined, scan.states, first, &mut dots),
            }
            for (state, dots) in (first..).zip(&dots[..count]) {
                give_joined(scan, sink, block, state, &scales, dots);
            }
        }
    }
    JOINED.set(joined);
}

/// Makes i16 of the int8 of all states.
#[target_feature(enable = "avx2")]
fn join(scan: &Scan<'_>, joined: &mut Vec<Joined>) {
    let both = |high: i32, low: i32| {
        let (high, low) = (high.to_le_bytes(), low.to_le_bytes());
        let number = |byte: usize| 128 * i16::from(high[byte] as i8) + i16::from(low[byte] as i8);
        let pair = |byte| i32::from(number(byte) as u16) | i32::from(number(byte + 2)) << 16;
        Joined {
            even: pair(0),
            odd: pair(1),
        }
    };
    joined.clear();
    if scan.planes == 1 {
        joined.extend(scan.words.iter().map(|&word| both(0, word)));
    } else {
        joined.extend(scan.words.as_chunks().0.iter().map(|&[high, low]| both(high, low)));
    }
}

/// Adds the sums of `COUNT` states from `first` on to `dots`, `WIDE` vectors at a time.
#[target_feature(enable = "avx2")]
fn tiles<const COUNT: usize, const WIDE: usize>(
    codes: &[[u8; LANE_BYTES]],
    joined: &[Joined],
    states: usize,
    first: usize,
    dots: &mut [[f64; BLOCK]; MOST],
) {
    let mask = _mm256_set1_epi16(255);
    for tiles in (0..TILES).step_by(WIDE) {
        for (codes, joined) in codes.chunks(LANES_AT_ONCE).zip(joined.chunks(LANES_AT_ONCE * states)) {
            let mut sums = [[_mm256_setzero_si256(); WIDE]; COUNT];
            for (codes, joined) in codes.iter().zip(joined.chunks_exact(states)) {
                let joined: &[Joined; COUNT] = &joined[first..].as_chunks().0[0];
                if tiles == 0 {
                    ask(codes);
                }
                let raw: [_; WIDE] = from_fn(|tile| load(codes, tiles + tile));
                let even = raw.map(|raw| _mm256_and_si256(raw, mask));
                let odd = raw.map(|raw| _mm256_srli_epi16::<8>(raw));
                for state in 0..COUNT {
                    // Each from memory by itself: a broadcast of a register is another instruction.
                    let by_even = _mm256_set1_epi32(joined[state].even);
                    let by_odd = _mm256_set1_epi32(joined[state].odd);
                    for tile in 0..WIDE {
                        let (even, odd) = (
                            _mm256_madd_epi16(even[tile], by_even),
                            _mm256_madd_epi16(odd[tile], by_odd),
                        );
                        sums[state][tile] = _mm256_add_epi32(sums[state][tile], _mm256_add_epi32(even, odd));
                    }
                }
            }
            for (dots, sums) in dots.iter_mut().zip(sums) {
                for (dots, sum) in dots.as_chunks_mut::<TILE>().0[tiles..].iter_mut().zip(sums) {
                    let mut rows = [0_i32; TILE];
                    // SAFETY: there is room for 8 numbers, and it need not be aligned.
                    unsafe { _mm256_storeu_si256(rows.as_mut_ptr().cast(), sum) };
                    *dots = from_fn(|row| dots[row] + f64::from(rows[row]));
                }
            }
        }
    }
}
