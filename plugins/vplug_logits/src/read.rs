//! Reading bytes and doing nothing with them: the speed that no scan can pass.
#![expect(
    clippy::inline_always,
    reason = "what is inlined is compiled for the instructions of its caller"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::isa::{Isa, compiled_for};
use crate::pool;

/// Bytes that one task reads.
const TASK: usize = 1 << 20;

/// A checksum of all bytes, so that each of them has to be read.
pub fn read_all(bytes: &[u8], threads: usize) -> u64 {
    let sum = AtomicU64::new(0);
    let isa = Isa::best();
    pool::run(bytes.len().div_ceil(TASK), threads, &|task| {
        let part = &bytes[task * TASK..((task + 1) * TASK).min(bytes.len())];
        sum.fetch_add(compiled_for(isa, || mixed(part)), Ordering::Relaxed);
    });
    sum.into_inner()
}

#[inline(always)]
fn mixed(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<256>();
    let mut sums = [0_u64; 32];
    for chunk in words {
        for (sum, word) in sums.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    let of_rest = rest.iter().fold(0_u64, |sum, &byte| sum.wrapping_add(u64::from(byte)));
    sums.iter().fold(of_rest, |sum, &part| sum.wrapping_add(part))
}

#[cfg(test)]
mod tests {
    use super::read_all;

    #[test]
    fn each_byte_counts() {
        let mut bytes = vec![0_u8; (3 << 20) + 7];
        assert_eq!(read_all(&bytes, 2), 0);
        for place in [0, 255, 256, 1 << 20, (3 << 20) + 6] {
            bytes[place] = 1;
            assert_ne!(read_all(&bytes, 2), 0);
            bytes[place] = 0;
        }
    }
}
