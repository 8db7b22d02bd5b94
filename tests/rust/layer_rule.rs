//! What the tests of layers share: the sources of a crate, which modules they name, and whether those are lower ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// One file.
pub struct Source {
    pub path: PathBuf,
    /// The module of the crate's root that the file belongs to.
    pub module: String,
    /// Code without comments; unit tests at the end of a file are part of it.
    pub code: String,
}

/// All files of the crate that is tested.
pub fn sources() -> Vec<Source> {
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

pub fn without_comments(text: &str) -> String {
    // `//` inside a string literal cuts that line short, which can hide nothing: a path stands before no string.
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The modules of the crate's root that a text names: `crate::name`, and each name of `crate::{…}`.
pub fn named(code: &str) -> BTreeSet<String> {
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

/// What breaks the rule that a module names only modules of lower layers.
///
/// `layers` stand from the ground up; the binding and `lib` may use everything, and nothing may use them.
pub fn faults(layers: &[&[&str]], binding: &str) -> Vec<String> {
    let layer = |module: &str| layers.iter().position(|names| names.contains(&module));
    let mut faults = Vec::new();
    let mut modules = BTreeSet::new();
    for source in sources() {
        modules.insert(source.module.clone());
        if source.module == "lib" || source.module == binding {
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
    let missing = layers.concat().into_iter().filter(|name| !modules.contains(*name));
    faults.extend(missing.map(|name| format!("LAYERS names `{name}`, which is no module")));
    faults
}

/// Files of the root that say `super::`: it would pass by the rule; inside a file's own `mod tests` it means the file.
pub fn names_by_super() -> Vec<String> {
    let of_root = |source: &Source| source.path.parent().is_some_and(|folder| folder.ends_with("src"));
    sources()
        .iter()
        .filter(|source| of_root(source) && own(source).contains("super::"))
        .map(|source| format!("{} says super::", source.path.display()))
        .collect()
}

/// Files that say a word that is forbidden to their module; a file of tests is none of them.
pub fn says<'a>(forbidden: impl Fn(&str) -> &'a [&'a str]) -> Vec<String> {
    let all = sources();
    let files = all.iter().filter(|source| !source.path.ends_with("tests.rs"));
    files
        .flat_map(|source| {
            let words = forbidden(&source.module).iter();
            words
                .filter(|word| own(source).contains(**word))
                .map(|word| format!("{} says {word}", source.path.display()))
        })
        .collect()
}

/// The code of a file before its unit tests.
fn own(source: &Source) -> &str {
    source.code.split("#[cfg(test)]").next().unwrap_or("")
}
