//! The layer rule of docs/architecture.md, read from the sources: a module names only modules of lower layers.

#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

#[path = "layer_rule.rs"]
mod layer_rule;

use std::collections::BTreeSet;

use layer_rule::{faults, named, names_by_super, says, without_comments};

/// From the ground up. A new module takes its place here, or the test fails.
const LAYERS: [&[&str]; 8] = [
    &[
        "diagnostic",
        "files",
        "name",
        "nvml",
        "once",
        "pure_path",
        "python_text",
        "version_order",
    ],
    &["allowlist", "metadata", "path_entry", "probe", "record", "reference"],
    &["dist_info", "entry_points", "import_names"],
    &["entry_point_files"],
    &["distribution", "scan"],
    &["findings", "heads", "memo"],
    &["standard"],
    &["packages"],
];
/// The binding may use everything, and nothing may use it.
const BINDING: &str = "python";

#[test]
fn the_reader_of_paths_sees_every_form() {
    let code =
        "use crate::files::{Kind, Stamp};\nuse crate::{name, scan::{Row, x}, memo};\nlet a = crate::record::b();";
    let expected = ["files", "memo", "name", "record", "scan"].map(String::from);
    assert_eq!(named(code), BTreeSet::from(expected));
    assert_eq!(named(&without_comments("// crate::memo\n")), BTreeSet::new());
}

#[test]
fn a_module_names_only_lower_layers() {
    assert_eq!(faults(&LAYERS, BINDING), Vec::<String>::new());
}

#[test]
fn a_rule_that_is_broken_is_seen() {
    let upside_down: Vec<_> = LAYERS.into_iter().rev().collect();
    let said = faults(&upside_down, BINDING).join("\n");
    assert!(said.contains("names `files`"), "{said}");
    let said = faults(&LAYERS[1..], BINDING).join("\n");
    assert!(
        said.contains("files/mod.rs: has no place") || said.contains("files.rs: has no place"),
        "{said}"
    );
    let said = faults(&[&["nowhere"]], BINDING).join("\n");
    assert!(said.contains("`nowhere`, which is no module"), "{said}");
}

#[test]
fn modules_of_the_root_are_named_from_the_root() {
    assert_eq!(names_by_super(), Vec::<String>::new());
}

#[test]
fn the_core_knows_no_python_and_no_environment() {
    let said = says(|module| match module {
        BINDING => &["env::var", "std::fs", "println!", "eprintln!"],
        "files" => &["pyo3", "env::var", "println!", "eprintln!"],
        _ => &["pyo3", "env::var", "std::fs", "rustix", "println!", "eprintln!"],
    });
    assert_eq!(said, Vec::<String>::new());
}
