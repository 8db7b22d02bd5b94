//! The layer rule of docs/architecture.md, read from the sources: a module names only modules of lower layers.

#![expect(clippy::unwrap_used, reason = "a source that cannot be read fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

struct Source {
    path: PathBuf,
    /// The module of the crate's root that the file belongs to.
    module: String,
    /// Code without comments; unit tests at the end of a file are part of it.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).unwrap();
                let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
                let module = first.trim_end_matches(".rs").to_owned();
                let code = without_comments(&fs::read_to_string(&path).unwrap());
                found.push(Source { path, module, code });
            }
        }
    }
    found
}

fn without_comments(text: &str) -> String {
    // `//` inside a string literal cuts that line short, which can hide nothing: a path stands before no string.
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The modules of the crate's root that a text names: `crate::name`, and each name of `crate::{…}`.
fn named(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (start, _) in code.match_indices("crate::") {
        let rest = &code[start + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(heads(list)),
            None => names.extend(identifier(rest)),
        }
    }
    names
}

/// The first name of each item of a braced list, whose opening brace has been taken off.
fn heads(list: &str) -> Vec<String> {
    let mut depth = 1_u32;
    let mut expected = true;
    let mut found = Vec::new();
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => expected = true,
            _ if expected && !character.is_whitespace() => {
                found.extend(identifier(&list[at..]));
                expected = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

fn identifier(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&module))
}

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
    let mut faults = Vec::new();
    for source in sources() {
        if source.module == "lib" || source.module == BINDING {
            continue;
        }
        let Some(own) = layer(&source.module) else {
            faults.push(format!("{}: has no place in LAYERS", source.path.display()));
            continue;
        };
        for name in named(&source.code) {
            if name != source.module && layer(&name).is_none_or(|other| other >= own) {
                faults.push(format!("{}: layer {own} names `{name}`", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_layer_names_modules_that_exist() {
    let modules: BTreeSet<String> = sources().into_iter().map(|source| source.module).collect();
    for name in LAYERS.concat() {
        assert!(modules.contains(name), "LAYERS names `{name}`, which is no module");
    }
}

#[test]
fn modules_of_the_root_are_named_from_the_root() {
    // `super::` in a file of the root would pass by the rule above; inside its own `mod tests` it means the file.
    for source in sources() {
        let is_root_file = source.path.parent().is_some_and(|folder| folder.ends_with("src"));
        let own = source.code.split("#[cfg(test)]").next().unwrap_or("");
        assert!(
            !is_root_file || !own.contains("super::"),
            "{} says super::",
            source.path.display()
        );
    }
}

#[test]
fn the_core_knows_no_python_and_no_environment() {
    // a file of tests is one as a whole
    for source in sources()
        .into_iter()
        .filter(|source| !source.path.ends_with("tests.rs"))
    {
        let own = source.code.split("#[cfg(test)]").next().unwrap_or("");
        let forbidden: &[&str] = match source.module.as_str() {
            BINDING => &["env::var", "std::fs", "println!", "eprintln!"],
            "files" => &["pyo3", "env::var", "println!", "eprintln!"],
            _ => &["pyo3", "env::var", "std::fs", "rustix", "println!", "eprintln!"],
        };
        for word in forbidden {
            assert!(!own.contains(word), "{} says {word}", source.path.display());
        }
    }
}
