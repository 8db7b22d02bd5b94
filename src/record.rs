//! Lists of installed files: RECORD or SOURCES.txt in, rows out.
//!
//! A row is what `csv.reader(text.splitlines())` and `PackagePath` make of it. *Strict* reading gives
//! `None` (odd) where that cannot be promised or would raise; *mended* reading passes over bad rows
//! and reports them. Knows nothing of files: whether one exists is asked of the caller.

use std::borrow::Cow;

use memchr::memchr;

use crate::diagnostic::{Code, Fault, add_fault, excerpt};
use crate::python_text::{self, Line};

/// `csv` refuses longer fields; shorter lines cannot hold one.
pub(crate) const FIELD_LIMIT: usize = 131_072;

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
                add_fault(&mut faults, || reason.fault(&line));
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

/// Whether the text has only ordinary line breaks and no NUL.
pub(crate) fn is_plain(text: &str) -> bool {
    memchr(0, text.as_bytes()).is_none() && python_text::has_only_plain_breaks(text)
}

/// Why a line is no row.
pub(crate) enum Malformed<'a> {
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
    pub(crate) fn rest(&self) -> Option<Row<'a>> {
        match self {
            Self::Size(row, _) => Some(row.clone()),
            _ => None,
        }
    }
}

pub(crate) fn row(line: &str) -> Result<Row<'_>, Malformed<'_>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(path: &str, hash: Option<&str>, size: Option<u64>) -> Row<'static> {
        Row {
            path: Cow::Owned(path.to_owned()),
            hash: hash.map(|hash| Cow::Owned(hash.to_owned())),
            size,
        }
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
    }

    #[test]
    fn sources_are_lines_unless_quotes_would_change_them() {
        assert_eq!(sources("a,b\r\n\nc"), Some(vec!["a,b", "", "c"]));
        assert_eq!(sources("a\"b"), None);
        assert_eq!(sources("a\u{85}b"), None);
    }
}
