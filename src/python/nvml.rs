//! `Nvml`: the native backend, for the child that asks the driver. Each answer is (code, value), as the child has them.

use std::ffi::OsString;
use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::nvml::{Code, INITS, LIBRARY_NOT_FOUND, UNINITIALIZED};

/// A code of NVML, 0 where it went well, and the value then.
type Answer<T> = (Code, Option<T>);

fn coded<T>(answer: Result<T, Code>) -> Answer<T> {
    match answer {
        Ok(value) => (0, Some(value)),
        Err(code) => (code, None),
    }
}

fn code(answer: Result<(), Code>) -> Code {
    answer.err().unwrap_or(0)
}

/// NVML by the name of its library. Only for a process that was started for it: what it loads may hang or crash.
#[pyclass(frozen, module = "vplug_rs._core")]
pub struct Nvml {
    library: OsString,
    opened: OnceLock<crate::nvml::Nvml>,
}

impl Nvml {
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&crate::nvml::Nvml) -> Result<T, Code> + Send,
    ) -> Result<T, Code> {
        py.detach(|| self.opened.get().ok_or(UNINITIALIZED).and_then(question))
    }
}

#[pymethods]
impl Nvml {
    #[new]
    fn new(library: OsString) -> Self {
        Self {
            library,
            opened: OnceLock::new(),
        }
    }

    /// What it is called where backends are told apart.
    #[classattr]
    fn name() -> &'static str {
        "native"
    }

    /// The functions that `init` knows, the newest first.
    #[classattr]
    fn inits() -> [&'static str; 3] {
        INITS
    }

    /// Opens the library: 0, or 12 and what the system's loader said.
    fn load(&self, py: Python<'_>) -> (Code, String) {
        let opened = py.detach(|| crate::nvml::Nvml::open(&self.library));
        match opened {
            Ok(opened) => {
                drop(self.opened.set(opened));
                (0, String::new())
            }
            Err(refusal) => (LIBRARY_NOT_FOUND, refusal),
        }
    }

    /// Begins by this function.
    fn init(&self, py: Python<'_>, name: &str) -> Code {
        code(self.ask(py, |nvml| nvml.init(name)))
    }

    /// Ends it.
    fn shutdown(&self, py: Python<'_>) -> Code {
        code(self.ask(py, crate::nvml::Nvml::shutdown))
    }

    /// How many devices there are.
    fn count(&self, py: Python<'_>) -> Answer<u32> {
        coded(self.ask(py, crate::nvml::Nvml::count))
    }

    /// Asks for a device's handle, which all questions about it need.
    fn handle(&self, py: Python<'_>, index: u32) -> Code {
        code(self.ask(py, |nvml| nvml.handle(index)))
    }

    /// A device's name.
    fn device_name(&self, py: Python<'_>, index: u32) -> Answer<String> {
        coded(self.ask(py, |nvml| nvml.device_name(index)))
    }

    /// A device's identifier.
    fn uuid(&self, py: Python<'_>, index: u32) -> Answer<String> {
        coded(self.ask(py, |nvml| nvml.uuid(index)))
    }

    /// A device's PCI address.
    fn pci(&self, py: Python<'_>, index: u32) -> Answer<String> {
        coded(self.ask(py, |nvml| nvml.pci(index)))
    }

    /// A device's memory in bytes.
    fn memory(&self, py: Python<'_>, index: u32) -> Answer<u64> {
        coded(self.ask(py, |nvml| nvml.memory(index)))
    }

    /// A device's compute capability.
    fn capability(&self, py: Python<'_>, index: u32) -> Answer<(i32, i32)> {
        coded(self.ask(py, |nvml| nvml.capability(index)))
    }

    /// The driver's version.
    fn driver(&self, py: Python<'_>) -> Answer<String> {
        coded(self.ask(py, crate::nvml::Nvml::driver))
    }

    /// The CUDA version that the driver can do, 12080 for 12.8.
    fn cuda(&self, py: Python<'_>) -> Answer<i32> {
        coded(self.ask(py, crate::nvml::Nvml::cuda))
    }
}
