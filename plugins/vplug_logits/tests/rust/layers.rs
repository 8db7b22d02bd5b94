//! The layer rule of docs/architecture.md, read from the sources: a module names only modules of lower layers.

#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

#[path = "../../../../tests/rust/layer_rule.rs"]
mod layer_rule;

use layer_rule::{faults, names_by_super, says};

/// From the ground up. A new module takes its place here, or the test fails.
const LAYERS: [&[&str]; 4] = [
    &["after", "isa", "layout", "pages", "weight"],
    &["encode", "pool", "query", "rescore", "select", "transform"],
    &["read", "scan"],
    &["step"],
];
/// The binding may use everything, and nothing may use it.
const BINDING: &str = "python";

#[test]
fn a_module_names_only_lower_layers() {
    assert_eq!(faults(&LAYERS, BINDING), Vec::<String>::new());
}

#[test]
fn modules_of_the_root_are_named_from_the_root() {
    assert_eq!(names_by_super(), Vec::<String>::new());
}

#[test]
fn the_kernels_know_no_python_and_no_environment() {
    let said = says(|module| match module {
        BINDING => &["env::var", "std::fs", "println!", "eprintln!"],
        // these ask the system about threads and memory of their own
        "pool" | "pages" => &["pyo3", "env::var", "println!", "eprintln!"],
        _ => &["pyo3", "env::var", "std::fs", "rustix", "println!", "eprintln!"],
    });
    assert_eq!(said, Vec::<String>::new());
}
