//! One metadata folder in, what its files say out: header fields, installed files, import names.
//!
//! Everything is read anew at each question. *Strict* answers `Answer::Odd` wherever only the interpreter's own
//! code can tell what `importlib.metadata` would say; *mended* answers as much as can be read.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::diagnostic::{self, Code, Diagnostic};
use crate::dist_info::{self, METADATA_HEAD};
use crate::files::{self, Content, Extent, Fault, Folder, Stamp};
use crate::import_names::{self, Rules};
use crate::metadata::{self, First, Outcome};
use crate::pure_path::pure_path;
use crate::python_text;
use crate::record;

/// Largest METADATA that is read, in bytes.
pub const LARGEST_METADATA: u64 = 16 * 1024 * 1024;
/// Largest RECORD that is read, in bytes.
pub const LARGEST_RECORD: u64 = 64 * 1024 * 1024;

/// What is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// This.
    Known(T),
    /// Only the interpreter's own machinery can tell.
    Odd,
}

use Answer::{Known, Odd};

/// Where one metadata folder is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The open folder that `info` is relative to; `None`: the process's own.
    pub folder: Option<&'a Folder>,
    /// The metadata folder, or the file that stands for one.
    pub info: &'a Path,
}

impl<'a> Place<'a> {
    /// By a path of its own.
    #[must_use]
    pub fn at(info: &'a Path) -> Self {
        Self { folder: None, info }
    }

    fn file(self, name: &str) -> PathBuf {
        // joining nothing would add a slash
        if name.is_empty() {
            self.info.to_owned()
        } else {
            self.info.join(name)
        }
    }

    /// Reads a file of the metadata folder; `""` is the folder's own name.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn read(self, name: &str, extent: Extent) -> Result<Content, Fault> {
        let path = self.file(name);
        match self.folder {
            Some(folder) => folder.read(path.as_os_str(), extent),
            None => files::read(&path, extent),
        }
    }

    /// The stamp of a file of the metadata folder.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp_of(self, name: &str) -> Result<Stamp, Fault> {
        let path = self.file(name);
        match self.folder {
            Some(folder) => folder.stamp_of(path.as_os_str()),
            None => files::stamp(&path),
        }
    }
}

/// The bytes with the header block: METADATA, else PKG-INFO, else the metadata file itself; empty if there is none.
///
/// An empty file counts as missing, as in the standard.
fn header_bytes(place: Place<'_>, strict: bool) -> Answer<Vec<u8>> {
    let extent = if strict {
        Extent::Whole(LARGEST_METADATA)
    } else {
        Extent::Head(METADATA_HEAD)
    };
    for file in ["METADATA", "PKG-INFO", ""] {
        match place.read(file, extent) {
            Ok(content) if content.bytes.is_empty() => {}
            Ok(content) if content.bytes.len() < METADATA_HEAD || strict || ends(&content.bytes) => {
                return Known(content.bytes);
            }
            // a header block longer than any real one: read all of it
            Ok(content) => {
                let whole = place.read(file, Extent::Whole(LARGEST_METADATA));
                return Known(whole.map_or(content.bytes, |whole| whole.bytes));
            }
            Err(fault) if fault.standard_absent() || !strict => {}
            Err(_) => return Odd,
        }
    }
    Known(Vec::new())
}

/// Whether the end of a header block is in sight.
fn ends(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\n\n").is_some() || memchr::memmem::find(bytes, b"\r\n\r\n").is_some()
}

/// The first value of a header field.
pub fn header(place: Place<'_>, field: &str, strict: bool) -> Answer<Option<String>> {
    let Known(bytes) = header_bytes(place, strict) else {
        return Odd;
    };
    match metadata::first(&bytes, field, strict) {
        First::Found(value) => Known(Some(value.into_owned())),
        First::Absent => Known(None),
        First::Odd => Odd,
    }
}

/// All header fields in order, without the Description that the standard makes of the body.
pub fn headers(info: &Path, strict: bool) -> Answer<Vec<(String, String)>> {
    let Known(bytes) = header_bytes(Place::at(info), strict) else {
        return Odd;
    };
    match metadata::parse(&bytes, strict) {
        Outcome::Plain(fields) => Known(
            fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into_owned()))
                .collect(),
        ),
        Outcome::Odd => Odd,
    }
}

/// One installed file: path, hash with its algorithm in front, size in bytes.
pub type RecordRow = (String, Option<String>, Option<u64>);

/// The rows of RECORD as the standard reads them; `None` if there is no RECORD or it is empty.
///
/// With `existing`, only those whose file exists below `root`.
pub fn record(info: &Path, root: &OsStr, existing: bool) -> Answer<Option<Vec<RecordRow>>> {
    let text = match text(Place::at(info), "RECORD", true) {
        Known(Some(found)) => found.text,
        Known(None) => return Known(None),
        Odd => return Odd,
    };
    let Some(rows) = record::rows(&text) else {
        return Odd;
    };
    let root = Folder::open(root).ok();
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        if existing {
            match exists(root.as_ref(), &pure_path(&row.path)) {
                Some(true) => {}
                Some(false) => continue,
                None => return Odd,
            }
        }
        out.push((row.path.into_owned(), row.hash.map(Cow::into_owned), row.size));
    }
    Known(Some(out))
}

/// The files in RECORD that exist below `root`, paths in `pathlib`'s form, and what is wrong with the list.
///
/// `None` without a RECORD that can be read. Malformed rows are passed over; a byte that is not UTF-8 becomes U+FFFD.
pub fn files(info: &Path, root: &OsStr) -> (Option<Vec<RecordRow>>, Vec<Diagnostic>) {
    let Known(Some(Text { text, bad_line })) = text(Place::at(info), "RECORD", false) else {
        return (None, Vec::new());
    };
    let (rows, faults) = record::rows_mended(&text);
    let root = Folder::open(root).ok();
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        let path = pure_path(&row.path);
        if exists(root.as_ref(), &path) != Some(false) {
            out.push((path.into_owned(), row.hash.map(Cow::into_owned), row.size));
        }
    }
    let bad_bytes = bad_line.map(|line| diagnostic::Fault {
        code: Code::RecordNotUtf8,
        line,
        message: format!("line {line} has a byte that is not UTF-8"),
    });
    let path = info.join("RECORD");
    let distribution = dist_info::label(info.file_name().unwrap_or_default());
    let found = faults.into_iter().chain(bad_bytes);
    let found = found.map(|fault| Diagnostic::from_fault(fault, &path).of(distribution.as_str()));
    (Some(out), found.collect())
}

/// What `packages_distributions()` needs of one distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopLevel {
    /// The names come from `top_level.txt`, not from the list of files.
    pub declared: bool,
    /// In order of first occurrence, before any filter.
    pub names: Vec<Option<String>>,
}

/// The import names of one distribution, by the rules of one Python generation; its files are looked for below
/// `root` (`None`: a folder that cannot be opened).
pub fn top_level(place: Place<'_>, root: Option<&Folder>, rules: Rules<'_>) -> Answer<TopLevel> {
    let strict = !rules.mended;
    match text(place, "top_level.txt", strict) {
        Known(Some(found)) => {
            let names: Vec<_> = import_names::top_level_txt(&found.text)
                .into_iter()
                .map(|name| Some(name.to_owned()))
                .collect();
            if !names.is_empty() {
                return Known(TopLevel { declared: true, names });
            }
        }
        Known(None) => {}
        Odd => return Odd,
    }
    let text = match text(place, "RECORD", strict) {
        Known(Some(found)) => found.text,
        // the older lists are rare: theirs is the interpreter's own reading
        Known(None) if has_older_list(place) => return Odd,
        Known(None) => {
            return Known(TopLevel {
                declared: false,
                names: Vec::new(),
            });
        }
        Odd => return Odd,
    };
    let mut uncertain = false;
    let names = import_names::top_level(&text, rules, |path| {
        exists(root, path).unwrap_or_else(|| {
            uncertain = true;
            false
        })
    });
    match names {
        Some(names) if !uncertain || !strict => Known(TopLevel { declared: false, names }),
        _ => Odd,
    }
}

fn has_older_list(place: Place<'_>) -> bool {
    ["installed-files.txt", "SOURCES.txt"]
        .iter()
        .any(|file| !matches!(place.stamp_of(file), Err(Fault::Absent)))
}

/// A text file of the metadata folder.
struct Text {
    text: String,
    /// The line of the first byte that is not UTF-8, from 1; such bytes are replaced.
    bad_line: Option<u32>,
}

/// A text file of the metadata folder; `None` if there is none or it is empty.
fn text(place: Place<'_>, file: &str, strict: bool) -> Answer<Option<Text>> {
    match place.read(file, Extent::Whole(LARGEST_RECORD)) {
        Ok(content) if content.bytes.is_empty() => Known(None),
        Ok(content) => match String::from_utf8(content.bytes) {
            Ok(text) => Known(Some(Text { text, bad_line: None })),
            Err(_) if strict => Odd,
            Err(error) => Known(Some(Text {
                bad_line: Some(python_text::line_of(error.as_bytes(), error.utf8_error().valid_up_to())),
                text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
            })),
        },
        Err(fault) if fault.standard_absent() || !strict => Known(None),
        Err(_) => Odd,
    }
}

/// Entry points of one metadata folder in file order, as the standard reads them.
pub fn entry_points(info: &Path) -> Answer<Vec<(String, String, String)>> {
    let extent = Extent::Whole(crate::entry_point_files::LARGEST);
    match Place::at(info).read("entry_points.txt", extent) {
        Ok(content) => match crate::entry_points::Parsed::from_bytes(content.bytes) {
            Ok(parsed) if parsed.standard() => Known(
                parsed
                    .entries()
                    .map(|entry| (entry.name.to_owned(), entry.value.to_owned(), entry.group.to_owned()))
                    .collect(),
            ),
            _ => Odd,
        },
        Err(fault) if fault.standard_absent() => Known(Vec::new()),
        Err(_) => Odd,
    }
}

/// Whole metadata as the email parser would split it: fields before the standard's dedent, and the body.
pub fn message(info: &Path) -> Answer<(Vec<(String, String)>, String)> {
    let Known(bytes) = header_bytes(Place::at(info), true) else {
        return Odd;
    };
    if bytes.is_empty() {
        return Odd;
    }
    match metadata::message(&bytes) {
        Some((fields, body)) => Known((
            fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into_owned()))
                .collect(),
            body.into_owned(),
        )),
        None => Odd,
    }
}

/// Whether there is such a file below a folder, by `Path.exists`; `None`: it would raise.
fn exists(root: Option<&Folder>, path: &str) -> Option<bool> {
    match root?.look_for(OsStr::new(path)) {
        Ok(()) => Some(true),
        Err(Fault::Absent) => Some(false),
        Err(Fault::Other(code)) if code == ELOOP => Some(false),
        Err(_) => None,
    }
}

#[cfg(target_os = "linux")]
const ELOOP: i32 = 40;
#[cfg(not(target_os = "linux"))]
const ELOOP: i32 = 62;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn info(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let info = root.path().join("pkg-1.dist-info");
        fs::create_dir(&info).unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        (root, info)
    }

    #[test]
    fn an_empty_metadata_counts_as_missing() {
        let (_root, info) = info(&[
            ("pkg-1.dist-info/METADATA", b""),
            ("pkg-1.dist-info/PKG-INFO", b"Name: x\n"),
        ]);
        assert_eq!(header(Place::at(&info), "name", true), Known(Some("x".into())));
    }

    #[test]
    fn a_bad_byte_in_the_body_is_odd_when_strict_and_no_matter_when_mended() {
        let (_root, info) = info(&[("pkg-1.dist-info/METADATA", b"Name: x\nVersion: 2\n\nJos\xe9\n")]);
        assert_eq!(header(Place::at(&info), "Version", true), Odd);
        assert_eq!(header(Place::at(&info), "Version", false), Known(Some("2".into())));
    }

    #[test]
    fn a_header_block_longer_than_the_head_is_read_to_its_end() {
        let mut text = b"Name: x\n".to_vec();
        for number in 0..20_000 {
            text.extend_from_slice(format!("Classifier: c{number}\n").as_bytes());
        }
        text.extend_from_slice(b"Version: 7\n\nbody\n");
        let (_root, info) = info(&[("pkg-1.dist-info/METADATA", &text)]);
        assert_eq!(header(Place::at(&info), "Version", false), Known(Some("7".into())));
    }

    #[test]
    fn only_rows_whose_file_exists_are_kept_if_asked() {
        let record = b"pkg/a.py,sha256=x,1\npkg/b.py,,\npkg/sub/c.py,,\nd.py,,\n../x,,\n";
        let (root, info) = info(&[
            ("pkg-1.dist-info/RECORD", record),
            ("pkg/a.py", b""),
            ("pkg/sub/c.py", b""),
        ]);
        let names = |exists| match record_names(&info, root.path().as_os_str(), exists) {
            Known(Some(names)) => names,
            other => panic!("{other:?}"),
        };
        assert_eq!(names(false).len(), 5);
        assert_eq!(names(true), ["pkg/a.py", "pkg/sub/c.py"]);
    }

    fn record_names(info: &Path, root: &OsStr, exists: bool) -> Answer<Option<Vec<String>>> {
        match record(info, root, exists) {
            Known(rows) => Known(rows.map(|rows| rows.into_iter().map(|row| row.0).collect())),
            Odd => Odd,
        }
    }

    #[test]
    fn an_older_list_is_left_to_the_interpreter() {
        let (root, info) = info(&[("pkg-1.dist-info/SOURCES.txt", b"pkg/a.py\n")]);
        let rules = Rules {
            generation: 13,
            suffixes: &[".py"],
            mended: false,
        };
        let folder = Folder::open(root.path().as_os_str()).unwrap();
        assert_eq!(top_level(Place::at(&info), Some(&folder), rules), Odd);
    }
}
