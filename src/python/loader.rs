//! `OnceTable` and `Judge`: the run-once table and the policy, with the interpreter released while waiting.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::allowlist::{Candidate, Collision, List, Policy, Reading};
use crate::once::{Outcome, Status, Table, Thread, Ticket, Turn, Waiter};

/// How long the interpreter stays released before signals are looked at.
const SLICE: Duration = Duration::from_millis(50);

/// Group, metadata folder, name and value, step; shared, for the table keeps several.
type Key = Arc<Names>;
type Names = (String, String, String, String);
type Values = Table<Key, Py<PyAny>, Py<PyAny>>;
type Queue = Waiter<Key, Py<PyAny>, Py<PyAny>>;

thread_local! {
    /// What this thread is in the middle of; a forked child finds it here without touching a lock.
    static RUNNING: RefCell<Vec<Key>> = const { RefCell::new(Vec::new()) };
}

/// One entry of `RUNNING`, taken out again whatever happens.
struct Inside;

impl Inside {
    fn of(key: &Key) -> Self {
        RUNNING.with_borrow_mut(|running| running.push(Arc::clone(key)));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        drop(RUNNING.with_borrow_mut(Vec::pop));
    }
}

/// The keys that this thread is in the middle of, the outermost first.
#[pyfunction]
pub fn running_here() -> Vec<Names> {
    RUNNING.with_borrow(|running| running.iter().map(|key| (**key).clone()).collect())
}

/// What runs once in a process, by key: (group, distribution, name, step).
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
    /// Runs `body` unless it has succeeded before, or waits for the thread that runs it. Gives a word and a value:
    ///
    /// "ran" or "done" (here now, or before) with the value; "failed" (here) or "told" (of the attempt that was waited
    /// for) with the failure; both first ones with "-in-child" behind them if `body` forked and this is the child; "reentrant" and None; "cycle" with [(thread, key)]; "timeout" with the running thread;
    /// "abandoned" and None.
    ///
    /// `body` returns (True, value) or (False, failure); what it raises passes through and leaves the key untried.
    /// After `patience` seconds of waiting `notice(key, thread)` is called once; after `limit` seconds the waiting ends.
    /// Signals are answered meanwhile.
    #[expect(clippy::too_many_arguments, reason = "keywords in Python")]
    #[pyo3(signature = (key, thread, body, *, limit, patience, notice))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        key: Names,
        thread: Thread,
        body: &Bound<'py, PyAny>,
        limit: f64,
        patience: f64,
        notice: &Bound<'py, PyAny>,
    ) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        let none = || py.None().into_bound(py);
        let key = Arc::new(key);
        loop {
            match self.table.enter(&key, thread) {
                Turn::Done(value) => return Ok(("done", value.bind(py).clone())),
                Turn::Reentrant => return Ok(("reentrant", none())),
                Turn::Cycle(chain) => {
                    let chain: Vec<(Thread, &Names)> = chain.iter().map(|(thread, key)| (*thread, &**key)).collect();
                    return Ok(("cycle", chain.into_pyobject(py)?));
                }
                Turn::Run(ticket) => return run(&key, ticket, body),
                Turn::Wait(waiter) => match wait(py, &key, waiter, limit, patience, notice)? {
                    Waited::Ended(Outcome::Released) => {}
                    Waited::Ended(Outcome::Done(value)) => return Ok(("done", value.bind(py).clone())),
                    Waited::Ended(Outcome::Failed(failure)) => return Ok(("told", failure.bind(py).clone())),
                    Waited::Ended(Outcome::Abandoned) => return Ok(("abandoned", none())),
                    Waited::TooLong(owner) => return Ok(("timeout", owner.into_pyobject(py)?)),
                },
            }
        }
    }

    /// ("vacant", None), ("running", thread), ("done", value) or ("failed", number of failed attempts).
    fn status<'py>(&self, py: Python<'py>, key: Names) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        Ok(match self.table.status(&Arc::new(key)) {
            Status::Vacant => ("vacant", py.None().into_bound(py)),
            Status::Running(owner) => ("running", owner.into_pyobject(py)?.into_any()),
            Status::Done(value) => ("done", value.bind(py).clone()),
            Status::Failed(_, attempts) => ("failed", attempts.into_pyobject(py)?.into_any()),
        })
    }

    /// Marks a key as run by a thread that a forked child has inherited in the middle of it.
    fn claim(&self, key: Names, thread: Thread) {
        self.table.claim(Arc::new(key), thread);
    }

    /// Ends what was claimed: done with a value, as if never tried without.
    #[pyo3(signature = (key, value=None))]
    fn settle(&self, key: Names, value: Option<Py<PyAny>>) {
        self.table.settle(&Arc::new(key), value);
    }

    /// Takes over a value that was made elsewhere, unless the key is known.
    fn seed(&self, key: Names, value: Py<PyAny>) {
        self.table.seed(Arc::new(key), value);
    }

    /// Forgets what has ended of one group, or of all.
    #[pyo3(signature = (group=None))]
    fn reset(&self, group: Option<&str>) {
        self.table.reset(|key| group.is_none_or(|group| group == key.0));
    }
}

fn run<'py>(
    key: &Key,
    ticket: Ticket<Key, Py<PyAny>, Py<PyAny>>,
    body: &Bound<'py, PyAny>,
) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
    let process = std::process::id();
    let inside = Inside::of(key);
    let ended = body
        .call0()
        .and_then(|ended| ended.extract::<(bool, Bound<'py, PyAny>)>());
    drop(inside);
    if std::process::id() != process {
        // the body forked, and this is the child: the lock of its parent's table may be frozen, so it is not touched
        ticket.disown();
        return ended.map(|(succeeded, value)| {
            let word = if succeeded { "ran-in-child" } else { "failed-in-child" };
            (word, value)
        });
    }
    match ended {
        Ok((true, value)) => {
            ticket.done(value.clone().unbind());
            Ok(("ran", value))
        }
        Ok((false, failure)) => {
            ticket.failed(failure.clone().unbind());
            Ok(("failed", failure))
        }
        Err(error) => {
            ticket.release();
            Err(error)
        }
    }
}

enum Waited {
    Ended(Outcome<Py<PyAny>, Py<PyAny>>),
    TooLong(Option<Thread>),
}

fn wait(
    py: Python<'_>,
    key: &Key,
    mut waiter: Queue,
    limit: f64,
    patience: f64,
    notice: &Bound<'_, PyAny>,
) -> PyResult<Waited> {
    let started = Instant::now();
    let mut noticed = false;
    loop {
        if let Some(outcome) = py.detach(|| waiter.wait(SLICE)) {
            return Ok(Waited::Ended(outcome));
        }
        py.check_signals()?;
        let waited = started.elapsed().as_secs_f64();
        if waited >= limit {
            return Ok(Waited::TooLong(waiter.owner()));
        }
        if waited >= patience && !noticed {
            noticed = true;
            notice.call1((&**key, waiter.owner()))?;
        }
    }
}

/// A list for `Judge`: group or None, origin, what is allowed or None for all, what is denied.
type ListRow = (Option<String>, String, Option<Vec<String>>, Vec<String>);

/// A verdict: whether it may be loaded, the reason's slug, the rule.
type VerdictRow = (bool, &'static str, String);

/// A policy, ready to judge.
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Judge {
    policy: Policy,
}

/// The judgement on one group.
#[pyclass(frozen, get_all, module = "vplug_rs._core")]
pub struct Judgement {
    /// For each candidate: (allowed, reason, rule).
    verdicts: Vec<VerdictRow>,
    /// The numbers of the allowed ones, in loading order.
    order: Vec<usize>,
    /// Entries that name nothing installed: (entry, origin, nearest name or None, whether only blanks or case differ).
    unmatched: Vec<(String, String, Option<String>, bool)>,
    /// Required names that are not among the allowed ones.
    missing: Vec<String>,
    /// Allowed names that occur more than once, with their candidates' numbers.
    doubled: Vec<(String, Vec<usize>)>,
}

/// A policy from its lists and rules; `exact` is vLLM's reading.
///
/// Raises ValueError(entry, reason) for an entry that is no pattern.
#[pyfunction]
#[pyo3(signature = (lists, *, exact, explicit_only, require, order, collision))]
pub fn judge(
    lists: Vec<ListRow>,
    exact: bool,
    explicit_only: Vec<String>,
    require: Vec<String>,
    order: Vec<String>,
    collision: &str,
) -> PyResult<Judge> {
    let reading = if exact { Reading::Vllm } else { Reading::Own };
    let collision = match collision {
        "first" => Collision::First,
        "last" => Collision::Last,
        "error" => Collision::Error,
        "all" => Collision::All,
        other => return Err(PyValueError::new_err((other.to_owned(), "is no collision rule"))),
    };
    let (mut base, mut groups) = (None, Vec::new());
    for (group, origin, allow, deny) in lists {
        let list = List::new(reading, &origin, allow.as_deref(), &deny)
            .map_err(|bad| PyValueError::new_err((bad.entry, bad.reason)))?;
        match group {
            Some(group) => groups.push((group, list)),
            None => base = Some(list),
        }
    }
    let base = base.ok_or_else(|| PyValueError::new_err(("", "a policy needs a list for all groups")))?;
    Ok(Judge {
        policy: Policy {
            reading,
            base,
            groups,
            explicit_only,
            require,
            order,
            collision,
        },
    })
}

#[pymethods]
impl Judge {
    /// Judges the plugins of a group, given as (name, distribution); `elsewhere` are the names in other groups.
    fn judge(&self, group: &str, candidates: Vec<(String, String)>, elsewhere: Vec<String>) -> Judgement {
        let asked: Vec<_> = (candidates.iter())
            .map(|(name, distribution)| Candidate { name, distribution })
            .collect();
        let elsewhere: Vec<&str> = elsewhere.iter().map(String::as_str).collect();
        let found = self.policy.judge(group, &asked, &elsewhere);
        Judgement {
            verdicts: (found.verdicts.into_iter())
                .map(|verdict| (verdict.reason.allows(), verdict.reason.slug(), verdict.rule))
                .collect(),
            order: found.order,
            unmatched: (found.unmatched.into_iter())
                .map(|entry| (entry.entry, entry.origin, entry.near, entry.only_spelling))
                .collect(),
            missing: found.missing,
            doubled: (found.doubled.into_iter())
                .map(|double| (double.name, double.candidates))
                .collect(),
        }
    }
}

/// Whether a version meets a list of PEP 440 specifiers; None where either cannot be read.
#[pyfunction]
pub fn version_meets(version: &str, specifiers: &str) -> Option<bool> {
    crate::version_order::meets(version, specifiers)
}

/// The name that a mistyped one resembles most, or None.
#[pyfunction]
pub fn nearest(wanted: &str, names: Vec<String>) -> Option<String> {
    crate::allowlist::nearest(wanted, names.iter().map(String::as_str)).map(ToOwned::to_owned)
}
