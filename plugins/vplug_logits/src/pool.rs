//! Threads that help with a step: they take tasks while there are any, and nobody waits for one that has not come.
//!
//! The caller works, too, and waits only for tasks that a helper has begun. So on a busy machine, where helpers get no
//! core, a step takes no longer than on one thread. Between two steps helpers sleep.
#![expect(
    unsafe_code,
    reason = "helpers borrow a closure from the stack of whoever waits for them"
)]

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Turns that a helper waits for more before it sleeps: some ten microseconds, the time between two parts of a step.
const TURNS: u32 = 2_000;
/// Turns after which the caller lets others run while it waits for the last tasks.
const PATIENCE: u32 = 1_000;
/// Most helpers there ever are.
const MOST: usize = 255;

type Task<'a> = &'a (dyn Fn(usize) + Sync);

/// Runs `task(0)`, ..., `task(tasks - 1)`, each once, in any order, on up to `threads` threads, this one among them.
///
/// Where another caller has the helpers, or none can be had, this thread does all of it.
///
/// # Panics
///
/// A task panicked; all others have run.
pub fn run(tasks: usize, threads: usize, task: Task<'_>) {
    let pool = if tasks > 1 && threads > 1 {
        Pool::of_this_process()
    } else {
        None
    };
    let Some(pool) = pool.filter(|pool| pool.take()) else {
        (0..tasks).for_each(task);
        return;
    };
    pool.ensure(threads.min(tasks) - 1);
    let panicked = pool.share(tasks, threads.min(tasks) - 1, task);
    pool.busy.store(false, Ordering::Release);
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

/// The tasks of one call, from the last to the first, as `call << 32 | tasks that nobody has begun`.
///
/// A helper that comes late finds another call's number and leaves: it never touches a closure that is gone.
#[derive(Default)]
struct Queue(AtomicU64);

impl Queue {
    fn begin(&self, call: u64, tasks: usize) {
        self.0.store(call << 32 | tasks as u64, Ordering::SeqCst);
    }

    fn call(&self) -> u64 {
        self.0.load(Ordering::SeqCst) >> 32
    }

    /// A task of this call, if there is one left.
    fn claim(&self, call: u64) -> Option<usize> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let left = seen & 0xffff_ffff;
            if seen >> 32 != call || left == 0 {
                return None;
            }
            match self
                .0
                .compare_exchange_weak(seen, seen - 1, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(left as usize - 1),
                Err(now) => seen = now,
            }
        }
    }
}

struct Pool {
    process: u32,
    busy: AtomicBool,
    queue: Queue,
    /// Read only by who has claimed one of its tasks, while its owner waits for them.
    task: UnsafeCell<Option<Task<'static>>>,
    finished: AtomicUsize,
    helpers: AtomicUsize,
    /// How many of them are wanted in this call.
    wanted: AtomicUsize,
    sleepers: AtomicUsize,
    door: Mutex<()>,
    bell: Condvar,
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `task` is written by the one caller that has `busy`, before it begins a call in `queue`, and read by helpers
// that have claimed a task of that call; the caller does not return, nor write again, before these have finished.
unsafe impl Sync for Pool {}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

impl Pool {
    /// The helpers of this process; in a child that was forked new ones, since threads are not copied.
    fn of_this_process() -> Option<&'static Self> {
        let process = std::process::id();
        loop {
            let known = POOL.load(Ordering::Acquire);
            // SAFETY: pools are leaked, so what was ever put there lives as long as the process.
            if let Some(pool) = unsafe { known.as_ref() }
                && pool.process == process
            {
                return Some(pool);
            }
            let fresh = Box::into_raw(Box::new(Self::new(process)));
            if POOL
                .compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
            {
                // SAFETY: nobody has seen it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    fn new(process: u32) -> Self {
        Self {
            process,
            busy: AtomicBool::new(false),
            queue: Queue::default(),
            task: UnsafeCell::new(None),
            finished: AtomicUsize::new(0),
            helpers: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            door: Mutex::new(()),
            bell: Condvar::new(),
            panicked: Mutex::new(None),
        }
    }

    fn take(&self) -> bool {
        !self.busy.swap(true, Ordering::AcqRel)
    }

    /// Starts helpers until there are `many`, or the system gives no more.
    fn ensure(&'static self, many: usize) {
        let mut there = self.helpers.load(Ordering::Relaxed);
        while there < many.min(MOST) {
            let number = there;
            let started = thread::Builder::new()
                .name(format!("vplug-logits-{number}"))
                .stack_size(1 << 20)
                .spawn(move || self.help(number));
            if started.is_err() {
                return;
            }
            there += 1;
            self.helpers.store(there, Ordering::Relaxed);
        }
    }

    /// Works on a call together with helpers.
    fn share(&self, tasks: usize, helpers: usize, task: Task<'_>) -> Option<Box<dyn Any + Send>> {
        // SAFETY: only the lifetime changes; this function returns when all tasks have finished, and no helper reads the
        // closure without having claimed one of them.
        let borrowed = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        // SAFETY: this caller has `busy`, and no claimed task of an earlier call is left.
        unsafe { *self.task.get() = Some(borrowed) };
        self.finished.store(0, Ordering::Relaxed);
        self.wanted.store(helpers, Ordering::Relaxed);
        let call = (self.queue.call() + 1) & 0xffff_ffff;
        let tasks = tasks.min(u32::MAX as usize);
        self.queue.begin(call, tasks);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.door.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_all();
        }
        self.work(call);
        let mut turns = 0;
        while self.finished.load(Ordering::Acquire) < tasks {
            turns += 1;
            if turns > PATIENCE {
                thread::yield_now();
            } else {
                spin_loop();
            }
        }
        self.panicked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn work(&self, call: u64) {
        while let Some(number) = self.queue.claim(call) {
            // SAFETY: a claimed task keeps the caller, and so the closure, until `finished` counts it.
            if let Some(task) = unsafe { *self.task.get() }
                && let Err(payload) = catch_unwind(AssertUnwindSafe(|| task(number)))
            {
                self.panicked
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(payload);
            }
            self.finished.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn help(&self, number: usize) {
        affinity::widen();
        let mut seen = 0;
        loop {
            seen = self.next(seen);
            if number < self.wanted.load(Ordering::Relaxed) {
                self.work(seen);
            }
        }
    }

    /// Waits for a call after the one that was seen.
    fn next(&self, seen: u64) -> u64 {
        for _ in 0..TURNS {
            let call = self.queue.call();
            if call != seen {
                return call;
            }
            spin_loop();
        }
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let call = loop {
            let call = self.queue.call();
            if call != seen {
                break call;
            }
            door = self.bell.wait(door).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        call
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

/// Where helpers may run.
mod affinity {
    /// Lets this thread run where any thread of the process may.
    ///
    /// Hosts bind their own threads to cores one by one, and a thread inherits the core of the one that started it.
    #[cfg(target_os = "linux")]
    pub fn widen() {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
            return;
        };
        let mut union = CpuSet::new();
        for entry in threads.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(Ok(set)) = number
                .and_then(rustix::process::Pid::from_raw)
                .map(|pid| sched_getaffinity(Some(pid)))
            else {
                continue;
            };
            for core in (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)) {
                union.set(core);
            }
        }
        if union.count() > 0 {
            // Where it is refused the thread stays where its parent was, which is slower and nothing else.
            let _stays = sched_setaffinity(None, &union);
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub const fn widen() {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
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
    fn a_sleeping_helper_is_woken() {
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(2));
            let helped = AtomicUsize::new(0);
            let here = thread::current().id();
            run(50, 2, &|_| {
                thread::sleep(Duration::from_micros(200));
                if thread::current().id() != here {
                    helped.fetch_add(1, Ordering::Relaxed);
                }
            });
            if helped.into_inner() > 0 {
                return;
            }
        }
        // another test has the helpers, which is allowed; but not twenty times in a row
        panic!("no helper came");
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
