//! Questions about one metadata folder.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

use super::answer;
use super::records::Diagnostic;
use crate::diagnostic;
use crate::distribution::{self, Answer, Place};
use crate::files::Folder;
use crate::import_names::Rules;
use crate::name::NormalizedName;

/// The first value of a header field, as `metadata[field]`; None if there is none, NotImplemented if odd.
#[pyfunction]
#[pyo3(signature = (info, field, *, strict))]
pub fn read_header(py: Python<'_>, info: PathBuf, field: &str, strict: bool) -> PyResult<Py<PyAny>> {
    answer(py, py.detach(|| distribution::header(Place::at(&info), field, strict)))
}

/// All header fields in order, without the Description made of the body; NotImplemented if odd.
#[pyfunction]
#[pyo3(signature = (info, *, strict))]
pub fn read_headers(py: Python<'_>, info: PathBuf, strict: bool) -> PyResult<Py<PyAny>> {
    answer(py, py.detach(|| distribution::headers(&info, strict)))
}

/// Header fields as the email parser keeps them, before the dedent, and the body; NotImplemented if odd.
#[pyfunction(name = "read_message")]
pub fn message(py: Python<'_>, info: PathBuf) -> PyResult<Py<PyAny>> {
    answer(py, py.detach(|| distribution::message(&info)))
}

/// Rows of RECORD as the standard reads them: (path, hash, size), None without one; NotImplemented if odd.
///
/// With `exists` only files that exist below `root`.
#[pyfunction]
#[pyo3(signature = (info, root, *, exists))]
pub fn read_record(py: Python<'_>, info: PathBuf, root: OsString, exists: bool) -> PyResult<Py<PyAny>> {
    answer(py, py.detach(|| distribution::record(&info, &root, exists)))
}

/// The files in RECORD that exist below `root`, and what is wrong with the list; None without a readable RECORD.
#[pyfunction]
pub fn read_files(
    py: Python<'_>,
    info: PathBuf,
    root: OsString,
) -> (Option<Vec<distribution::RecordRow>>, Vec<Diagnostic>) {
    let (rows, findings) = py.detach(|| distribution::files(&info, &root));
    (rows, findings.into_iter().map(Into::into).collect())
}

/// Entry points of one metadata folder as (name, value, group), the standard's reading; NotImplemented if odd.
#[pyfunction]
pub fn read_entry_points(py: Python<'_>, info: PathBuf) -> PyResult<Py<PyAny>> {
    answer(py, py.detach(|| distribution::entry_points(&info)))
}

/// (declared, names) of one distribution for `packages_distributions`; NotImplemented if odd.
///
/// `generation` 11, 12 or 13 says whose rules count, `suffixes` is `importlib.machinery.all_suffixes()`.
#[pyfunction]
#[pyo3(signature = (info, root, *, generation, suffixes, strict))]
pub fn top_level(
    py: Python<'_>,
    info: PathBuf,
    root: OsString,
    generation: u8,
    suffixes: Vec<String>,
    strict: bool,
) -> PyResult<Py<PyAny>> {
    let found = py.detach(|| {
        let suffixes: Vec<&str> = suffixes.iter().map(String::as_str).collect();
        let rules = Rules {
            generation,
            suffixes: &suffixes,
            mended: !strict,
        };
        let root = Folder::open(&root).ok();
        match distribution::top_level(Place::at(&info), root.as_ref(), rules) {
            Answer::Known(top) => Answer::Known((top.declared, top.names)),
            Answer::Odd => Answer::Odd,
        }
    });
    answer(py, found)
}

/// Name, value, group, line.
type EntryPointRow = (String, String, String, u32);

/// The mended reading of a text: (name, value, group, line) of each entry point, and what is wrong in the text.
///
/// `path` is the file at fault and `distribution` whose it is, for the findings.
#[pyfunction]
#[pyo3(signature = (text, path=None, distribution=None))]
pub fn parse_entry_points(
    text: &str,
    path: Option<OsString>,
    distribution: Option<String>,
) -> (Vec<EntryPointRow>, Vec<Diagnostic>) {
    let (parsed, path) = (crate::entry_points::parse(text), path.unwrap_or_default());
    let rows = parsed.entries().map(|entry| {
        let (name, value, group) = (entry.name.to_owned(), entry.value.to_owned(), entry.group.to_owned());
        (name, value, group, entry.line)
    });
    let findings = parsed.faults().iter().map(|fault| {
        let finding = diagnostic::Diagnostic::from_fault(fault.clone(), &path);
        let distribution = distribution.clone();
        diagnostic::Diagnostic {
            distribution,
            ..finding
        }
        .into()
    });
    (rows.collect(), findings.collect())
}

/// (module, attr, extras) of a reference; None if it matches nothing, NotImplemented if it is not ASCII.
#[pyfunction]
pub fn parse_reference(py: Python<'_>, value: &str) -> PyResult<Py<PyAny>> {
    if !value.is_ascii() {
        return Ok(super::odd(py));
    }
    let found = crate::reference::parse_compatible(value).map(|found| {
        let extras: Vec<String> = found.extras.iter().map(ToString::to_string).collect();
        (found.module.to_owned(), found.attr.map(ToOwned::to_owned), extras)
    });
    answer(py, Answer::Known(found))
}

/// A project name in comparable form, as `Prepared.normalize` gives it.
#[pyfunction]
pub fn normalize(name: &str) -> String {
    NormalizedName::new(name).as_str().to_owned()
}
