//! Frozen records that cross into Python.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::diagnostic::{self, Code};
use crate::scan::Row;

/// One finding about installed metadata.
///
/// Attributes: `code` (the stable slug), `severity` ("error", "warning" or "note"), `path` of the file or folder at
/// fault, `line` in it (from 1) or None, `distribution` or None, `message` (what is wrong), `advice` (the next step).
#[pyclass(frozen, eq, module = "vplug_rs")]
#[derive(PartialEq)]
pub struct Diagnostic {
    code: Code,
    #[pyo3(get)]
    path: OsString,
    #[pyo3(get)]
    line: Option<u32>,
    #[pyo3(get)]
    distribution: Option<String>,
    #[pyo3(get)]
    message: String,
}

impl From<diagnostic::Diagnostic> for Diagnostic {
    fn from(found: diagnostic::Diagnostic) -> Self {
        let diagnostic::Diagnostic {
            code,
            path,
            line,
            distribution,
            message,
        } = found;
        Self {
            code,
            path: path.into_os_string(),
            line,
            distribution,
            message,
        }
    }
}

#[pymethods]
impl Diagnostic {
    /// Makes a finding of a known code; severity and advice follow from the code.
    ///
    /// Raises ValueError for a code that is not in `diagnostic_codes()`.
    #[new]
    #[pyo3(signature = (code, path, message, *, line=None, distribution=None))]
    fn new(
        code: &str,
        path: OsString,
        message: String,
        line: Option<u32>,
        distribution: Option<String>,
    ) -> PyResult<Self> {
        let code = Code::from_slug(code)
            .ok_or_else(|| pyo3::exceptions::PyValueError::new_err(format!("`{code}` is no diagnostic code")))?;
        Ok(Self {
            code,
            path,
            line,
            distribution,
            message,
        })
    }

    #[getter]
    fn code(&self) -> &'static str {
        self.code.slug()
    }

    #[getter]
    fn severity(&self) -> &'static str {
        self.code.severity().as_str()
    }

    #[getter]
    fn advice(&self) -> &'static str {
        self.code.advice()
    }

    fn __str__(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let (severity, path) = (self.severity(), self.path.display());
        format!("{severity}: {path}{line}: {} [{}]", self.message, self.code())
    }

    fn __repr__(&self) -> String {
        format!("<Diagnostic {self}>", self = self.__str__())
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.code(), &self.path, self.line, &self.message).hash(&mut hasher);
        hasher.finish()
    }
}

/// One metadata folder found on the path.
#[pyclass(frozen, get_all, module = "vplug_rs._core")]
pub struct DistributionRow {
    /// Its number in the inventory.
    number: usize,
    /// Full path of the metadata folder.
    path: OsString,
    /// The `sys.path` string it was found below.
    path_entry: OsString,
    /// That string's number.
    entry_index: usize,
    /// The uniqueness key; empty for an ignored row.
    key: String,
    /// Name of the metadata folder.
    folder_name: OsString,
    /// "live", "shadowed", "leftover" or "ignored".
    state: &'static str,
    /// Number of the row that counts instead, or None.
    hidden_by: Option<usize>,
}

impl DistributionRow {
    pub fn new(inventory: &crate::scan::Inventory, number: usize, row: &Row) -> Self {
        let info = inventory.info(row);
        Self {
            number,
            path: inventory.path(row).into_os_string(),
            path_entry: inventory.entries[row.entry].0.clone(),
            entry_index: row.entry,
            key: info.key().map_or_else(String::new, |key| key.as_str().to_owned()),
            folder_name: info.folder_name.clone(),
            state: row.state.word(),
            hidden_by: row.state.hidden_by(),
        }
    }
}

/// All diagnostic codes: slug, severity, title, advice.
#[pyfunction]
pub fn diagnostic_codes() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    Code::ALL
        .iter()
        .map(|code| (code.slug(), code.severity().as_str(), code.title(), code.advice()))
        .collect()
}

/// How this extension was built: "version", "profile" ("release" or "debug"), "target".
#[pyfunction]
pub fn build_info() -> std::collections::BTreeMap<&'static str, String> {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("profile", profile.to_owned()),
        ("target", format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)),
    ]
    .into()
}
