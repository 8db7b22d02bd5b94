//! `entry_points.txt`: text in, entry points with line numbers and faults out; never an error.
//!
//! The grammar is that of `importlib.metadata.Sectioned`, mended: a line without `=` and a byte
//! order mark are skipped and reported. Knows nothing of files and distributions.

use memchr::memchr;

use crate::diagnostic::{Code, Fault, add_fault, excerpt};
use crate::python_text::{self, Line};
use crate::reference;

/// A piece of the text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    section: u32,
    name: Span,
    value: Span,
    line: u32,
}

/// One entry point, borrowed from a [`Parsed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The group, as written between the brackets.
    pub group: &'a str,
    /// What stands before the first `=`.
    pub name: &'a str,
    /// What stands after it.
    pub value: &'a str,
    /// The line, from 1.
    pub line: u32,
}

/// The file is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The first byte that does not belong, from 0.
    pub offset: usize,
    /// Its line, from 1.
    pub line: u32,
}

/// A parsed file: one copy of its text, and where in it the entry points stand.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    text: String,
    sections: Vec<Span>,
    rows: Vec<Row>,
    faults: Vec<Fault>,
    standard: bool,
}

/// Parses a text.
pub fn parse(text: &str) -> Parsed {
    Parsed::from_text(text.to_owned())
}

impl Parsed {
    /// Parses the content of a file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, NotUtf8> {
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::from_text(text)),
            Err(error) => {
                let offset = error.utf8_error().valid_up_to();
                Err(NotUtf8 {
                    offset,
                    line: python_text::line_of(error.as_bytes(), offset),
                })
            }
        }
    }

    /// Parses a text and keeps it.
    pub fn from_text(text: String) -> Self {
        if u32::try_from(text.len()).is_err() {
            return Self {
                faults: vec![Fault {
                    code: Code::EntryPointsTooLarge,
                    line: 1,
                    message: format!("{} bytes are more than can be indexed", text.len()),
                }],
                ..Self::default()
            };
        }
        let mut parser = Parser::default();
        let plain = is_plain(&text);
        if plain {
            // Here blanks at the ends of a line can only be these two.
            parser.rows.reserve(memchr::memchr_iter(b'=', text.as_bytes()).count());
            parser.read(python_text::plain_lines(&text), str::trim_ascii);
        } else {
            let body = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let skipped = text.len() - body.len();
            if skipped > 0 {
                parser.fault(Code::EntryPointsByteOrderMark, 1, || {
                    "the file begins with a byte order mark, which was skipped".into()
                });
            }
            let lines = python_text::lines(body).map(|line| Line {
                start: line.start + skipped,
                ..line
            });
            parser.read(lines, python_text::strip);
        }
        Self {
            standard: plain && !parser.raises,
            sections: parser.sections,
            rows: parser.rows,
            faults: parser.faults,
            text,
        }
    }

    /// Whether `importlib.metadata` is known to give exactly these entries, without an error.
    pub fn standard(&self) -> bool {
        self.standard
    }

    /// How many entry points there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The entry points, in file order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.rows.iter().map(|row| self.entry(row))
    }

    /// The entry points of one group, in file order.
    pub fn entries_of<'a>(&'a self, group: &str) -> impl Iterator<Item = Entry<'a>> {
        // Rows stand by section, so a file without the group costs one comparison per section.
        let mut from = 0;
        self.sections
            .iter()
            .enumerate()
            .filter(move |&(_, &span)| self.slice(span) == group)
            .flat_map(move |(number, _)| {
                let rows = &self.rows[from..];
                let start = rows.partition_point(|row| (row.section as usize) < number);
                let end = rows.partition_point(|row| row.section as usize <= number);
                from += end;
                rows[start..end].iter().map(|row| self.entry(row))
            })
    }

    /// The groups, one for each header line: a group whose section is repeated comes repeatedly.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sections.iter().map(|&span| self.slice(span))
    }

    /// What is wrong in the file, in line order, references apart.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The entry points whose value refers to no object, judged when asked: listing needs no verdict.
    pub fn reference_faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for entry in self
            .entries()
            .filter(|entry| reference::parse_compatible(entry.value).is_none())
        {
            add_fault(&mut faults, || Fault {
                code: Code::EntryPointsBadReference,
                line: entry.line,
                message: format!(
                    "`{}` in [{}] has the value `{}`, which is not `module:attribute`",
                    excerpt(entry.name),
                    excerpt(entry.group),
                    excerpt(entry.value)
                ),
            });
        }
        faults
    }

    fn entry(&self, row: &Row) -> Entry<'_> {
        Entry {
            group: self
                .sections
                .get(row.section as usize)
                .map_or("", |&span| self.slice(span)),
            name: self.slice(row.name),
            value: self.slice(row.value),
            line: row.line,
        }
    }

    fn slice(&self, span: Span) -> &str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }
}

/// Whether nothing in the text can be read in two ways: ASCII without the rare separators.
fn is_plain(text: &str) -> bool {
    let odd = text.bytes().fold(0_u8, |odd, byte| {
        odd | u8::from(matches!(byte, 0x0b | 0x0c | 0x1c..=0x1f)) | (byte & 0x80)
    });
    odd == 0
}

#[derive(Default)]
struct Parser {
    sections: Vec<Span>,
    rows: Vec<Row>,
    faults: Vec<Fault>,
    raises: bool,
}

impl Parser {
    fn read<'a>(&mut self, lines: impl Iterator<Item = Line<'a>>, strip: impl Fn(&'a str) -> &'a str) {
        for line in lines {
            let text = strip(line.text);
            let start = line.start + offset_in(line.text, text);
            let bytes = text.as_bytes();
            match bytes.first() {
                None | Some(b'#') => {}
                Some(b'[') if bytes.last() == Some(&b']') => {
                    let group = text.trim_matches(['[', ']']);
                    self.sections.push(span(start + offset_in(text, group), group));
                }
                _ => self.entry(line.number, start, text, &strip),
            }
        }
    }

    fn entry<'a>(&mut self, line: u32, start: usize, text: &'a str, strip: &impl Fn(&'a str) -> &'a str) {
        let Some(section) = self.sections.len().checked_sub(1) else {
            self.fault(Code::EntryPointsOutsideSection, line, || {
                format!("`{}` stands before the first [group]", excerpt(text))
            });
            return;
        };
        let Some(at) = memchr(b'=', text.as_bytes()) else {
            self.raises = true;
            self.fault(Code::EntryPointsLineWithoutEquals, line, || {
                format!("`{}` has no `=`", excerpt(text))
            });
            return;
        };
        let name = strip(&text[..at]);
        let value = strip(&text[at + 1..]);
        if name.is_empty() {
            self.fault(Code::EntryPointsEmptyName, line, || {
                format!("`{}` has no name before the `=`", excerpt(text))
            });
        }
        self.rows.push(Row {
            section: narrow(section),
            name: span(start + offset_in(text, name), name),
            value: span(start + offset_in(text, value), value),
            line,
        });
    }

    fn fault(&mut self, code: Code, line: u32, message: impl FnOnce() -> String) {
        add_fault(&mut self.faults, || Fault {
            code,
            line,
            message: message(),
        });
    }
}

/// Where `part`, a slice of `whole`, begins in it.
fn offset_in(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

fn span(start: usize, text: &str) -> Span {
    Span {
        start: narrow(start),
        end: narrow(start + text.len()),
    }
}

/// Never cuts anything: texts that would need more were refused.
fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(parsed: &Parsed) -> Vec<(&str, &str, &str, u32)> {
        parsed
            .entries()
            .map(|entry| (entry.group, entry.name, entry.value, entry.line))
            .collect()
    }

    fn codes(parsed: &Parsed) -> Vec<(Code, u32)> {
        let faults = parsed.faults().iter();
        faults.map(|fault| (fault.code, fault.line)).collect()
    }

    #[test]
    fn entries_carry_group_name_value_and_line() {
        let parsed = parse("[g]\n# note\n a = b:c \n\n[h]\r\nx=y");
        assert_eq!(rows(&parsed), [("g", "a", "b:c", 3), ("h", "x", "y", 6)]);
        assert!(parsed.standard());
        assert!(parsed.faults().is_empty());
    }

    #[test]
    fn only_the_first_equals_sign_splits() {
        let parsed = parse("[g]\na = b = c\nd == e\n=\nf =");
        assert_eq!(
            rows(&parsed),
            [
                ("g", "a", "b = c", 2),
                ("g", "d", "= e", 3),
                ("g", "", "", 4),
                ("g", "f", "", 5)
            ]
        );
        assert_eq!(codes(&parsed), [(Code::EntryPointsEmptyName, 4)]);
        assert!(parsed.standard(), "the standard library accepts all of these");
    }

    #[test]
    fn brackets_make_a_header_only_at_both_ends() {
        let parsed = parse("[ g ]\na=1\n[[h]]\nb=2\n[]\nc=3\n[x] = y\n[g] = x [e]\nd=4");
        assert_eq!(
            rows(&parsed),
            [
                (" g ", "a", "1", 2),
                ("h", "b", "2", 4),
                ("", "c", "3", 6),
                ("", "[x]", "y", 7),
                ("g] = x [e", "d", "4", 9)
            ]
        );
    }

    #[test]
    fn a_line_without_equals_sign_is_skipped_and_reported() {
        let parsed = parse("[g]\nbroken\na = b\n; x\n");
        assert_eq!(rows(&parsed), [("g", "a", "b", 3)]);
        assert_eq!(
            codes(&parsed),
            [
                (Code::EntryPointsLineWithoutEquals, 2),
                (Code::EntryPointsLineWithoutEquals, 4)
            ]
        );
        assert!(!parsed.standard());
    }

    #[test]
    fn lines_before_the_first_header_are_reported_and_stay_standard() {
        let parsed = parse("stray\na = b\n[g\n[g]\nc = d");
        assert_eq!(rows(&parsed), [("g", "c", "d", 5)]);
        assert_eq!(codes(&parsed).len(), 3);
        assert!(parsed.standard());
    }

    #[test]
    fn a_byte_order_mark_hides_no_section() {
        let parsed = parse("\u{feff}[g]\na = b\u{a0}");
        assert_eq!(rows(&parsed), [("g", "a", "b", 2)]);
        assert_eq!(codes(&parsed), [(Code::EntryPointsByteOrderMark, 1)]);
        assert!(!parsed.standard());
    }

    #[test]
    fn rare_separators_break_lines_and_are_never_standard() {
        let parsed = parse("[g]\na = b\u{c}c = d\u{2028}é = f\ng = h");
        assert_eq!(
            rows(&parsed),
            [
                ("g", "a", "b", 2),
                ("g", "c", "d", 2),
                ("g", "é", "f", 2),
                ("g", "g", "h", 3)
            ]
        );
        assert!(!parsed.standard());
        assert_eq!(rows(&parse("[g]\na = b\u{1f}")), [("g", "a", "b", 2)]);
        assert!(!parse("[g]\na = b\u{1f}").standard());
    }

    #[test]
    fn duplicates_and_repeated_sections_are_kept() {
        let parsed = parse("[g]\na=1\na=2\n[h]\n[g]\na=3\n[g]\n");
        let of_g: Vec<_> = parsed.entries_of("g").map(|entry| entry.value).collect();
        assert_eq!(of_g, ["1", "2", "3"]);
        assert_eq!(parsed.entries_of("h").count(), 0);
        assert_eq!(parsed.entries_of("nowhere").count(), 0);
        assert_eq!(parsed.groups().collect::<Vec<_>>(), ["g", "h", "g", "g"]);
    }

    #[test]
    fn a_wrong_byte_is_named_by_offset_and_line() {
        let error = Parsed::from_bytes(b"[g]\na = \xff".to_vec()).unwrap_err();
        assert_eq!(error, NotUtf8 { offset: 8, line: 2 });
    }

    #[test]
    fn bad_references_are_found_on_demand_only() {
        let parsed = parse("[g]\na = in-valid\nb = m:f [x]\nc =\n");
        assert!(parsed.faults().is_empty());
        let lines: Vec<_> = parsed.reference_faults().iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn an_empty_text_has_no_entries() {
        assert!(parse("").is_empty() && parse("").standard());
        assert_eq!(parse("[g]\n").len(), 0);
    }
}
