//! The helpers of a process, and the one call at a time that they work on.
#![expect(
    unsafe_code,
    reason = "helpers borrow a closure from the stack of whoever waits for them"
)]

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::cores;

/// Turns that a helper waits for more before it sleeps: some ten microseconds, the time between two parts of a step.
const TURNS: u32 = 2_000;
/// Turns after which the caller lets others run while it waits for the last tasks.
const PATIENCE: u32 = 1_000;
/// How long a helper may take for a task that it has begun when all others are done. None takes so long unless it lost its
/// core.
const LATE: Duration = Duration::from_micros(300);
/// Calls that are done alone after the first helper that did not help; twice as many after each further one, up to the most.
const ALONE: (u32, u32) = (16, 4096);
/// Most helpers there ever are.
const MOST: usize = 255;

/// What is done for each number.
pub(super) type Task<'a> = &'a (dyn Fn(usize) + Sync);

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

pub(super) struct Helpers {
    process: u32,
    busy: AtomicBool,
    queue: Queue,
    /// Read only by who has claimed one of its tasks, while its owner waits for them.
    task: UnsafeCell<Option<Task<'static>>>,
    finished: AtomicUsize,
    started: AtomicUsize,
    /// How many of them are wanted in this call.
    wanted: AtomicUsize,
    sleepers: AtomicUsize,
    /// The core that the caller was on as its call began.
    core: AtomicUsize,
    /// Calls that are done without helpers from now on, and how many are after the next one that does not help.
    alone: AtomicU32,
    penalty: AtomicU32,
    door: Mutex<()>,
    bell: Condvar,
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `task` is written by the one caller that has `busy`, before it begins a call in `queue`, and read by helpers
// that have claimed a task of that call; the caller does not return, nor write again, before these have finished.
unsafe impl Sync for Helpers {}

static HELPERS: AtomicPtr<Helpers> = AtomicPtr::new(std::ptr::null_mut());

impl Helpers {
    /// The helpers of this process; in a child that was forked new ones, since threads are not copied.
    pub(super) fn of_this_process() -> Option<&'static Self> {
        let process = std::process::id();
        loop {
            let known = HELPERS.load(Ordering::Acquire);
            // SAFETY: pools are leaked, so what was ever put there lives as long as the process.
            if let Some(pool) = unsafe { known.as_ref() }
                && pool.process == process
            {
                return Some(pool);
            }
            let fresh = Box::into_raw(Box::new(Self::new(process)));
            if HELPERS
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
            started: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            core: AtomicUsize::new(0),
            alone: AtomicU32::new(0),
            penalty: AtomicU32::new(ALONE.0),
            door: Mutex::new(()),
            bell: Condvar::new(),
            panicked: Mutex::new(None),
        }
    }

    /// Whether all tasks ran with helpers; else none did.
    pub(super) fn run(&'static self, tasks: usize, threads: usize, task: Task<'_>) -> bool {
        if !(self.worthwhile() && self.take()) {
            return false;
        }
        let helpers = threads.min(tasks) - 1;
        self.ensure(helpers);
        let panicked = self.share(tasks, helpers, task);
        self.busy.store(false, Ordering::Release);
        if let Some(payload) = panicked {
            resume_unwind(payload);
        }
        true
    }

    /// Whether helpers are asked for: not while they are waited for too long.
    fn worthwhile(&self) -> bool {
        let left = self.alone.load(Ordering::Relaxed);
        if left > 0 {
            self.alone.store(left - 1, Ordering::Relaxed); // callers at once may count one for two
        }
        left == 0
    }

    /// Remembers whether helpers helped, or only cost time.
    fn learn(&self, helped: bool) {
        let penalty = self.penalty.load(Ordering::Relaxed);
        if !helped {
            self.alone.store(penalty, Ordering::Relaxed);
            self.penalty.store((penalty * 2).min(ALONE.1), Ordering::Relaxed);
        } else if penalty > ALONE.0 {
            self.penalty.store(penalty - 1, Ordering::Relaxed);
        }
    }

    fn take(&self) -> bool {
        !self.busy.swap(true, Ordering::AcqRel)
    }

    /// Starts helpers until there are `many`, or the system gives no more.
    fn ensure(&'static self, many: usize) {
        let mut there = self.started.load(Ordering::Relaxed);
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
            self.started.store(there, Ordering::Relaxed);
        }
    }

    /// Works on a call together with helpers.
    fn share(&self, tasks: usize, helpers: usize, task: Task<'_>) -> Option<Box<dyn Any + Send>> {
        // SAFETY: only the lifetime changes; this function returns when all tasks have finished, and no helper reads the
        // closure without having claimed one of them.
        let borrowed = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        // SAFETY: this caller has `busy`, and no claimed task of an earlier call is left.
        unsafe { *self.task.get() = Some(borrowed) };
        self.core.store(cores::here(), Ordering::Relaxed);
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
        if self.finished.load(Ordering::Acquire) < tasks {
            let begun = Instant::now();
            let mut turns = 0;
            while self.finished.load(Ordering::Acquire) < tasks {
                turns += 1;
                if turns > PATIENCE {
                    thread::yield_now();
                } else {
                    spin_loop();
                }
            }
            self.learn(begun.elapsed() <= LATE);
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
        cores::widen();
        let several = cores::several();
        let mut seen = 0;
        loop {
            seen = self.next(seen);
            if number < self.wanted.load(Ordering::Relaxed) {
                if several && cores::here() == self.core.load(Ordering::Relaxed) {
                    self.learn(false); // no other core was free: here it only takes the caller's time
                } else {
                    self.work(seen);
                }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{ALONE, Helpers};

    /// Helpers that no other test has.
    fn own() -> &'static Helpers {
        Box::leak(Box::new(Helpers::new(std::process::id())))
    }

    #[test]
    fn a_sleeping_helper_is_woken() {
        let pool = own();
        let here = thread::current().id();
        // on a busy machine it may find no core but the caller's, and leave again; hardly a thousand times in a row
        let helped = (0..1000).any(|_| {
            thread::sleep(Duration::from_millis(2));
            let helped = AtomicUsize::new(0);
            pool.alone.store(0, Ordering::Relaxed);
            assert!(pool.run(50, 2, &|_| {
                busy(Duration::from_micros(100));
                if thread::current().id() != here {
                    helped.fetch_add(1, Ordering::Relaxed);
                }
            }));
            helped.into_inner() > 0
        });
        assert!(helped);
    }

    fn busy(time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn helpers_that_are_waited_for_are_done_without_for_a_while_and_then_asked_again() {
        let pool = own();
        let here = thread::current().id();
        // a helper that loses its core in its task, as far as the caller can see
        while pool.alone.load(Ordering::Relaxed) == 0 {
            assert!(pool.run(2, 2, &|_| {
                let long = if thread::current().id() == here { 1 } else { 5 };
                busy(Duration::from_millis(long));
            }));
        }
        for _ in 0..ALONE.0 {
            assert!(!pool.run(2, 2, &|_| {}));
        }
        assert!(pool.run(2, 2, &|_| {}));
    }
}
