//! The passive stage of the platform probes: rows of plain data.

use std::ffi::OsString;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::probe::{self, Device, Evidence};

/// Platform, id, kind, subject, result, weight, text.
type EvidenceRow = (&'static str, String, &'static str, String, String, &'static str, String);
/// Platform, index, name, PCI address, memory and its source, capability, driver, integrated.
type DeviceRow = (
    &'static str,
    u32,
    Option<String>,
    Option<String>,
    Option<u64>,
    Option<&'static str>,
    Option<String>,
    Option<String>,
    Option<bool>,
);

/// What files below `root` and the environment tell of all platforms: (evidence, devices, facts).
///
/// `environment` is a mapping, or pairs of name and value.
#[pyfunction]
pub fn probe_passive<'py>(
    py: Python<'py>,
    root: OsString,
    environment: &Bound<'py, PyAny>,
) -> PyResult<(Vec<EvidenceRow>, Vec<DeviceRow>, Bound<'py, PyDict>)> {
    let environment = pairs(environment)?;
    let report = py.detach(|| probe::passive(&root, &environment));
    let facts = PyDict::new(py);
    for (name, value) in report.facts {
        facts.set_item(name, value)?;
    }
    let evidence = report.evidence.into_iter().map(evidence_row).collect();
    Ok((evidence, report.devices.into_iter().map(device_row).collect(), facts))
}

/// The variables that count; a mapping is asked for those alone.
fn pairs(environment: &Bound<'_, PyAny>) -> PyResult<Vec<(String, OsString)>> {
    if !environment.hasattr("get")? {
        let refused = |_| PyTypeError::new_err("environment is neither a mapping nor a list of (str, str)");
        return environment.extract().map_err(refused);
    }
    let mut found = Vec::new();
    for name in probe::VARIABLES {
        let value = environment.call_method1("get", (name,))?;
        if !value.is_none() {
            found.push((name.to_owned(), value.extract()?));
        }
    }
    Ok(found)
}

fn evidence_row(one: Evidence) -> EvidenceRow {
    (
        one.platform,
        one.id,
        one.kind,
        one.subject,
        one.result,
        one.weight.word(),
        one.text,
    )
}

fn device_row(one: Device) -> DeviceRow {
    (
        one.platform,
        one.index,
        one.name,
        one.pci,
        one.memory_bytes,
        one.memory_source,
        one.capability,
        one.driver,
        one.integrated,
    )
}
