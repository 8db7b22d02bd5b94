//! `Judge`: the policy, applied before anything is imported.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::allowlist::{Candidate, Collision, List, Policy, Reading, Verdict};

/// A list for `Judge`: group or None, origin, what is allowed or None for all, what is denied.
type ListRow = (Option<String>, String, Option<Vec<String>>, Vec<String>);

/// A policy, ready to judge.
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Judge {
    policy: Policy,
}

/// The judgement on one group.
#[pyclass(frozen, get_all, module = "vplug_rs._core")]
pub struct Judgement {
    /// For each candidate: (allowed, reason, rule).
    verdicts: Py<PyList>,
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
    /// Whether some list names a distribution.
    #[getter]
    fn names_distributions(&self) -> bool {
        self.policy.names_distributions()
    }

    /// Judges the plugins of a group, given as (name, distribution); `elsewhere` are the names in other groups.
    fn judge(
        &self,
        py: Python<'_>,
        group: &str,
        candidates: Vec<(String, String)>,
        elsewhere: Vec<String>,
    ) -> PyResult<Judgement> {
        let asked: Vec<_> = (candidates.iter())
            .map(|(name, distribution)| Candidate { name, distribution })
            .collect();
        let elsewhere: Vec<&str> = elsewhere.iter().map(String::as_str).collect();
        let found = self.policy.judge(group, &asked, &elsewhere);
        Ok(Judgement {
            verdicts: verdicts(py, &found.verdicts)?.unbind(),
            order: found.order,
            unmatched: (found.unmatched.into_iter())
                .map(|entry| (entry.entry, entry.origin, entry.near, entry.only_spelling))
                .collect(),
            missing: found.missing,
            doubled: (found.doubled.into_iter())
                .map(|double| (double.name, double.candidates))
                .collect(),
        })
    }
}

/// Each as (whether it may be loaded, the reason's slug, the rule); neighbours that are alike share one tuple.
fn verdicts<'py>(py: Python<'py>, found: &[Verdict]) -> PyResult<Bound<'py, PyList>> {
    let mut last: Option<(&Verdict, Bound<'py, PyAny>)> = None;
    let list = PyList::empty(py);
    for verdict in found {
        let row = match last {
            Some((before, row)) if before.reason == verdict.reason && before.rule == verdict.rule => row,
            _ => (verdict.reason.allows(), verdict.reason.slug(), verdict.rule.as_str()).into_bound_py_any(py)?,
        };
        list.append(&row)?;
        last = Some((verdict, row));
    }
    Ok(list)
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
