//! Sums in plain code, laid out so that a compiler finds vectors in it.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;

use super::sink::Sink;
use super::{Batch, Dots, LANE_BYTES, Scan, TOGETHER};
use crate::layout::{BLOCK, Bits, LANE};

/// Rows whose sums are in hand at a time.
const TILE: usize = 16;
/// Bytes of one lane of a tile.
const TILE_BYTES: usize = TILE * LANE;

/// Hands each block's sums to `sink`.
pub(super) fn scan<S: Sink>(scan: &Scan<'_>, blocks: Range<usize>, sink: &mut S) {
    let mut dots: Dots = [[0; BLOCK]; TOGETHER];
    let mut scales = [0.0; BLOCK];
    for block in blocks {
        scan.scales(block).convert_to_f32_slice(&mut scales);
        for batch in scan.batches(TOGETHER) {
            for (query, dots) in dots[..batch.count].iter_mut().enumerate() {
                let one = Batch {
                    first: batch.first + query,
                    count: 1,
                    ..batch
                };
                match scan.shape.bits() {
                    Bits::One => multiply::<1>(scan.block(block), one, dots),
                    Bits::Two => multiply::<2>(scan.block(block), one, dots),
                    Bits::Four => multiply::<4>(scan.block(block), one, dots),
                    Bits::Eight => multiply::<8>(scan.block(block), one, dots),
                }
            }
            sink.take(block, batch.first, batch.count, &scales, &dots);
        }
    }
}

/// One query: products of bytes are summed in i16 for as many lanes as fit, then in i32.
fn multiply<const BITS: usize>(codes: &[[u8; LANE_BYTES]], batch: Batch<'_>, dots: &mut [i32; BLOCK]) {
    let largest = (1 << BITS) - 1;
    let segments = 8 / BITS;
    // 127 products of the largest code and query fit an i16 at one bit, 42 at two, 8 at four, 1 at eight.
    let lanes_at_once = (i16::MAX as usize / (largest * 128) / segments).max(1);
    dots.fill(0);
    let mut words = batch.lanes(segments);
    for codes in codes.chunks(lanes_at_once) {
        let mut sums = [0_i16; LANE_BYTES];
        for (codes, words) in codes.iter().zip(&mut words) {
            for segment in 0..segments {
                let [word] = *words.segment::<1>(segment);
                let query: [i16; TILE_BYTES] = std::array::from_fn(|i| i16::from(word.to_le_bytes()[i % LANE] as i8));
                let tiles = sums.as_chunks_mut::<TILE_BYTES>().0;
                for (sums, codes) in tiles.iter_mut().zip(codes.as_chunks::<TILE_BYTES>().0) {
                    for i in 0..TILE_BYTES {
                        let code = codes[i] >> (segment * BITS) & largest as u8;
                        sums[i] += i16::from(code) * query[i];
                    }
                }
            }
        }
        for (dot, sums) in dots.iter_mut().zip(sums.as_chunks::<LANE>().0) {
            *dot += sums.iter().copied().map(i32::from).sum::<i32>();
        }
    }
}
