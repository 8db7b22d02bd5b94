//! `Scanner` and `Inventory`: discovery with the interpreter released.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use super::records::{Diagnostic, DistributionRow};
use super::{answer, odd};
use crate::distribution::{Answer, Place};
use crate::heads::Heads;
use crate::name::NormalizedName;
use crate::scan::{self, Scanned, State, join};
use crate::{findings, memo, packages, standard};

/// Whether a text can name a file: whether it can be given as a path to what is here.
#[pyfunction]
pub fn names_a_file(text: &Bound<'_, PyString>) -> bool {
    text.extract::<OsString>().is_ok()
}

/// A memo of one process: scans paths and reuses what it has read where a file's stamp proves it unchanged.
///
/// Never stale. Safe to share between threads and after a fork: no lock is ever waited for.
#[pyclass(frozen, module = "vplug_rs._core")]
#[derive(Default)]
pub struct Scanner {
    memo: memo::Scanner,
    heads: Heads,
    strict_heads: Heads,
}

#[pymethods]
impl Scanner {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Reads all of a path in one pass, in our own (mended) order.
    fn scan(&self, py: Python<'_>, paths: Vec<OsString>) -> Inventory {
        Inventory {
            found: py.detach(|| self.memo.scan(&paths)),
        }
    }

    /// The metadata folders of one distribution, in any spelling of its name, the one that counts first, as
    /// (number of the path entry, path); and the numbers of the path entries left to the interpreter.
    fn find(&self, py: Python<'_>, paths: Vec<OsString>, name: &str) -> (Vec<(usize, OsString)>, Vec<usize>) {
        py.detach(|| {
            let (found, deferred) = self.memo.find(&paths, name);
            let path = |(entry, folder): (usize, OsString)| (entry, join(&paths[entry], &folder).into_os_string());
            (found.into_iter().map(path).collect(), deferred)
        })
    }

    /// The first value of a header field of one distribution, found as `find` does.
    ///
    /// NotImplemented: there is no such distribution, or an entry of the path was left to the interpreter.
    fn header(&self, py: Python<'_>, paths: Vec<OsString>, name: &str, field: &str) -> PyResult<Py<PyAny>> {
        let found = py.detach(|| {
            let (found, deferred) = self.memo.find(&paths, name);
            let (entry, folder) = found.first().filter(|_| deferred.is_empty())?;
            let info = join(&paths[*entry], folder);
            Some(self.heads.header(Place::at(&info), info.as_os_str(), field, false))
        });
        match found {
            Some(found) => answer(py, found),
            None => Ok(odd(py)),
        }
    }

    /// `read_header` of one metadata folder, with name and version from memory where METADATA is the same.
    fn header_of(&self, py: Python<'_>, info: OsString, field: &str, strict: bool) -> PyResult<Py<PyAny>> {
        let heads = if strict { &self.strict_heads } else { &self.heads };
        answer(
            py,
            py.detach(|| heads.header(Place::at(info.as_ref()), &info, field, strict)),
        )
    }

    /// All of a path for `packages_distributions`, mended: (import names, name of the distribution) of each that
    /// provides any, or (None, metadata folder) where only the interpreter's own reading can tell.
    ///
    /// None: an entry of the path was left to the interpreter. `generation` and `suffixes` as for `top_level`.
    #[pyo3(signature = (paths, *, generation, suffixes))]
    fn packages(
        &self,
        py: Python<'_>,
        paths: Vec<OsString>,
        generation: u8,
        suffixes: Vec<String>,
    ) -> Option<Vec<(Option<Vec<String>>, OsString)>> {
        py.detach(|| packages::mended(&self.memo, &self.heads, &paths, generation, &suffixes))
    }

    /// The metadata children of one path entry, strict: (child, (declared, names), name of the distribution), either
    /// of the latter NotImplemented where it is odd, the name None without import names.
    #[pyo3(signature = (path, *, generation, suffixes))]
    fn strict_packages<'py>(
        &self,
        py: Python<'py>,
        path: OsString,
        generation: u8,
        suffixes: Vec<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = py.detach(|| packages::strict(&self.memo, &self.strict_heads, &path, generation, &suffixes));
        let Some(found) = found else {
            return Ok(odd(py).into_bound(py));
        };
        let out = PyList::empty(py);
        for child in found {
            let top = match child.top {
                Answer::Known(top) => Answer::Known((top.declared, top.names)),
                Answer::Odd => Answer::Odd,
            };
            out.append((child.folder_name, answer(py, top)?, answer(py, child.name)?))?;
        }
        Ok(out.into_any())
    }

    /// The metadata folders of a path, in our own (mended) order; no entry point is read.
    fn survey(&self, py: Python<'_>, paths: Vec<OsString>) -> Inventory {
        Inventory {
            found: py.detach(|| self.memo.survey(&paths)),
        }
    }

    /// Forgets everything. Never needed for right answers.
    fn clear(&self) {
        self.memo.clear();
        self.heads.clear();
        self.strict_heads.clear();
    }

    /// Names of the metadata children of one path entry in the standard's order, of one project only if named.
    #[pyo3(signature = (path, name=None))]
    fn strict_list(&self, py: Python<'_>, path: OsString, name: Option<&str>) -> PyResult<Py<PyAny>> {
        let found = py.detach(|| standard::list(&self.memo, &path, name));
        answer(py, found.map_or(Answer::Odd, Answer::Known))
    }

    /// The path entry and child that the standard's `distribution(name)` finds; None if there is none.
    fn strict_find(&self, py: Python<'_>, paths: Vec<OsString>, name: &str) -> PyResult<Py<PyAny>> {
        match py.detach(|| standard::find(&self.memo, &paths, name)) {
            standard::Found::At(entry, child) => answer(py, Answer::Known((paths[entry].clone(), child))),
            standard::Found::Nowhere => Ok(py.None()),
            standard::Found::Odd => Ok(odd(py)),
        }
    }

    /// `strict_find` and `read_header(strict=True)` in one; None for a missing field or distribution.
    fn strict_header(&self, py: Python<'_>, paths: Vec<OsString>, name: &str, field: &str) -> PyResult<Py<PyAny>> {
        let found = py.detach(|| match standard::find(&self.memo, &paths, name) {
            standard::Found::At(entry, child) => {
                let info = join(&paths[entry], &child);
                self.strict_heads
                    .header(Place::at(&info), info.as_os_str(), field, true)
            }
            standard::Found::Nowhere => Answer::Known(None),
            standard::Found::Odd => Answer::Odd,
        });
        answer(py, found)
    }

    /// Entry points of the standard's unique distributions: (path entry, child, rows of (name, value, group)).
    ///
    /// Only distributions with a matching row; rows None: the file is odd. NotImplemented: step aside for the call.
    #[pyo3(signature = (paths, group=None, name=None))]
    fn strict_entry_points<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<OsString>,
        group: Option<&str>,
        name: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let inventory = py.detach(|| self.memo.scan(&paths));
        let Some(found) = standard::entry_points(&inventory.entries, group, name) else {
            return Ok(odd(py).into_bound(py));
        };
        let out = PyList::empty(py);
        for matching in found {
            let rows = match matching.points {
                Some(points) => {
                    PyList::new(py, points.iter().map(|point| (point.name, point.value, point.group)))?.into_any()
                }
                None => py.None().into_bound(py),
            };
            let entry = inventory.entries[matching.entry].0.as_os_str();
            out.append((entry, matching.info.folder_name.as_os_str(), rows))?;
        }
        Ok(out.into_any())
    }
}

/// An immutable snapshot of one scan, in our own (mended) order.
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Inventory {
    found: Arc<scan::Inventory>,
}

#[pymethods]
impl Inventory {
    /// Path entries left to the interpreter's machinery: (number, path, reason).
    #[getter]
    fn deferred(&self) -> Vec<(usize, OsString, &'static str)> {
        let entries = self.found.entries.iter().enumerate();
        entries
            .filter_map(|(number, (path, scanned))| match scanned {
                Scanned::Deferred(deferral) => Some((number, path.clone(), deferral.word())),
                _ => None,
            })
            .collect()
    }

    /// Whether a path entry was left to the interpreter's machinery.
    #[getter]
    fn has_deferred(&self) -> bool {
        self.found
            .entries
            .iter()
            .any(|(_, scanned)| matches!(scanned, Scanned::Deferred(_)))
    }

    /// How many entry_points.txt could not be used as they are.
    #[getter]
    fn damaged(&self) -> usize {
        self.found.damaged
    }

    /// Every metadata folder, in order.
    fn rows(&self) -> Vec<DistributionRow> {
        let rows = self.found.rows.iter().enumerate();
        rows.map(|(number, row)| DistributionRow::new(&self.found, number, row))
            .collect()
    }

    /// The live metadata folders below one path entry, or below all: (path, key).
    #[pyo3(signature = (entry=None, *, all=true))]
    fn folders(&self, entry: Option<usize>, all: bool) -> Vec<(OsString, String)> {
        self.found
            .rows
            .iter()
            .filter(|row| entry.is_none_or(|entry| entry == row.entry))
            .filter(|row| row.state == State::Live || (all && row.state != State::Ignored))
            .filter_map(|row| {
                let key = self.found.info(row).key()?;
                Some((self.found.path(row).into_os_string(), key.as_str().to_owned()))
            })
            .collect()
    }

    /// The metadata folder of a row.
    fn path_of(&self, row: usize) -> PyResult<OsString> {
        self.found
            .rows
            .get(row)
            .map(|row| self.found.path(row).into_os_string())
            .ok_or_else(|| pyo3::exceptions::PyIndexError::new_err(format!("no row {row} in this inventory")))
    }

    /// Entry points as (name, value, group, row, line): of one group, of one name, of live rows or of all.
    #[pyo3(signature = (group=None, name=None, *, all=false))]
    fn entry_points<'py>(
        &self,
        py: Python<'py>,
        group: Option<&str>,
        name: Option<&str>,
        all: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut rows = Vec::new();
        // one string for the neighbours of a group, as they come
        let mut last: Option<(&str, Bound<'py, PyString>)> = None;
        self.found.entry_points(group, name, all, |row, point| {
            let group = match &last {
                Some((text, object)) if *text == point.group => object.clone(),
                _ => PyString::new(py, point.group),
            };
            last = Some((point.group, group.clone()));
            rows.push((point.name, point.value, group, row, point.line));
        });
        PyList::new(py, rows)
    }

    /// Entry points of one group, of live rows, for the loader: (name, value, metadata folder, uniqueness key).
    fn plugins<'py>(&self, py: Python<'py>, group: &str) -> PyResult<Bound<'py, PyList>> {
        let out = PyList::empty(py);
        let mut last: Option<(usize, Bound<'py, PyAny>, Bound<'py, PyString>)> = None;
        let mut failed = None;
        self.found.entry_points(Some(group), None, false, |row, point| {
            let owner = match &last {
                Some((known, path, key)) if *known == row => Ok((path.clone(), key.clone())),
                _ => {
                    let found = &self.found.rows[row];
                    let key = self.found.info(found).key().map_or("", NormalizedName::as_str);
                    let path = self.found.path(found).into_os_string().into_pyobject(py);
                    path.map(|path| (path.into_any(), PyString::new(py, key)))
                }
            };
            let appended = owner.map_err(PyErr::from).and_then(|(path, key)| {
                out.append((point.name, point.value, &path, &key))?;
                last = Some((row, path, key));
                Ok(())
            });
            failed = failed.take().or(appended.err());
        });
        failed.map_or(Ok(out), Err)
    }

    /// Everything that is wrong here.
    fn diagnostics(&self, py: Python<'_>) -> Vec<Diagnostic> {
        py.detach(|| findings::of(&self.found))
            .into_iter()
            .map(Into::into)
            .collect()
    }
}
