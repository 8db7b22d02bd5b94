//! Import names of a distribution: a list of its files, or `top_level.txt`, in; names out.
//!
//! Three generations of `_top_level_inferred` differ; each is followed exactly. Whether a file exists is asked of the
//! caller.

use std::borrow::Cow;

use memchr::{memchr, memrchr};

use crate::pure_path::pure_path;
use crate::python_text;
use crate::record::{FIELD_LIMIT, is_plain, row, rows_mended};

/// The names in `top_level.txt`: `str.split()`.
pub fn top_level_txt(text: &str) -> Vec<&str> {
    text.split(python_text::is_blank)
        .filter(|name| !name.is_empty())
        .collect()
}

/// How import names are inferred from a list of files.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Whose `_top_level_inferred` counts: 11, 12 or 13 for Python 3.11, 3.12, 3.13 and later.
    pub generation: u8,
    /// `importlib.machinery.all_suffixes()`.
    pub suffixes: &'a [&'a str],
    /// Pass over malformed rows instead of calling the file odd.
    pub mended: bool,
}

/// The elements of the set that `_top_level_inferred` builds, in the order of their first insertion.
///
/// That is before names with a dot are filtered out: the order in which the set is iterated
/// depends on all of its elements. From generation 12 on a file counts only if `exists` says so; it
/// is asked, with the path in `pathlib`'s form, only while a file's name is unknown.
pub fn top_level(text: &str, rules: Rules<'_>, exists: impl FnMut(&str) -> bool) -> Option<Vec<Option<String>>> {
    let mut names = Names::new(rules, exists);
    if !is_plain(text) {
        if !rules.mended {
            return None;
        }
        for row in rows_mended(text).0 {
            names.add(&row.path)?;
        }
        return Some(names.finish());
    }
    // The folder of an earlier row, slash included: a path in it adds nothing any more.
    let mut known = "";
    for line in python_text::plain_lines(text) {
        let path = match sound_path(line.text) {
            Some(path) => Cow::Borrowed(path),
            None => match row(line.text) {
                Ok(row) => row.path,
                Err(reason) if rules.mended => match reason.rest() {
                    Some(row) => row.path,
                    None => continue,
                },
                Err(_) => return None,
            },
        };
        if is_below(&path, known) || rules.generation <= 11 && is_no_source(&path) {
            continue;
        }
        if names.add(&path)?
            && let Cow::Borrowed(path) = path
        {
            known = folder(path);
        }
    }
    Some(names.finish())
}

/// The path of a row that is sound at first sight: no column begins with a quote, the size is short.
fn sound_path(line: &str) -> Option<&str> {
    let bytes = line.as_bytes();
    if line.len() >= FIELD_LIMIT || matches!(bytes.first(), None | Some(b'"')) {
        return None;
    }
    let Some(path_end) = memchr(b',', bytes) else {
        return Some(line);
    };
    let rest = &bytes[path_end + 1..];
    let hash_end = memchr(b',', rest).unwrap_or(rest.len());
    let size = rest.get(hash_end + 1..).unwrap_or_default();
    let sound = rest.first() != Some(&b'"') && size.len() < 19 && size.iter().all(u8::is_ascii_digit);
    sound.then(|| &line[..path_end])
}

/// The first folder of a path, slash included; empty if it is not plain from the text.
fn folder(path: &str) -> &str {
    match memchr(b'/', path.as_bytes()) {
        Some(at) if at > 0 && !path.starts_with('.') => &path[..=at],
        _ => "",
    }
}

/// Whether a path surely names something below this folder.
fn is_below(path: &str, folder: &str) -> bool {
    // After the slash may come another one, or a dot: whether anything follows those is not looked at.
    !folder.is_empty()
        && path
            .strip_prefix(folder)
            .is_some_and(|rest| !matches!(rest.as_bytes().first(), None | Some(b'/' | b'.')))
}

/// Whether a path surely has no suffix `.py`, whatever `pathlib` cuts off at its end.
fn is_no_source(path: &str) -> bool {
    !matches!(path.as_bytes().last(), None | Some(b'y' | b'/' | b'.'))
}

/// The set in the making.
struct Names<'r, E> {
    rules: Rules<'r>,
    exists: E,
    seen: std::collections::HashSet<Option<String>>,
    order: Vec<Option<String>>,
}

impl<'r, E: FnMut(&str) -> bool> Names<'r, E> {
    fn new(rules: Rules<'r>, exists: E) -> Self {
        Self {
            rules,
            exists,
            seen: std::collections::HashSet::new(),
            order: Vec::new(),
        }
    }

    /// Adds what a path contributes. Tells whether every other file of the same first folder could
    /// add nothing; `None` where the standard would raise.
    fn add(&mut self, path: &str) -> Option<bool> {
        let path = pure_path(path);
        let parts = Parts::of(&path);
        if path == "." {
            // 3.11: no suffix, not counted. 3.12: no module. 3.13 cannot unpack it and raises.
            return match self.rules.generation {
                ..=11 => Some(false),
                12 => Some(self.insert(None, &path)),
                _ if self.rules.mended => Some(false),
                _ => None,
            };
        }
        let name = match parts.top {
            _ if self.rules.generation <= 11 && !is_py(parts.last) => return Some(false),
            Some(top) => Some(top),
            None if self.rules.generation <= 11 => Some(&parts.last[..parts.last.len() - 3]),
            None => {
                let module = self.module_name(parts.last);
                if self.rules.generation == 12 {
                    module
                } else {
                    module.filter(|name| !name.is_empty()).or(Some(&path))
                }
            }
        };
        Some(self.insert(name.map(str::to_owned), &path) && parts.top.is_some())
    }

    fn insert(&mut self, name: Option<String>, path: &str) -> bool {
        if self.seen.contains(&name) {
            return true;
        }
        if self.rules.generation >= 12 && !(self.exists)(path) {
            return false;
        }
        self.order.push(name.clone());
        self.seen.insert(name);
        true
    }

    /// `inspect.getmodulename`: the longest suffix that fits is cut off.
    fn module_name<'p>(&self, file: &'p str) -> Option<&'p str> {
        self.rules
            .suffixes
            .iter()
            .filter_map(|suffix| file.strip_suffix(suffix))
            .min_by_key(|name| name.len())
    }

    fn finish(self) -> Vec<Option<String>> {
        self.order
    }
}

/// Whether `PurePath.suffix` of this file name is `.py`.
fn is_py(name: &str) -> bool {
    name.strip_suffix(".py").is_some_and(|stem| !stem.is_empty())
}

/// What counts of a path's `parts`.
struct Parts<'a> {
    /// The first one, if there are others.
    top: Option<&'a str>,
    /// The file's name: the last one, or nothing for a bare root.
    last: &'a str,
}

impl<'a> Parts<'a> {
    /// Of a path as [`pure_path`] gives it.
    fn of(path: &'a str) -> Self {
        let root = path.len() - path.trim_start_matches('/').len();
        let last = memrchr(b'/', path.as_bytes()).map_or(path, |at| &path[at + 1..]);
        let top = match root {
            0 => memchr(b'/', path.as_bytes()).map(|at| &path[..at]),
            _ if root == path.len() => None,
            _ => Some(&path[..root]),
        };
        Self { top, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUFFIXES: [&str; 4] = [".py", ".pyc", ".abi3.so", ".so"];

    fn names(text: &str, generation: u8) -> Option<Vec<Option<String>>> {
        let rules = Rules {
            generation,
            suffixes: &SUFFIXES,
            mended: false,
        };
        top_level(text, rules, |_| true)
    }

    fn words(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|&name| Some(name.to_owned())).collect()
    }

    #[test]
    fn a_malformed_row_is_odd_when_strict_and_passed_over_when_mended() {
        let text = "p/a,,\n\np/b,,x\nc.py,,,\nd.py,,1\n,,";
        assert_eq!(names(text, 12), None);
        let rules = Rules {
            generation: 13,
            suffixes: &SUFFIXES,
            mended: true,
        };
        assert_eq!(top_level(text, rules, |_| true), Some(words(&["p", "d"])));
    }

    #[test]
    fn generation_11_looks_at_source_files_only() {
        assert_eq!(
            names("b.py,,\np/x.so,,\nq/x.txt,,\nq/x.py,,\n.py,,\nd/.py,,\nc..py,,", 11),
            Some(words(&["b", "q", "c."]))
        );
    }

    #[test]
    fn generation_12_looks_at_modules_of_every_kind() {
        assert_eq!(
            names("m.abi3.so,,\np/x.txt,,\nREADME,,\n.py,,\n../bin/x,,", 12),
            Some(vec![
                Some("m".into()),
                Some("p".into()),
                None,
                Some(String::new()),
                Some("..".into())
            ])
        );
    }

    #[test]
    fn generation_13_falls_back_to_the_file_name() {
        assert_eq!(
            names("m.pyc,,\nREADME,,\nx.pth,,\n.py,,\nfolder/,,", 13),
            Some(words(&["m", "README", "x.pth", ".py", "folder"]))
        );
    }

    #[test]
    fn a_name_stands_where_its_first_existing_file_stands() {
        let rules = Rules {
            generation: 12,
            suffixes: &SUFFIXES,
            mended: false,
        };
        let mut asked = Vec::new();
        let found = top_level("p/gone,,\nq/a,,\n./p//b,,\np/c,,\np/d,,\nr/gone,,", rules, |path| {
            asked.push(path.to_owned());
            !path.ends_with("gone")
        });
        assert_eq!(found, Some(words(&["q", "p"])));
        assert_eq!(asked, ["p/gone", "q/a", "p/b", "r/gone"]);
    }

    #[test]
    fn rows_of_a_known_folder_must_still_be_sound() {
        assert_eq!(names("p/a,,\np/b,h,1\np/c", 12), Some(words(&["p"])));
        for bad in ["p/b,,x", "p/b,h,1,2", "p/b,\"h,1", "p/b,h,\"1", "p/b,,+1"] {
            assert_eq!(names(&format!("p/a,,\n{bad}\n"), 12), None, "{bad}");
        }
        assert_eq!(
            names("p/a,,\n\"p/b\",\"h\",\"1\"\np/,,\np/./,,", 13),
            Some(words(&["p"]))
        );
    }

    #[test]
    fn a_path_without_parts_is_treated_as_each_generation_does() {
        assert_eq!(names("./,,", 11), Some(words(&[])));
        assert_eq!(names("./,,", 12), Some(vec![None]));
        assert_eq!(names("./,,", 13), None);
    }

    #[test]
    fn an_absolute_path_counts_by_its_root() {
        assert_eq!(names("/a/b.py,,\n//c/d.py,,", 11), Some(words(&["/", "//"])));
        assert_eq!(names("/a.py,,", 13), Some(words(&["/"])));
    }

    #[test]
    fn declared_names_are_words() {
        assert_eq!(top_level_txt(" a\n\u{1c}b\tc\n"), ["a", "b", "c"]);
        assert_eq!(top_level_txt("\n"), [""; 0]);
    }
}
