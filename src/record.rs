//! Lists of installed files: RECORD, SOURCES.txt or `top_level.txt` in, rows or import names out.
//!
//! A row is what `csv.reader(text.splitlines())` and `PackagePath` make of it. *Strict* reading gives
//! `None` (odd) where that cannot be promised or would raise; *mended* reading passes over bad rows
//! and reports them. Knows nothing of files: whether one exists is asked of the caller.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memrchr};

use crate::diagnostic::{Code, Fault, excerpt};
use crate::python_text::{self, Line};

/// `csv` refuses longer fields; shorter lines cannot hold one.
const FIELD_LIMIT: usize = 131_072;

/// One file of a distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The path as written.
    pub path: Cow<'a, str>,
    /// The hash with its algorithm in front, if there is one.
    pub hash: Option<Cow<'a, str>>,
    /// The size in bytes, if there is one.
    pub size: Option<u64>,
}

/// Reads RECORD exactly; `None` where the standard would raise or may differ.
///
/// The standard looks for another list when the text is empty: that is the caller's affair.
pub fn rows(text: &str) -> Option<Vec<Row<'_>>> {
    if !is_plain(text) {
        return None;
    }
    python_text::plain_lines(text).map(|line| row(line.text).ok()).collect()
}

/// Reads RECORD and passes over what is malformed. A row with an unreadable size loses only that.
pub fn rows_mended(text: &str) -> (Vec<Row<'_>>, Vec<Fault>) {
    let mut rows = Vec::new();
    let mut faults = Vec::new();
    for line in python_text::lines(text) {
        match row(line.text) {
            Ok(row) => rows.push(row),
            Err(reason) => {
                rows.extend(reason.rest());
                faults.push(reason.fault(&line));
            }
        }
    }
    (rows, faults)
}

/// The lines of SOURCES.txt (or installed-files.txt, there relative to the metadata folder).
///
/// `None` where quoting each line for `csv`, as the standard does, would change it.
pub fn sources(text: &str) -> Option<Vec<&str>> {
    if !is_plain(text) || memchr(b'"', text.as_bytes()).is_some() {
        return None;
    }
    python_text::plain_lines(text)
        .map(|line| (line.text.len() < FIELD_LIMIT).then_some(line.text))
        .collect()
}

/// The names in `top_level.txt`: `str.split()`.
pub fn top_level_txt(text: &str) -> Vec<&str> {
    text.split(python_text::is_blank)
        .filter(|name| !name.is_empty())
        .collect()
}

/// Whether the text has only ordinary line breaks and no NUL.
fn is_plain(text: &str) -> bool {
    memchr(0, text.as_bytes()).is_none() && python_text::has_only_plain_breaks(text)
}

/// Why a line is no row.
enum Malformed<'a> {
    Columns(usize),
    Quotes,
    TooLong,
    NoPath,
    Size(Row<'a>, Cow<'a, str>),
}

impl<'a> Malformed<'a> {
    fn fault(&self, line: &Line<'_>) -> Fault {
        let what = match self {
            Self::Columns(count) => format!("{count} columns, but at most 3 are allowed"),
            Self::Quotes => "its quotes do not enclose a column".to_owned(),
            Self::TooLong => format!("longer than {FIELD_LIMIT} bytes"),
            Self::NoPath => "no path".to_owned(),
            Self::Size(_, size) => format!("`{}` is no size", excerpt(size)),
        };
        Fault {
            code: Code::RecordMalformed,
            line: line.number,
            message: format!("`{}`: {what}", excerpt(line.text)),
        }
    }

    /// What can be used all the same.
    fn rest(&self) -> Option<Row<'a>> {
        match self {
            Self::Size(row, _) => Some(row.clone()),
            _ => None,
        }
    }
}

fn row(line: &str) -> Result<Row<'_>, Malformed<'_>> {
    if line.is_empty() {
        return Err(Malformed::NoPath);
    }
    if line.len() >= FIELD_LIMIT {
        return Err(Malformed::TooLong);
    }
    let mut columns = [Cow::Borrowed(""), Cow::Borrowed(""), Cow::Borrowed("")];
    let mut count = 0;
    let mut rest = Some(line);
    while let Some(text) = rest {
        let (column, after) = take_column(text)?;
        if let Some(place) = columns.get_mut(count) {
            *place = column;
        }
        count += 1;
        rest = after;
    }
    if count > columns.len() {
        return Err(Malformed::Columns(count));
    }
    let [path, hash, size] = columns;
    let row = Row {
        path,
        hash: (!hash.is_empty()).then_some(hash),
        size: decimal(&size),
    };
    if row.size.is_none() && !size.is_empty() {
        return Err(Malformed::Size(row, size));
    }
    Ok(row)
}

/// One column, and what follows its comma.
fn take_column(text: &str) -> Result<(Cow<'_, str>, Option<&str>), Malformed<'_>> {
    let Some(quoted) = text.strip_prefix('"') else {
        // A quote that is not the first character of its column is a character like any other.
        return Ok(match memchr(b',', text.as_bytes()) {
            None => (Cow::Borrowed(text), None),
            Some(at) => (Cow::Borrowed(&text[..at]), Some(&text[at + 1..])),
        });
    };
    let bytes = quoted.as_bytes();
    let mut end = 0;
    let mut doubled = false;
    loop {
        end += memchr(b'"', &bytes[end..]).ok_or(Malformed::Quotes)?;
        if bytes.get(end + 1) != Some(&b'"') {
            break;
        }
        doubled = true;
        end += 2;
    }
    let column = match &quoted[..end] {
        column if doubled => Cow::Owned(column.replace("\"\"", "\"")),
        column => Cow::Borrowed(column),
    };
    match &quoted[end + 1..] {
        "" => Ok((column, None)),
        after => match after.strip_prefix(',') {
            Some(after) => Ok((column, Some(after))),
            None => Err(Malformed::Quotes),
        },
    }
}

/// Plain digits only: `int` admits more, which is left to it.
fn decimal(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
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

/// The same for a list of paths, such as SOURCES.txt gives.
pub fn top_level_of<'a>(
    paths: impl IntoIterator<Item = &'a str>,
    rules: Rules<'_>,
    exists: impl FnMut(&str) -> bool,
) -> Option<Vec<Option<String>>> {
    let mut names = Names::new(rules, exists);
    for path in paths {
        names.add(path)?;
    }
    Some(names.finish())
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

/// The text of `PurePosixPath(path)`: no empty and no `.` component, `.` for nothing at all.
pub fn pure_path(path: &str) -> Cow<'_, str> {
    let bytes = path.as_bytes();
    let ends = memchr_iter(b'/', bytes).chain([bytes.len()]);
    let mut start = 0;
    let pure = ends.into_iter().all(|end| {
        let part = &bytes[start..end];
        start = end + 1;
        !matches!(part, b"" | b".")
    });
    if pure {
        return Cow::Borrowed(path);
    }
    let root = match path.len() - path.trim_start_matches('/').len() {
        0 => "",
        2 => "//", // POSIX lets two slashes mean something of their own, and pathlib keeps them
        _ => "/",
    };
    let mut out = String::with_capacity(path.len());
    out.push_str(root);
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if out.len() > root.len() {
            out.push('/');
        }
        out.push_str(part);
    }
    if out.is_empty() {
        out.push('.');
    }
    Cow::Owned(out)
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

    fn plain(path: &str, hash: Option<&str>, size: Option<u64>) -> Row<'static> {
        Row {
            path: Cow::Owned(path.to_owned()),
            hash: hash.map(|hash| Cow::Owned(hash.to_owned())),
            size,
        }
    }

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
    fn empty_columns_are_none() {
        assert_eq!(
            rows("a.py,sha256=x,12\r\nb.py,,\nc.py\nd,sha256=y"),
            Some(vec![
                plain("a.py", Some("sha256=x"), Some(12)),
                plain("b.py", None, None),
                plain("c.py", None, None),
                plain("d", Some("sha256=y"), None),
            ])
        );
        assert_eq!(rows(""), Some(vec![]));
    }

    #[test]
    fn quotes_enclose_a_column_only_from_its_start() {
        assert_eq!(
            rows("\"a,b\",,\n\"a\"\"b\",,1\na\"b,,\n\"\",,"),
            Some(vec![
                plain("a,b", None, None),
                plain("a\"b", None, Some(1)),
                plain("a\"b", None, None),
                plain("", None, None),
            ])
        );
    }

    #[test]
    fn what_the_standard_may_read_otherwise_is_odd() {
        for text in [
            "a,b,c",
            "a,b, 1",
            "a,b,1_0",
            "a,,,",
            "a,,\n\nb,,",
            "\"a\"b,,",
            "\"a,,",
            "a\u{c}b,,",
            "a\u{2028},,",
            "a\0,,",
            "a,,99999999999999999999",
        ] {
            assert_eq!(rows(text), None, "{text:?}");
            assert_eq!(names(text, 12), None, "{text:?}");
        }
    }

    #[test]
    fn the_mended_reading_passes_over_bad_rows_and_reports_them() {
        let (rows, faults) = rows_mended("a,,\n\nb,,x\nc,,,\n\"d\nd,,1");
        assert_eq!(
            rows,
            [
                plain("a", None, None),
                plain("b", None, None),
                plain("d", None, Some(1))
            ]
        );
        let lines: Vec<_> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 3, 4, 5]);
        let rules = Rules {
            generation: 13,
            suffixes: &SUFFIXES,
            mended: true,
        };
        assert_eq!(
            top_level("p/a,,\n\np/b,,x\nc.py,,,\nd.py,,1\n,,", rules, |_| true),
            Some(words(&["p", "d"]))
        );
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
    fn paths_take_the_form_that_pathlib_gives_them() {
        for (path, pure) in [
            ("", "."),
            (".", "."),
            ("./", "."),
            ("a/", "a"),
            ("a/.", "a"),
            ("./a//b/./c", "a/b/c"),
            ("../a", "../a"),
            (".a/.b", ".a/.b"),
            ("/a", "/a"),
            ("//a", "//a"),
            ("///a", "/a"),
            ("/", "/"),
        ] {
            assert_eq!(pure_path(path), pure, "{path:?}");
        }
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
    fn sources_are_lines_unless_quotes_would_change_them() {
        assert_eq!(sources("a,b\r\n\nc"), Some(vec!["a,b", "", "c"]));
        assert_eq!(sources("a\"b"), None);
        assert_eq!(sources("a\u{85}b"), None);
    }

    #[test]
    fn declared_names_are_words() {
        assert_eq!(top_level_txt(" a\n\u{1c}b\tc\n"), ["a", "b", "c"]);
        assert_eq!(top_level_txt("\n"), [""; 0]);
    }
}
