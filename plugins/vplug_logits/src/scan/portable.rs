//! Sums in plain code, laid out so that a compiler finds vectors in it.

use std::array::from_fn;
use std::ops::Range;

use half::slice::HalfFloatSliceExt;

use super::sink::{Sink, give};
use super::{Batch, Dots, LANE_BYTES, Scan, TOGETHER};
use crate::layout::{BLOCK, Bits, LANE};

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
            give(scan, sink, block, (batch.first, batch.count), &scales, &dots);
        }
    }
}

/// One query. Products are summed in i16 for as many lanes as fit, then in i32. Codes of eight bits are taken as two of
/// four.
fn multiply<const BITS: usize>(codes: &[[u8; LANE_BYTES]], batch: Batch<'_>, dots: &mut [i32; BLOCK]) {
    let (segments, part_bits) = (8 / BITS, BITS.min(4));
    let largest = (1 << part_bits) - 1;
    // 255 products of the largest code and 128 fit an i16 at one bit, 85 at two, 17 at four; a segment adds four.
    let lanes_at_once = i16::MAX as usize / (largest as usize * 128) / (LANE * segments);
    dots.fill(0);
    for part in 0..BITS / part_bits {
        let mut words = batch.lanes(segments);
        for codes in codes.chunks(lanes_at_once) {
            let mut sums = [0_i16; BLOCK];
            for (codes, words) in codes.iter().zip(&mut words) {
                let rows = codes.as_chunks::<LANE>().0;
                let low: [u16; BLOCK] = from_fn(|row| u32::from_le_bytes(rows[row]) as u16);
                let high: [u16; BLOCK] = from_fn(|row| (u32::from_le_bytes(rows[row]) >> 16) as u16);
                for segment in 0..segments {
                    let [word] = *words.segment::<1>(segment);
                    let [a, b, c, d] = word.to_le_bytes().map(|byte| i16::from(byte as i8));
                    let code = |pair: u16, byte: usize| {
                        (pair >> (8 * byte + segment * BITS + part * part_bits)) as i16 & largest
                    };
                    for row in 0..BLOCK {
                        sums[row] += code(low[row], 0) * a
                            + code(low[row], 1) * b
                            + code(high[row], 0) * c
                            + code(high[row], 1) * d;
                    }
                }
            }
            for (dot, sum) in dots.iter_mut().zip(sums) {
                *dot += i32::from(sum) << (part * part_bits);
            }
        }
    }
}
