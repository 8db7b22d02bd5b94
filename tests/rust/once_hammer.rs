//! The run-once table under threads: injected failures, releases, panics and re-entry, nothing lost, nothing twice.

#![cfg(not(loom))]
#![expect(clippy::panic, reason = "a thread that panicked fails the test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use vplug_rs::once::{Outcome, Status, Table, Turn};

const THREADS: usize = 8;
const KEYS: usize = 1000;
const SLICE: Duration = Duration::from_millis(50);
/// No wait in here is long; one that is lost shows.
const LIMIT: Duration = Duration::from_secs(20);

type Keys = Table<usize, usize, usize>;

/// Runs a key to its end on this thread, as a loader does; counts what ran and what succeeded.
fn settle(table: &Keys, key: usize, thread: u64, ran: &[AtomicUsize], succeeded: &[AtomicUsize]) {
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < LIMIT, "key {key} hangs on thread {thread}");
        match table.enter(&key, thread) {
            Turn::Done(value) => return assert_eq!(*value, key),
            Turn::Run(ticket) => {
                let attempt = ran[key].fetch_add(1, Ordering::SeqCst);
                assert!(matches!(table.enter(&key, thread), Turn::Reentrant));
                match (key + attempt) % 7 {
                    0 => drop(ticket.failed(attempt)),
                    1 => ticket.release(),
                    2 => drop(ticket),
                    _ => {
                        succeeded[key].fetch_add(1, Ordering::SeqCst);
                        ticket.done(key);
                        return;
                    }
                }
            }
            Turn::Wait(mut waiter) => {
                let outcome = loop {
                    assert!(started.elapsed() < LIMIT, "key {key}: nobody woke thread {thread}");
                    if let Some(outcome) = waiter.wait(SLICE) {
                        break outcome;
                    }
                };
                if let Outcome::Done(value) = outcome {
                    return assert_eq!(*value, key);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_thousand_keys_on_eight_threads_succeed_exactly_once_each() {
    for round in 0..20 {
        let table = Keys::default();
        let counters = || (0..KEYS).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>();
        let (ran, succeeded) = (counters(), counters());
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (table, ran, succeeded, barrier) = (&table, &ran, &succeeded, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for step in 0..KEYS {
                        // some go the other way round
                        let key = if thread % 2 == 0 { step } else { KEYS - 1 - step };
                        settle(table, (key + round) % KEYS, thread, ran, succeeded);
                    }
                });
            }
        });
        for (key, succeeded) in succeeded.iter().enumerate() {
            assert_eq!(succeeded.load(Ordering::SeqCst), 1, "key {key}");
            assert_eq!(table.status(&key), Status::Done(Arc::new(key)));
        }
    }
}

#[test]
fn three_threads_in_a_circle_are_told_so_at_once() {
    for _ in 0..200 {
        let table = Arc::new(Table::<u64, (), ()>::default());
        let barrier = Arc::new(Barrier::new(3));
        let started = Instant::now();
        let threads: Vec<_> = (0..3_u64)
            .map(|thread| {
                let (table, barrier) = (Arc::clone(&table), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    let Turn::Run(ticket) = table.enter(&thread, thread) else {
                        panic!()
                    };
                    barrier.wait();
                    let circle = match table.enter(&((thread + 1) % 3), thread) {
                        Turn::Cycle(chain) => Some(chain),
                        Turn::Wait(mut waiter) => {
                            while waiter.wait(SLICE).is_none() {
                                assert!(started.elapsed() < LIMIT);
                            }
                            None
                        }
                        other => panic!("{other:?}"),
                    };
                    ticket.done(());
                    circle
                })
            })
            .collect();
        let circles: Vec<_> = threads
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(circles.len(), 1, "exactly one closes it");
        assert_eq!(circles[0].len(), 3);
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}
