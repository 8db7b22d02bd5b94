//! The binding: takes tensors, checks them, and lets other Python threads run while kernels do.

#![expect(clippy::doc_markdown, reason = "doc comments become Python's docstrings")]

mod dlpack;
mod encode;
mod head;
mod sketch;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::isa::Isa;

/// Kernels for CPUs. Private: its names change without notice.
#[pymodule(gil_used = false)]
mod _kernels {
    #[pymodule_export]
    use super::build_info;
    #[pymodule_export]
    use super::encode::encode;
    #[pymodule_export]
    use super::head::Head;
    #[pymodule_export]
    use super::require;
    #[pymodule_export]
    use super::sketch::{Sketch, read, rescore};
}

/// What was built, and what it finds here.
///
/// Returns:
///     version; profile ("release" or "debug"); isa (the fastest that runs here); available (all that run here, the
///     slowest first); known.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("profile", if cfg!(debug_assertions) { "debug" } else { "release" })?;
    info.set_item("isa", Isa::best().name())?;
    info.set_item(
        "available",
        Isa::available().into_iter().map(Isa::name).collect::<Vec<_>>(),
    )?;
    info.set_item("known", Isa::ALL.map(Isa::name))?;
    Ok(info)
}

/// Refuse instructions that are not known, or that this processor does not have.
///
/// Args:
///     isa: One of `build_info()["known"]`.
///
/// Raises:
///     ValueError: Which there are.
#[pyfunction]
fn require(isa: &str) -> PyResult<()> {
    isa_of(Some(isa)).map(drop)
}

/// The instructions that are called so, or the best ones here.
fn isa_of(name: Option<&str>) -> PyResult<Isa> {
    let Some(name) = name else { return Ok(Isa::best()) };
    let listed = |isas: &[Isa]| isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
    let isa = Isa::named(name)
        .ok_or_else(|| PyValueError::new_err(format!("isa: {name:?} is none of {}", listed(&Isa::ALL))))?;
    if isa.runs_here() {
        return Ok(isa);
    }
    let here = listed(&Isa::available());
    Err(PyValueError::new_err(format!(
        "isa: this processor has no {name}; it has {here}"
    )))
}
