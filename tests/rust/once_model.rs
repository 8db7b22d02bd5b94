//! Every interleaving of the run-once table that loom finds within its preemption bound: `make test-model`.
//!
//! A lost wake-up shows as a deadlock, since time never passes here; a time-out is a waiter that gives up.

#![cfg(loom)]
#![expect(clippy::panic, reason = "a thread that panicked fails the model")]

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use vplug_rs::once::{Outcome, Status, Table, Turn};

const SLICE: Duration = Duration::from_millis(50);

type Keys = Table<u8, u8, u8>;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// As a loader does: run it, or wait for whoever does; the first attempt at a key may fail.
fn settle(table: &Keys, key: u8, thread: u64, ran: &AtomicUsize, fails: bool) -> Option<u8> {
    match table.enter(&key, thread) {
        Turn::Run(ticket) => {
            if ran.fetch_add(1, Ordering::SeqCst) == 0 && fails {
                ticket.failed(key);
                return None;
            }
            Some(*ticket.done(key))
        }
        Turn::Done(value) => Some(*value),
        Turn::Wait(mut waiter) => loop {
            match waiter.wait(SLICE) {
                Some(Outcome::Done(value)) => return Some(*value),
                Some(_) => return None,
                None => {}
            }
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn three_threads_and_two_keys_run_each_key_once() {
    model(|| {
        let table = Arc::new(Keys::default());
        let ran = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let threads: Vec<_> = [(1, [0, 1]), (2, [1, 0])]
            .into_iter()
            .map(|(thread, keys)| {
                let (table, ran) = (Arc::clone(&table), Arc::clone(&ran));
                thread::spawn(move || {
                    for key in keys {
                        assert_eq!(settle(&table, key, thread, &ran[key as usize], false), Some(key));
                    }
                })
            })
            .collect();
        assert_eq!(settle(&table, 0, 3, &ran[0], false), Some(0));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!([0, 1].map(|key: usize| ran[key].load(Ordering::SeqCst)), [1, 1]);
    });
}

#[test]
fn a_failure_reaches_its_waiters_and_a_later_attempt_succeeds() {
    model(|| {
        let table = Arc::new(Keys::default());
        let ran = Arc::new(AtomicUsize::new(0));
        let others: Vec<_> = [1, 2]
            .into_iter()
            .map(|thread| {
                let (table, ran) = (Arc::clone(&table), Arc::clone(&ran));
                thread::spawn(move || settle(&table, 0, thread, &ran, true))
            })
            .collect();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(settle(&table, 0, 3, &ran, true), Some(0));
        assert_eq!(ran.load(Ordering::SeqCst), 2, "one failure, one success");
    });
}

#[test]
fn one_who_gives_up_takes_no_wake_up_with_him() {
    model(|| {
        let table = Arc::new(Keys::default());
        let Turn::Run(ticket) = table.enter(&0, 1) else {
            panic!()
        };
        let impatient = {
            let table = Arc::clone(&table);
            thread::spawn(move || drop(table.enter(&0, 2)))
        };
        let patient = {
            let table = Arc::clone(&table);
            thread::spawn(move || settle(&table, 0, 3, &AtomicUsize::new(9), false))
        };
        ticket.done(7);
        assert_eq!(patient.join().unwrap(), Some(7));
        impatient.join().unwrap();
        assert!(matches!(table.status(&0), Status::Done(value) if *value == 7));
    });
}

#[test]
fn two_threads_that_want_each_others_key_never_wait_for_ever() {
    model(|| {
        let table = Arc::new(Keys::default());
        let circles = Arc::new(AtomicUsize::new(0));
        let work = |mine: u8, other: u8, table: &Keys, circles: &AtomicUsize| {
            let ticket = match table.enter(&mine, u64::from(mine)) {
                Turn::Run(ticket) => ticket,
                // the other one was done with both before we began
                Turn::Done(_) => return,
                // it runs ours: it was here first
                Turn::Wait(mut waiter) => {
                    while waiter.wait(SLICE).is_none() {}
                    return;
                }
                other => panic!("{other:?}"),
            };
            match table.enter(&other, u64::from(mine)) {
                Turn::Cycle(chain) => {
                    assert_eq!(chain.len(), 2);
                    circles.fetch_add(1, Ordering::SeqCst);
                }
                Turn::Wait(mut waiter) => while waiter.wait(SLICE).is_none() {},
                Turn::Run(inner) => drop(inner.done(other)),
                Turn::Done(_) => {}
                other => panic!("{other:?}"),
            }
            ticket.done(mine);
        };
        let second = {
            let (table, circles) = (Arc::clone(&table), Arc::clone(&circles));
            thread::spawn(move || work(1, 0, &table, &circles))
        };
        work(0, 1, &table, &circles);
        second.join().unwrap();
        assert!(circles.load(Ordering::SeqCst) <= 1);
        assert!([0, 1].iter().all(|key| matches!(table.status(key), Status::Done(_))));
    });
}
