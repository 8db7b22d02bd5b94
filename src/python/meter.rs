//! What a step of a plugin costs and changes in this process: `Meter` from its start to its end, `Loaded` if it succeeded.

use std::time::Instant;

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

/// What one step gave, and what it cost.
// no part in garbage collection: it lives as long as the process, and there are many
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Loaded {
    /// The object, or what calling it gave.
    #[pyo3(get)]
    value: Py<PyAny>,
    /// How long the step took, waiting for others not counted.
    #[pyo3(get)]
    seconds: f64,
    /// Whether torch's CUDA state became initialised meanwhile.
    #[pyo3(get)]
    cuda: bool,
    /// The metadata folder that it was loaded for; an upgrade since does not change what runs.
    #[pyo3(get)]
    source: Option<Py<PyString>>,
    /// The process that ran the step; after a fork not always this one.
    #[pyo3(get)]
    process: u32,
    modules: Vec<Py<PyAny>>,
}

#[pymethods]
impl Loaded {
    /// Names of the modules that `sys.modules` gained meanwhile (other threads' too).
    #[getter]
    fn modules<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.modules)
    }
}

/// Seconds, new modules, and whether CUDA became initialised.
type Reading<'py> = (f64, Vec<Bound<'py, PyAny>>, bool);

/// How a process looks as a step begins.
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Meter {
    modules: usize,
    cuda: bool,
    began: Instant,
}

#[pymethods]
impl Meter {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let modules = modules(py)?;
        Ok(Self {
            modules: modules.len()?,
            cuda: cuda(&modules)?,
            began: Instant::now(),
        })
    }

    /// (seconds, modules, cuda) since it was made.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Reading<'py>> {
        let seconds = self.began.elapsed().as_secs_f64();
        let modules = modules(py)?;
        Ok((seconds, self.gained(&modules)?, !self.cuda && cuda(&modules)?))
    }

    /// The end of a step that succeeded.
    fn loaded(&self, value: Bound<'_, PyAny>, source: Option<Bound<'_, PyString>>) -> PyResult<Loaded> {
        let (seconds, modules, cuda) = self.read(value.py())?;
        Ok(Loaded {
            value: value.unbind(),
            seconds,
            cuda,
            source: source.map(Bound::unbind),
            process: super::process(),
            modules: modules.into_iter().map(Bound::unbind).collect(),
        })
    }
}

impl Meter {
    /// The modules that are new: they stand at the end, the newest last.
    fn gained<'py>(&self, modules: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let py = modules.py();
        let more = modules.len()?.saturating_sub(self.modules);
        if more == 0 {
            return Ok(Vec::new());
        }
        let last = || -> PyResult<Vec<_>> {
            let names = modules.call_method0(intern!(py, "__reversed__"))?;
            names.try_iter()?.take(more).collect()
        };
        match last() {
            Ok(mut names) => {
                names.reverse();
                Ok(names)
            }
            // another thread imports; a copy of all of it is made in one go, but costs more
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => {
                let all = PyList::new(py, modules.cast::<PyDict>()?.keys())?;
                Ok(all.iter().skip(self.modules).collect())
            }
            Err(error) => Err(error),
        }
    }
}

/// `sys.modules`.
fn modules(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static SYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let sys = SYS.get_or_try_init(py, || py.import("sys").map(Bound::unbind))?;
    sys.bind(py).getattr(intern!(py, "modules"))
}

/// Whether torch says that CUDA is initialised in this process; asked without touching it.
fn cuda(modules: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = modules.py();
    let torch = match modules.cast::<PyDict>() {
        Ok(modules) => modules.get_item(intern!(py, "torch"))?,
        Err(_) => Some(modules.call_method1(intern!(py, "get"), (intern!(py, "torch"),))?),
    };
    let Some(torch) = torch.filter(|torch| !torch.is_none()) else {
        return Ok(false);
    };
    let told = torch
        .getattr(intern!(py, "cuda"))
        .and_then(|cuda| cuda.call_method0(intern!(py, "is_initialized")))
        .and_then(|told| told.is_truthy());
    match told {
        // a torch that is half imported, or no torch: it has not initialised anything
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(false),
        told => told,
    }
}
