//! A step that is no larger than one before it in the same workspace asks for no memory.
#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::unwrap_used, reason = "tests may fail loudly, what helps them too")]
#![expect(clippy::cast_precision_loss, reason = "small numbers of a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use half::{bf16, f16};
use vplug_logits_kernels::after::{After, Kind};
use vplug_logits_kernels::isa::Isa;
use vplug_logits_kernels::layout::{Bits, Shape};
use vplug_logits_kernels::select::widest;
use vplug_logits_kernels::step::{Done, Head, Out, Outcome, Rules, Sketch, Workspace};
use vplug_logits_kernels::weight::{Numbers, Weight};

thread_local! {
    /// Of this thread: what helpers do when they start is theirs.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all of it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.with(|asked| asked.set(asked.get() + 1));
        // SAFETY: the caller's duty.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ASKED.with(|asked| asked.set(asked.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Any number in -1..1.
fn noise(index: usize) -> f32 {
    (index.wrapping_mul(2_654_435_761) % 2001) as f32 / 1000.0 - 1.0
}

fn asked_by_a_second_step(kind: Kind, bits: Bits, threads: usize, many: usize) -> usize {
    let shape = Shape::new(6000, 400, bits).unwrap();
    let (vocabulary, width) = (shape.vocabulary(), shape.width());
    let codes: Vec<u8> = (0..=250).cycle().take(shape.code_bytes()).collect();
    let scale = vec![f16::ONE; shape.padded_rows()];
    let residual = vec![f16::from_f32(0.01); shape.padded_rows()];
    let largest = widest(&residual);
    let matrix: Vec<bf16> = (0..width * width).map(|index| bf16::from_f32(noise(index))).collect();
    let (mean, weight) = (vec![0.5; width], (0..vocabulary * width).map(noise).collect::<Vec<_>>());
    let states: Vec<f32> = (0..many * width).map(|index| noise(index + 7)).collect();
    let head = Head {
        sketch: Sketch {
            shape,
            codes: &codes,
            scale: &scale,
            residual: &residual,
            unit: 0.001,
            matrix: &matrix,
            mean: &mean,
        },
        widest: &largest,
        weight: Weight::new(Numbers::Single(&weight), vocabulary, width, width).unwrap(),
        rules: Rules {
            rows: 64,
            limit: 2000,
            share: Some(0.5),
            possible: 1e9,
            of_state: 1.0,
            of_transformed: 1.0,
            after: After { cap: None, kind },
            estimates: true,
        },
    };
    let (mut work, mut done) = (Workspace::default(), vec![Done::default(); many]);
    let mut single = vec![0.0; many * vocabulary];
    let (mut brain, mut half) = (vec![bf16::ZERO; many * vocabulary], vec![f16::ZERO; many * vocabulary]);
    let isa = Isa::best();
    let mut step = |many: usize| {
        let length = many * vocabulary;
        let out = match kind {
            Kind::Single => Out::Single(&mut single[..length]),
            Kind::Brain => Out::Brain(&mut brain[..length]),
            Kind::Half => Out::Half(&mut half[..length]),
        };
        let (states, done) = (&states[..many * width], &mut done[..many]);
        head.step(isa, threads, 1e-6, states, out, vocabulary, &mut work, done);
        assert!(
            done.iter()
                .all(|done| done.outcome == Outcome::Fine && done.rescored >= 64)
        );
    };
    step(many);
    let before = ASKED.get();
    step(many);
    step(many);
    ASKED.get() - before
}

#[test]
fn a_step_of_a_size_that_was_there_before_asks_for_no_memory() {
    for bits in [Bits::Two, Bits::Eight] {
        for kind in [Kind::Single, Kind::Brain, Kind::Half] {
            for (threads, many) in [(1, 1), (1, 5), (2, 1), (2, 5)] {
                let asked = asked_by_a_second_step(kind, bits, threads, many);
                assert_eq!(asked, 0, "{kind:?}, {bits:?}, {threads} threads, {many} states");
            }
        }
    }
}

#[test]
fn memory_that_is_asked_for_is_counted() {
    let before = ASKED.get();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert!(ASKED.get() > before);
}
