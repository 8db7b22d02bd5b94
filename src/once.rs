//! The run-once table: who asks for a key and a thread in, whose turn it is out; and who waits for whom.
//!
//! Generic and std only: it knows nothing of plugins or of Python, so that threads can hammer it and loom can check
//! it. One short lock guards the table; inside it values are only moved and compared, and none is ever dropped. A
//! success stays; a failure is told to those who waited for that attempt, and the next to enter starts a new one.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
mod sync {
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
}
#[cfg(not(loom))]
mod sync {
    pub use std::sync::{Condvar, Mutex, MutexGuard};
}

/// A thread, by a number that no other living one has.
pub type Thread = u64;

/// How an attempt ended, for those who waited for it.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<V, F> {
    /// It succeeded: this value stays.
    Done(Arc<V>),
    /// It failed.
    Failed(Arc<F>),
    /// It was given back untried or half tried: enter again.
    Released,
    /// Whoever ran it vanished without a word (it panicked).
    Abandoned,
}

impl<V, F> Clone for Outcome<V, F> {
    fn clone(&self) -> Self {
        match self {
            Self::Done(value) => Self::Done(Arc::clone(value)),
            Self::Failed(failure) => Self::Failed(Arc::clone(failure)),
            Self::Released => Self::Released,
            Self::Abandoned => Self::Abandoned,
        }
    }
}

/// The answer to [`Table::enter`].
#[derive(Debug)]
pub enum Turn<K: Eq + Hash + Clone, V, F> {
    /// Run it, and say through the ticket how it went.
    Run(Ticket<K, V, F>),
    /// It has succeeded before.
    Done(Arc<V>),
    /// Another thread runs it.
    Wait(Waiter<K, V, F>),
    /// This thread itself is running it, further out.
    Reentrant,
    /// Waiting would close a circle: each thread with the key that it waits for, this one first.
    Cycle(Vec<(Thread, K)>),
}

/// What is known of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Status<V, F> {
    /// Nothing has been tried, or all was given back.
    Vacant,
    /// This thread runs it.
    Running(Thread),
    /// It has succeeded.
    Done(Arc<V>),
    /// So many attempts have failed; the last one like this, if it said how.
    Failed(Option<Arc<F>>, u32),
}

#[derive(Debug)]
enum Slot<V, F> {
    Running {
        owner: Thread,
        serial: u64,
        attempts: u32,
        waiters: usize,
    },
    Done {
        value: Arc<V>,
        attempts: u32,
    },
    Failed {
        failure: Option<Arc<F>>,
        attempts: u32,
    },
}

#[derive(Debug)]
struct Inner<K, V, F> {
    slots: HashMap<K, Slot<V, F>>,
    /// Which attempts at which keys each thread waits for, the outermost first: a signal handler may wait inside a wait.
    waits: HashMap<Thread, Vec<(K, u64)>>,
    /// How attempts ended that somebody still waits for, and how many do.
    ended: HashMap<u64, (Outcome<V, F>, usize)>,
    next: u64,
}

#[derive(Debug)]
struct Shared<K, V, F> {
    inner: Mutex<Inner<K, V, F>>,
    changed: Condvar,
}

/// What runs once, by key.
#[derive(Debug)]
pub struct Table<K, V, F> {
    shared: Arc<Shared<K, V, F>>,
}

impl<K: Eq + Hash + Clone, V, F> Default for Table<K, V, F> {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                inner: Mutex::new(Inner {
                    slots: HashMap::new(),
                    waits: HashMap::new(),
                    ended: HashMap::new(),
                    next: 0,
                }),
                changed: Condvar::new(),
            }),
        }
    }
}

impl<K: Eq + Hash + Clone, V, F> Shared<K, V, F> {
    fn lock(&self) -> MutexGuard<'_, Inner<K, V, F>> {
        // nothing inside can be left half done, so a poisoned lock guards a sound table
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Ends the attempt of a ticket; what was there before goes back to the caller, to be dropped unlocked.
    fn end(&self, key: &K, serial: u64, outcome: Outcome<V, F>) -> Option<Slot<V, F>> {
        let mut inner = self.lock();
        let Some(&Slot::Running {
            serial: running,
            attempts,
            waiters,
            ..
        }) = inner.slots.get(key)
        else {
            return None;
        };
        if running != serial {
            return None; // the table was reset meanwhile
        }
        let slot = match &outcome {
            Outcome::Done(value) => Some(Slot::Done {
                value: Arc::clone(value),
                attempts,
            }),
            Outcome::Failed(failure) => Some(Slot::Failed {
                failure: Some(Arc::clone(failure)),
                attempts,
            }),
            Outcome::Abandoned => Some(Slot::Failed {
                failure: None,
                attempts,
            }),
            Outcome::Released => None,
        };
        let before = match slot {
            Some(slot) => inner.slots.insert(key.clone(), slot),
            None => inner.slots.remove(key),
        };
        if waiters > 0 {
            inner.ended.insert(serial, (outcome, waiters));
            drop(inner);
            self.changed.notify_all(); // a system call, even if nobody waits
        }
        before
    }
}

impl<K: Eq + Hash + Clone, V, F> Inner<K, V, F> {
    /// Whether waiting for a key that `owner` runs would wait for `thread` itself; then, who waits for what.
    fn circle(&self, thread: Thread, key: &K, owner: Thread) -> Option<Vec<(Thread, K)>> {
        let (mut chain, mut seen) = (vec![(thread, key.clone())], HashSet::new());
        self.leads_to(thread, owner, &mut chain, &mut seen).then_some(chain)
    }

    /// Whether one of the waits of `at` ends at `thread`; the way there is put on the chain.
    fn leads_to(&self, thread: Thread, at: Thread, chain: &mut Vec<(Thread, K)>, seen: &mut HashSet<Thread>) -> bool {
        if at == thread {
            return true;
        }
        if !seen.insert(at) {
            return false;
        }
        for (wanted, attempt) in self.waits.get(&at).into_iter().flatten() {
            // an attempt that has just ended is waited for no longer: its waiters are about to wake
            if let Some(Slot::Running { owner, serial, .. }) = self.slots.get(wanted)
                && serial == attempt
            {
                chain.push((at, wanted.clone()));
                if self.leads_to(thread, *owner, chain, seen) {
                    return true;
                }
                chain.pop();
            }
        }
        false
    }
}

impl<K: Eq + Hash + Clone, V, F> Table<K, V, F> {
    /// Asks for a turn, in one step.
    #[must_use]
    pub fn enter(&self, key: &K, thread: Thread) -> Turn<K, V, F> {
        let mut inner = self.shared.lock();
        let inner = &mut *inner;
        let attempts = match inner.slots.get_mut(key) {
            Some(Slot::Done { value, .. }) => return Turn::Done(Arc::clone(value)),
            Some(Slot::Running { owner, .. }) if *owner == thread => return Turn::Reentrant,
            Some(Slot::Running { owner, serial, .. }) => {
                let (owner, serial) = (*owner, *serial);
                if let Some(chain) = inner.circle(thread, key, owner) {
                    return Turn::Cycle(chain);
                }
                if let Some(Slot::Running { waiters, .. }) = inner.slots.get_mut(key) {
                    *waiters += 1;
                }
                inner.waits.entry(thread).or_default().push((key.clone(), serial));
                return Turn::Wait(Waiter {
                    shared: Arc::clone(&self.shared),
                    key: key.clone(),
                    thread,
                    serial,
                    told: false,
                });
            }
            Some(Slot::Failed { attempts, .. }) => *attempts,
            None => 0,
        };
        let serial = inner.next;
        inner.next += 1;
        let running = Slot::Running {
            owner: thread,
            serial,
            attempts: attempts.saturating_add(1),
            waiters: 0,
        };
        let before = inner.slots.insert(key.clone(), running);
        Turn::Run(Ticket {
            shared: Arc::clone(&self.shared),
            key: key.clone(),
            serial,
            open: true,
            before,
        })
    }

    /// What is known of a key now.
    #[must_use]
    pub fn status(&self, key: &K) -> Status<V, F> {
        match self.shared.lock().slots.get(key) {
            None => Status::Vacant,
            Some(Slot::Running { owner, .. }) => Status::Running(*owner),
            Some(Slot::Done { value, .. }) => Status::Done(Arc::clone(value)),
            Some(Slot::Failed { failure, attempts }) => Status::Failed(failure.clone(), *attempts),
        }
    }

    /// Marks a key as run by a thread, without a ticket: [`Table::settle`] ends it. For a forked child, whose thread is
    /// inside what its parent's table knows.
    pub fn claim(&self, key: K, thread: Thread) {
        let mut inner = self.shared.lock();
        let serial = inner.next;
        inner.next += 1;
        inner.slots.entry(key).or_insert(Slot::Running {
            owner: thread,
            serial,
            attempts: 1,
            waiters: 0,
        });
    }

    /// Ends what was claimed: with a value it is done, without one as if never tried.
    pub fn settle(&self, key: &K, value: Option<V>) {
        let serial = match self.shared.lock().slots.get(key) {
            Some(Slot::Running { serial, .. }) => *serial,
            _ => return,
        };
        let outcome = value.map_or(Outcome::Released, |value| Outcome::Done(Arc::new(value)));
        drop(self.shared.end(key, serial, outcome));
    }

    /// Takes a value over that was made elsewhere, unless the key is known already.
    pub fn seed(&self, key: K, value: V) {
        let mut inner = self.shared.lock();
        if let std::collections::hash_map::Entry::Vacant(place) = inner.slots.entry(key) {
            place.insert(Slot::Done {
                value: Arc::new(value),
                attempts: 1,
            });
        }
    }

    /// Makes a success a failed attempt after all, if `is_it` knows it for the one that is meant: whoever got it found
    /// that it will not do, and the next to enter tries again.
    pub fn retract(&self, key: &K, is_it: impl FnOnce(&V) -> bool, failure: F) {
        let failure = Arc::new(failure);
        let mut inner = self.shared.lock();
        let before = match inner.slots.get_mut(key) {
            Some(slot @ Slot::Done { .. }) => {
                let Slot::Done { value, attempts } = &*slot else { return };
                if !is_it(value) {
                    return;
                }
                let failed = Slot::Failed {
                    failure: Some(failure),
                    attempts: *attempts,
                };
                std::mem::replace(slot, failed)
            }
            _ => return,
        };
        drop(inner);
        drop(before);
    }

    /// Forgets every key that `forget` names and that nobody is running.
    pub fn reset(&self, mut forget: impl FnMut(&K) -> bool) {
        let mut inner = self.shared.lock();
        let gone: Vec<K> = (inner.slots.iter())
            .filter(|(key, slot)| !matches!(slot, Slot::Running { .. }) && forget(key))
            .map(|(key, _)| key.clone())
            .collect();
        let dropped: Vec<_> = gone.iter().filter_map(|key| inner.slots.remove(key)).collect();
        drop(inner);
        drop(dropped);
    }
}

/// The right, and the duty, to run a key once.
#[derive(Debug)]
pub struct Ticket<K: Eq + Hash + Clone, V, F> {
    shared: Arc<Shared<K, V, F>>,
    key: K,
    serial: u64,
    open: bool,
    /// The failure that this attempt replaces; dropped with the ticket, unlocked.
    before: Option<Slot<V, F>>,
}

impl<K: Eq + Hash + Clone, V, F> Ticket<K, V, F> {
    /// It succeeded. Everybody gets this value from now on.
    pub fn done(self, value: V) -> Arc<V> {
        let value = Arc::new(value);
        self.close(Outcome::Done(Arc::clone(&value)));
        value
    }

    /// It failed. Those who wait get this; the next one to enter tries again.
    pub fn failed(self, failure: F) -> Arc<F> {
        let failure = Arc::new(failure);
        self.close(Outcome::Failed(Arc::clone(&failure)));
        failure
    }

    /// It was broken off: the key is as if never tried, and those who wait enter again.
    pub fn release(self) {
        self.close(Outcome::Released);
    }

    /// Neither ends the attempt nor touches the lock: for a forked child, where the lock may be frozen.
    pub fn disown(mut self) {
        self.open = false;
    }

    fn close(mut self, outcome: Outcome<V, F>) {
        self.open = false;
        drop(self.shared.end(&self.key, self.serial, outcome));
        drop(self.before.take());
    }
}

impl<K: Eq + Hash + Clone, V, F> Drop for Ticket<K, V, F> {
    fn drop(&mut self) {
        if self.open {
            drop(self.shared.end(&self.key, self.serial, Outcome::Abandoned));
        }
    }
}

/// A place in the queue for one attempt. Whoever gives up drops it.
#[derive(Debug)]
pub struct Waiter<K: Eq + Hash + Clone, V, F> {
    shared: Arc<Shared<K, V, F>>,
    key: K,
    thread: Thread,
    serial: u64,
    told: bool,
}

impl<K: Eq + Hash + Clone, V, F> Waiter<K, V, F> {
    /// Waits for one slice of time; `None` if the attempt still runs then.
    pub fn wait(&mut self, slice: Duration) -> Option<Outcome<V, F>> {
        // one end for all turns of the loop: every other key that ends wakes us too
        let end = Instant::now() + slice;
        let mut inner = self.shared.lock();
        loop {
            if let Some(outcome) = Self::take(&mut inner, self.serial) {
                self.leave(&mut inner);
                self.told = true;
                return Some(outcome);
            }
            // in the model time never passes
            let rest = if cfg!(loom) {
                slice
            } else {
                end.saturating_duration_since(Instant::now())
            };
            if rest.is_zero() {
                return None;
            }
            (inner, _) =
                (self.shared.changed.wait_timeout(inner, rest)).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn leave(&self, inner: &mut Inner<K, V, F>) {
        if let Some(waits) = inner.waits.get_mut(&self.thread) {
            let innermost = waits.iter().rposition(|(_, serial)| *serial == self.serial);
            innermost.map(|place| waits.remove(place));
            if waits.is_empty() {
                inner.waits.remove(&self.thread);
            }
        }
    }

    /// Leaves without touching the lock: for a forked child, where the lock may be frozen.
    pub fn disown(mut self) {
        self.told = true;
    }

    /// The thread that runs the attempt, if it still does.
    #[must_use]
    pub fn owner(&self) -> Option<Thread> {
        match self.shared.lock().slots.get(&self.key) {
            Some(Slot::Running { owner, serial, .. }) if *serial == self.serial => Some(*owner),
            _ => None,
        }
    }

    fn take(inner: &mut Inner<K, V, F>, serial: u64) -> Option<Outcome<V, F>> {
        let (outcome, waiting) = inner.ended.get_mut(&serial)?;
        *waiting -= 1;
        if *waiting > 0 {
            return Some(outcome.clone());
        }
        inner.ended.remove(&serial).map(|(outcome, _)| outcome)
    }
}

impl<K: Eq + Hash + Clone, V, F> Drop for Waiter<K, V, F> {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let mut inner = self.shared.lock();
        self.leave(&mut inner);
        let unheard = Self::take(&mut inner, self.serial);
        if unheard.is_none()
            && let Some(Slot::Running { serial, waiters, .. }) = inner.slots.get_mut(&self.key)
            && *serial == self.serial
        {
            *waiters -= 1;
        }
        drop(inner);
        drop(unheard);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SLICE: Duration = Duration::from_millis(5);

    type Strings = Table<&'static str, String, String>;

    fn run(table: &Strings, key: &'static str, thread: Thread) -> Ticket<&'static str, String, String> {
        match table.enter(&key, thread) {
            Turn::Run(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn wait(table: &Strings, key: &'static str, thread: Thread) -> Waiter<&'static str, String, String> {
        match table.enter(&key, thread) {
            Turn::Wait(waiter) => waiter,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_success_never_runs_again() {
        let table = Strings::default();
        run(&table, "a", 1).done("x".into());
        assert!(matches!(table.enter(&"a", 2), Turn::Done(value) if *value == "x"));
    }

    #[test]
    fn waiters_get_the_failure_of_their_attempt_and_the_next_one_tries_again() {
        let table = Strings::default();
        let ticket = run(&table, "a", 1);
        let (mut second, mut third) = (wait(&table, "a", 2), wait(&table, "a", 3));
        assert_eq!(second.wait(SLICE), None);
        assert_eq!(second.owner(), Some(1));
        ticket.failed("no".into());
        let again = run(&table, "a", 4);
        assert_eq!(second.wait(SLICE), Some(Outcome::Failed(Arc::new("no".into()))));
        again.done("yes".into());
        assert_eq!(third.wait(SLICE), Some(Outcome::Failed(Arc::new("no".into()))));
        assert_eq!(table.status(&"a"), Status::Done(Arc::new("yes".into())));
        assert!(table.shared.lock().ended.is_empty() && table.shared.lock().waits.is_empty());
    }

    #[test]
    fn the_same_thread_is_told_that_it_is_inside() {
        let table = Strings::default();
        let _ticket = run(&table, "a", 1);
        assert!(matches!(table.enter(&"a", 1), Turn::Reentrant));
    }

    #[test]
    fn a_circle_of_three_is_named_to_the_one_who_would_close_it() {
        let table = Strings::default();
        let _tickets = (run(&table, "a", 1), run(&table, "b", 2), run(&table, "c", 3));
        let _waiters = (wait(&table, "b", 1), wait(&table, "c", 2));
        match table.enter(&"a", 3) {
            Turn::Cycle(chain) => assert_eq!(chain, [(3, "a"), (1, "b"), (2, "c")]),
            other => panic!("{other:?}"),
        }
        assert!(matches!(table.enter(&"c", 4), Turn::Wait(_)), "who is outside may wait");
    }

    #[test]
    fn what_is_given_back_is_as_if_never_tried() {
        let table = Strings::default();
        let ticket = run(&table, "a", 1);
        let mut waiter = wait(&table, "a", 2);
        ticket.release();
        assert_eq!(waiter.wait(SLICE), Some(Outcome::Released));
        assert_eq!(table.status(&"a"), Status::Vacant);
    }

    #[test]
    fn a_runner_that_panics_leaves_a_failure_and_wakes_the_others() {
        let table = Strings::default();
        let ticket = run(&table, "a", 1);
        let mut waiter = wait(&table, "a", 2);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _ticket = ticket;
            panic!("no")
        }));
        assert!(panicked.is_err());
        assert_eq!(waiter.wait(SLICE), Some(Outcome::Abandoned));
        assert_eq!(table.status(&"a"), Status::Failed(None, 1));
    }

    #[test]
    fn failed_attempts_are_counted() {
        let table = Strings::default();
        for attempt in 1..=3 {
            run(&table, "a", 1).failed(attempt.to_string());
        }
        assert_eq!(table.status(&"a"), Status::Failed(Some(Arc::new("3".into())), 3));
    }

    #[test]
    fn who_gives_up_waiting_leaves_nothing_behind() {
        let table = Strings::default();
        let ticket = run(&table, "a", 1);
        drop(wait(&table, "a", 2));
        let late = wait(&table, "a", 3);
        ticket.done("x".into());
        drop(late);
        let inner = table.shared.lock();
        assert!(inner.ended.is_empty() && inner.waits.is_empty());
    }

    #[test]
    fn a_reset_forgets_all_but_what_runs() {
        let table = Strings::default();
        let ticket = run(&table, "a", 1);
        run(&table, "b", 1).done("x".into());
        table.reset(|_| true);
        assert_eq!(
            (table.status(&"a"), table.status(&"b")),
            (Status::Running(1), Status::Vacant)
        );
        ticket.done("x".into());
        table.seed("a", "other".into());
        table.seed("b", "taken over".into());
        assert_eq!(table.status(&"a"), Status::Done(Arc::new("x".into())));
        assert_eq!(table.status(&"b"), Status::Done(Arc::new("taken over".into())));
    }

    #[test]
    fn a_wait_ends_in_time_while_other_keys_come_and_go() {
        let table = Arc::new(Strings::default());
        let _ticket = run(&table, "a", 1);
        let mut waiter = wait(&table, "a", 2);
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let traffic = {
            let (table, stop) = (Arc::clone(&table), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    run(&table, "b", 3).release();
                }
            })
        };
        let began = Instant::now();
        assert_eq!(waiter.wait(Duration::from_millis(50)), None);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        stop.store(true, Ordering::Relaxed);
        traffic.join().unwrap();
    }

    #[test]
    fn a_wait_inside_a_wait_leaves_the_outer_one_in_the_graph() {
        let table = Strings::default();
        let _tickets = (run(&table, "a", 1), run(&table, "b", 2));
        let _outer = wait(&table, "b", 1);
        let inner_ticket = run(&table, "c", 3);
        let mut inner = wait(&table, "c", 1);
        inner_ticket.done("x".into());
        assert!(inner.wait(SLICE).is_some());
        assert!(
            matches!(table.enter(&"a", 2), Turn::Cycle(_)),
            "1 waits for b, which 2 runs"
        );
    }

    #[test]
    fn every_wait_of_a_thread_counts_not_only_the_innermost() {
        let table = Strings::default();
        let _tickets = (run(&table, "a", 1), run(&table, "b", 2), run(&table, "c", 3));
        let _waits = (wait(&table, "b", 1), wait(&table, "c", 1));
        match table.enter(&"a", 2) {
            Turn::Cycle(chain) => assert_eq!(chain, [(2, "a"), (1, "b")]),
            other => panic!("{other:?}"),
        }
        assert!(
            matches!(table.enter(&"a", 4), Turn::Wait(_)),
            "and the search ends for all others"
        );
    }

    #[test]
    fn who_is_about_to_wake_closes_no_circle() {
        let table = Strings::default();
        let (_own, ticket) = (run(&table, "a", 1), run(&table, "b", 2));
        let _waiter = wait(&table, "b", 1);
        ticket.failed("no".into());
        let _again = run(&table, "b", 3);
        assert!(
            matches!(table.enter(&"a", 3), Turn::Wait(_)),
            "1 waited for the attempt before"
        );
    }

    #[test]
    fn a_success_that_will_not_do_becomes_a_failed_attempt() {
        let table = Strings::default();
        run(&table, "a", 1).failed("no".into());
        run(&table, "a", 1).done("x".into());
        table.retract(&"a", |value| value == "another", "not it".into());
        assert_eq!(table.status(&"a"), Status::Done(Arc::new("x".into())));
        table.retract(&"a", |value| value == "x", "will not do".into());
        assert_eq!(
            table.status(&"a"),
            Status::Failed(Some(Arc::new("will not do".into())), 2)
        );
    }

    #[test]
    fn what_is_claimed_is_inside_until_it_is_settled() {
        let table = Strings::default();
        table.claim("a", 1);
        assert!(matches!(table.enter(&"a", 1), Turn::Reentrant));
        let mut waiter = wait(&table, "a", 2);
        table.settle(&"a", Some("x".into()));
        assert_eq!(waiter.wait(SLICE), Some(Outcome::Done(Arc::new("x".into()))));
        table.claim("b", 1);
        table.settle(&"b", None);
        assert_eq!(table.status(&"b"), Status::Vacant);
    }

    #[test]
    fn values_are_dropped_unlocked() {
        struct Asks(Arc<Shared<u8, Self, ()>>, Arc<AtomicUsize>);
        impl Drop for Asks {
            fn drop(&mut self) {
                assert!(self.0.inner.try_lock().is_ok());
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (table, dropped) = (Table::<u8, Asks, ()>::default(), Arc::new(AtomicUsize::new(0)));
        for key in 0..3 {
            table.seed(key, Asks(Arc::clone(&table.shared), Arc::clone(&dropped)));
        }
        table.reset(|_| true);
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
    }
}
