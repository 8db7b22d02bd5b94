//! The binding: converts and forwards. Nothing in the core knows of it.

#![expect(
    clippy::doc_markdown,
    clippy::needless_pass_by_value,
    reason = "doc comments become Python's docstrings, and PyO3 makes owned arguments"
)]

mod distribution;
mod machinery;
mod meter;
mod nvml;
mod once;
mod policy;
mod probes;
mod records;
mod scanner;

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

/// The Rust core of `vplug_rs`. Private: its names change without notice.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::distribution::{
        message, normalize, parse_entry_points, parse_reference, read_entry_points, read_files, read_header,
        read_headers, read_record, top_level,
    };
    #[pymodule_export]
    use super::forked;
    #[pymodule_export]
    use super::machinery::{is_path_finder, is_plain, is_real};
    #[pymodule_export]
    use super::meter::{Loaded, Meter};
    #[pymodule_export]
    use super::nvml::Nvml;
    #[pymodule_export]
    use super::once::{Ticket, Waiter, once_table, running_here};
    #[pymodule_export]
    use super::policy::{judge, nearest, version_meets};
    #[pymodule_export]
    use super::probes::probe_passive;
    #[pymodule_export]
    use super::records::{Diagnostic, build_info, diagnostic_codes};
    #[pymodule_export]
    use super::scanner::{Scanner, names_a_file};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        forked();
        super::ready_unwinder();
        super::machinery::remember(module.py())?;
        // one for the process, so that both flavours read a folder once
        module.add("SCANNER", Scanner::default())
    }
}

/// Unwinds once, so that our copy of the unwinder (`build.rs`) knows this machine's registers.
///
/// As a process ends, the interpreter ends daemon threads that come back from waiting by unwinding their stacks, with
/// the shared copy, which asks our frames through ours: unready, it would abort the process.
fn ready_unwinder() {
    drop(std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(()))));
}

/// This process's number. Asking the system for it costs more than the rest of what is noted of a plugin.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// To be called in a child that was forked, before anything else here is.
#[pyfunction]
fn forked() {
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// The answer that stands for "only the interpreter's own machinery can tell".
fn odd(py: Python<'_>) -> Py<PyAny> {
    py.NotImplemented()
}

/// An answer of the core as a Python object.
fn answer<'py, T: IntoPyObject<'py>>(py: Python<'py>, answer: crate::distribution::Answer<T>) -> PyResult<Py<PyAny>> {
    match answer {
        crate::distribution::Answer::Known(value) => value.into_py_any(py),
        crate::distribution::Answer::Odd => Ok(odd(py)),
    }
}
