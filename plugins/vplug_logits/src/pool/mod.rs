//! Threads that help with a step: they take tasks while there are any, and nobody waits for one that has not come.
//!
//! The caller works, too, and waits only for tasks that a helper has begun. So on a busy machine, where helpers get no
//! core, a step takes no longer than on one thread. One that finds no core but the caller's leaves at once; one that loses
//! its core in the middle of a task is waited for; after either the caller does without helpers for a while. Between two
//! steps helpers sleep.
#![expect(unsafe_code, reason = "a slice is handed out in parts")]

mod cores;
mod helpers;

use std::marker::PhantomData;

use helpers::{Helpers, Task};

/// Runs `task(0)`, ..., `task(tasks - 1)`, each once, in any order, on up to `threads` threads, this one among them.
///
/// Where another caller has the helpers, or none can be had, this thread does all of it.
///
/// # Panics
///
/// A task panicked; all others have run.
pub fn run(tasks: usize, threads: usize, task: Task<'_>) {
    let helpers = if tasks > 1 && threads > 1 {
        Helpers::of_this_process()
    } else {
        None
    };
    if !helpers.is_some_and(|helpers| helpers.run(tasks, threads, task)) {
        (0..tasks).for_each(task);
    }
}

/// Runs `task(number, part)` for each part of a slice.
///
/// # Parameters
///
/// `step`: from the begin of one part to the next; `length`: of a part, the last of which may be shorter.
///
/// # Panics
///
/// Parts would overlap, or a task panicked.
pub fn over<T: Send>(
    slice: &mut [T],
    step: usize,
    length: usize,
    threads: usize,
    task: impl Fn(usize, &mut [T]) + Sync,
) {
    assert!(step > 0 && length <= step, "parts of {length}, {step} apart, overlap");
    let tasks = slice.len().div_ceil(step);
    let whole = Whole {
        first: slice.as_mut_ptr(),
        numbers: slice.len(),
        step,
        length,
        borrowed: PhantomData,
    };
    run(tasks, threads, &|number| {
        // SAFETY: `run` runs each task once.
        task(number, unsafe { whole.part(number) });
    });
}

/// A slice, handed out in parts that do not overlap.
struct Whole<'a, T> {
    first: *mut T,
    numbers: usize,
    step: usize,
    /// At most `step`.
    length: usize,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: each thread gets parts of its own of a `&mut [T]`.
unsafe impl<T: Send> Sync for Whole<'_, T> {}

impl<T> Whole<'_, T> {
    /// # Safety
    ///
    /// Asked for once for each number below `numbers / step`, rounded up.
    #[expect(clippy::mut_from_ref, reason = "the parts do not overlap")]
    unsafe fn part(&self, number: usize) -> &mut [T] {
        let begin = number * self.step;
        let length = self.length.min(self.numbers - begin);
        // SAFETY: inside the slice, which is borrowed mutably for as long as `self` lives; and no other part has any of it,
        // since no part is longer than a step.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(begin), length) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::{panic, thread};

    use super::{over, run};

    #[test]
    fn each_task_runs_once() {
        for tasks in [0, 1, 2, 3, 1000] {
            for threads in [1, 2, 5] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                run(tasks, threads, &|number| {
                    counts[number].fetch_add(1, Ordering::Relaxed);
                });
                assert!(
                    counts.iter().all(|count| count.load(Ordering::Relaxed) == 1),
                    "{tasks} on {threads}"
                );
            }
        }
    }

    #[test]
    fn each_task_has_a_part_of_its_own() {
        let mut numbers = vec![0; 1003];
        over(&mut numbers, 100, 99, 3, |number, part| part.fill(number + 1));
        assert!(
            numbers
                .iter()
                .enumerate()
                .all(|(index, &number)| number == if index % 100 == 99 { 0 } else { index / 100 + 1 })
        );
        over(&mut [0; 0], 100, 99, 3, |_, _| panic!("a part of nothing"));
    }

    #[test]
    fn parts_that_overlap_are_refused() {
        for (step, length) in [(2, 3), (0, 0)] {
            assert!(panic::catch_unwind(|| over(&mut [0; 9], step, length, 2, |_, _| {})).is_err());
        }
    }

    #[test]
    fn callers_at_once_each_get_all_of_theirs() {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let sum = AtomicUsize::new(0);
                        run(20, 3, &|number| {
                            sum.fetch_add(number, Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), 190);
                    }
                });
            }
        });
    }

    #[test]
    fn a_task_that_panics_panics_the_caller_and_nothing_else() {
        let ran = AtomicUsize::new(0);
        let caught = panic::catch_unwind(|| {
            run(10, 2, &|number| {
                ran.fetch_add(1, Ordering::Relaxed);
                assert!(number != 5, "five");
            });
        });
        assert!(caught.is_err());
        run(10, 2, &|_| {});
    }
}
