//! Writing the logits: estimates below the winner, exact logits over them, in the type of the host.
#![expect(
    clippy::inline_always,
    reason = "what is inlined is compiled for the instructions of its caller"
)]

use std::sync::Mutex;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::data::Out;
use super::work::{Each, lock};
use super::{Head, SMALL};
use crate::isa::{Isa, compiled_for};
use crate::{pool, select};

impl Head<'_> {
    /// Writes the logits of all states that are not lost.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a workspace that are borrowed already"
    )]
    pub(super) fn write(
        &self,
        isa: Isa,
        threads: usize,
        out: &mut Out<'_>,
        stride: usize,
        estimates: &mut [f32],
        maxima: &[f32],
        each: &[Mutex<Each>],
    ) {
        let vocabulary = self.sketch.shape.vocabulary();
        let threads = if out.len() < SMALL / 4 { 1 } else { threads };
        let of_scratch = |state: usize| state * vocabulary..(state + 1) * vocabulary;
        match out {
            Out::Single(numbers) => pool::over(numbers, stride, vocabulary, threads, |state, values| {
                let mut one = lock(&each[state]);
                if one.fine() {
                    self.lower(isa, state, values, maxima, &mut one);
                    if !self.rules.estimates {
                        values.fill(f32::NEG_INFINITY);
                    }
                    scatter(&one, values, |exact| exact);
                }
            }),
            Out::Brain(numbers) => {
                self.lower_all(isa, threads, estimates, maxima, each);
                self.rounded(numbers, stride, threads, each, bf16::from_f32, |state, to| {
                    compiled_for(isa, || brain_of(&estimates[of_scratch(state)], to));
                });
            }
            Out::Half(numbers) => {
                self.lower_all(isa, threads, estimates, maxima, each);
                self.rounded(numbers, stride, threads, each, f16::from_f32, |state, to| {
                    to.convert_from_f32_slice(&estimates[of_scratch(state)]);
                });
            }
        }
    }

    /// Lowers what would reach the winner without having been rescored.
    fn lower(&self, isa: Isa, state: usize, values: &mut [f32], maxima: &[f32], one: &mut Each) {
        if !self.rules.estimates {
            return;
        }
        let groups = self.sketch.shape.groups();
        let top = f64::from(one.top);
        let ceiling = self
            .rules
            .after
            .kind
            .rounded((top - self.rules.after.margin(top)) as f32);
        let high = one.ids.iter().filter(|&&id| values[id as usize] > ceiling).count();
        one.done.clipped = select::clip(isa, values, &maxima[state * groups..][..groups], ceiling) - high;
    }

    fn lower_all(&self, isa: Isa, threads: usize, estimates: &mut [f32], maxima: &[f32], each: &[Mutex<Each>]) {
        let vocabulary = self.sketch.shape.vocabulary();
        pool::over(estimates, vocabulary, vocabulary, threads, |state, values| {
            let mut one = lock(&each[state]);
            if one.fine() {
                self.lower(isa, state, values, maxima, &mut one);
            }
        });
    }

    /// Estimates and exact logits in a type of 16 bits.
    fn rounded<T: Copy + Send + Sync>(
        &self,
        numbers: &mut [T],
        stride: usize,
        threads: usize,
        each: &[Mutex<Each>],
        of: impl Fn(f32) -> T + Sync,
        estimates: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let vocabulary = self.sketch.shape.vocabulary();
        pool::over(numbers, stride, vocabulary, threads, |state, to| {
            let one = lock(&each[state]);
            if one.fine() {
                if self.rules.estimates {
                    estimates(state, to);
                } else {
                    to.fill(of(f32::NEG_INFINITY));
                }
                scatter(&one, to, &of);
            }
        });
    }
}

fn scatter<T: Copy>(one: &Each, to: &mut [T], rounded: impl Fn(f32) -> T) {
    for (&id, &exact) in one.ids.iter().zip(&one.exact) {
        to[id as usize] = rounded(exact);
    }
}

/// Rounds to nearest, ties to even; the numbers are finite.
#[inline(always)]
fn brain_of(from: &[f32], to: &mut [bf16]) {
    for (to, from) in to.iter_mut().zip(from) {
        let bits = from.to_bits();
        *to = bf16::from_bits(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16);
    }
}
