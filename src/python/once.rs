//! `OnceTable`: the run-once table, with the interpreter released while waiting.
//!
//! No plugin's code runs below a frame of ours: Python takes a `Ticket`, runs the step, and finishes the ticket. A
//! daemon thread that is in a plugin when the process ends is unwound by the interpreter, which Rust frames refuse.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::meter::Loaded;
use crate::once::{self, Outcome, Status, Table, Thread, Turn};

/// How long the interpreter stays released before signals are looked at.
const SLICE: Duration = Duration::from_millis(50);

type Values = Table<Key, Py<PyAny>, Py<PyAny>>;
type Turned = once::Ticket<Key, Py<PyAny>, Py<PyAny>>;
type Queued = once::Waiter<Key, Py<PyAny>, Py<PyAny>>;

/// Group, distribution, name, value.
type Names = (String, String, String, String);

/// One step of one plugin; shared, for the table keeps several, and hashed once.
#[derive(Clone)]
struct Key(Arc<(u64, Names, String)>);

impl Key {
    fn new(names: Names, step: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (&names, step).hash(&mut hasher);
        Self(Arc::new((hasher.finish(), names, step.to_owned())))
    }

    fn names(&self) -> &Names {
        &self.0.1
    }

    fn step(&self) -> &str {
        &self.0.2
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}

thread_local! {
    /// What this thread is in the middle of; a forked child finds it here without touching a lock.
    static RUNNING: RefCell<Vec<Key>> = const { RefCell::new(Vec::new()) };
}

/// The keys and steps that this thread is in the middle of, the outermost first.
#[pyfunction]
pub fn running_here() -> Vec<(Names, String)> {
    RUNNING.with_borrow(|running| (running.iter().map(|key| (key.names().clone(), key.step().to_owned()))).collect())
}

/// What runs once in a process, by key, (group, distribution, name, value), and step.
#[pyclass(frozen, module = "vplug_rs._core")]
#[derive(Default)]
pub struct OnceTable {
    table: Values,
}

/// A new, empty table.
#[pyfunction]
pub fn once_table() -> OnceTable {
    OnceTable::default()
}

#[pymethods]
impl OnceTable {
    /// Asks for a turn: what the step gave when it ran; a `Ticket`, to run it now; a `Waiter`, for another thread is at
    /// it; or a word and a value: ("reentrant", None), ("cycle", [(thread, key)]).
    fn enter<'py>(&self, py: Python<'py>, key: Names, step: &str, thread: Thread) -> PyResult<Bound<'py, PyAny>> {
        let key = Key::new(key, step);
        match self.table.enter(&key, thread) {
            Turn::Run(ticket) => {
                RUNNING.with_borrow_mut(|running| running.push(key.clone()));
                let open = Open {
                    ticket,
                    key,
                    process: super::process(),
                };
                Ticket(Mutex::new(Some(open))).into_bound_py_any(py)
            }
            Turn::Done(value) => Ok(value.bind(py).clone()),
            Turn::Wait(waiter) => Waiter {
                queued: Mutex::new(Some(waiter)),
                process: super::process(),
            }
            .into_bound_py_any(py),
            Turn::Reentrant => ("reentrant", py.None()).into_bound_py_any(py),
            Turn::Cycle(chain) => {
                let chain: Vec<_> = (chain.iter()).map(|(thread, key)| (*thread, key.names())).collect();
                ("cycle", chain).into_bound_py_any(py)
            }
        }
    }

    /// ("vacant", None), ("running", thread), ("done", value) or ("failed", number of failed attempts).
    fn status<'py>(&self, py: Python<'py>, key: Names, step: &str) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        Ok(match self.table.status(&Key::new(key, step)) {
            Status::Vacant => ("vacant", py.None().into_bound(py)),
            Status::Running(owner) => ("running", owner.into_bound_py_any(py)?),
            Status::Done(value) => ("done", value.bind(py).clone()),
            Status::Failed(_, attempts) => ("failed", attempts.into_bound_py_any(py)?),
        })
    }

    /// Marks a step as run by a thread that a forked child has inherited in the middle of it.
    fn claim(&self, key: Names, step: &str, thread: Thread) {
        self.table.claim(Key::new(key, step), thread);
    }

    /// Ends what was claimed: done with a value, as if never tried without.
    #[pyo3(signature = (key, step, value=None))]
    fn settle(&self, key: Names, step: &str, value: Option<Py<PyAny>>) {
        self.table.settle(&Key::new(key, step), value);
    }

    /// Takes over a value that was made elsewhere, unless the key is known.
    fn seed(&self, key: Names, step: &str, value: Py<PyAny>) {
        self.table.seed(Key::new(key, step), value);
    }

    /// Makes a success that turned out not to do a failed attempt, if it is still the one that stands there.
    fn retract(&self, key: Names, step: &str, value: &Bound<'_, PyAny>, failure: Py<PyAny>) {
        (self.table).retract(&Key::new(key, step), |known| known.as_ptr() == value.as_ptr(), failure);
    }

    /// Forgets what has ended of one group, or of all.
    #[pyo3(signature = (group=None))]
    fn reset(&self, group: Option<&str>) {
        self.table.reset(|key| group.is_none_or(|group| group == key.names().0));
    }
}

/// The right, and the duty, to run a step once, in the thread that got it. Dropped, it gives the step back untried.
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Ticket(Mutex<Option<Open>>);

struct Open {
    ticket: Turned,
    key: Key,
    process: u32,
}

#[pymethods]
impl Ticket {
    /// Ends the step with what it gave: `Loaded` is a success, anything else a failure. False if the step forked and
    /// this is the child, where the ticket counts for nothing; or if it has ended before.
    fn finish(&self, end: Bound<'_, PyAny>) -> bool {
        self.close(|ticket| {
            if end.is_exact_instance_of::<Loaded>() {
                drop(ticket.done(end.unbind()));
            } else {
                drop(ticket.failed(end.unbind()));
            }
        })
    }

    /// Gives the step back as if never tried; answers as `finish`.
    fn release(&self) -> bool {
        self.close(once::Ticket::release)
    }
}

impl Ticket {
    fn close(&self, end: impl FnOnce(Turned)) -> bool {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Open { ticket, key, process }) = open else {
            return false;
        };
        RUNNING.with_borrow_mut(|running| {
            let place = running.iter().rposition(|known| *known == key);
            place.map(|place| running.remove(place))
        });
        if super::process() != process {
            // the lock of the parent's table may be frozen, so it is not touched
            ticket.disown();
            return false;
        }
        end(ticket);
        true
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.release();
    }
}

/// A place in the queue for one attempt of another thread.
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Waiter {
    queued: Mutex<Option<Queued>>,
    process: u32,
}

impl Waiter {
    fn take(&self) -> Option<Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}

#[pymethods]
impl Waiter {
    /// Waits, with the interpreter released, and answers signals meanwhile. Gives what the attempt gave; or a word and
    /// a value: ("released", None) if it was given back; ("abandoned", None) if its thread vanished; ("timeout", the
    /// thread that runs it) after so many seconds, after which one may wait again.
    fn wait<'py>(&self, py: Python<'py>, seconds: f64) -> PyResult<Bound<'py, PyAny>> {
        let started = Instant::now();
        let Some(mut waiter) = self.take() else {
            return ("released", py.None()).into_bound_py_any(py);
        };
        loop {
            let rest = (seconds - started.elapsed().as_secs_f64()).max(0.0);
            let slice = SLICE.min(Duration::try_from_secs_f64(rest).unwrap_or(SLICE));
            match py.detach(|| waiter.wait(slice)) {
                None => {}
                Some(Outcome::Done(value) | Outcome::Failed(value)) => return Ok(value.bind(py).clone()),
                Some(Outcome::Released) => return ("released", py.None()).into_bound_py_any(py),
                Some(Outcome::Abandoned) => return ("abandoned", py.None()).into_bound_py_any(py),
            }
            // what a signal handler raises ends the wait: the place in the queue is given up with it
            py.check_signals()?;
            if started.elapsed().as_secs_f64() >= seconds {
                let owner = waiter.owner();
                *self.queued.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiter);
                return ("timeout", owner).into_bound_py_any(py);
            }
        }
    }

    /// Gives up.
    fn leave(&self) {
        match self.take() {
            // a signal handler forked inside the wait; the lock of the parent's table may be frozen
            Some(waiter) if self.process != super::process() => waiter.disown(),
            waiter => drop(waiter),
        }
    }
}
