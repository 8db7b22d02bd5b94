//! The header block of METADATA or PKG-INFO: bytes in, fields out.
//!
//! A value is what `importlib.metadata`'s `Message` gives for that key, dedented continuation lines
//! included. *Strict* answers `Odd` where that cannot be promised; *mended* always answers, looks at
//! the header block only and replaces bytes that are not UTF-8. Knows nothing of files.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Names and values, in file order.
pub type Fields<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// What is known of a header block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// These are the fields; the Description made from the body is not among them.
    Plain(Fields<'a>),
    /// Only the interpreter's own parser can tell. Never given by the mended reading.
    Odd,
}

/// What is known of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First<'a> {
    /// Its first value.
    Found(Cow<'a, str>),
    /// There is no such field.
    Absent,
    /// Only the interpreter's own parser can tell. Never given by the mended reading.
    Odd,
}

/// Reads all fields.
pub fn parse(bytes: &[u8], strict: bool) -> Outcome<'_> {
    let mut fields = Vec::new();
    if strict && std::str::from_utf8(bytes).is_err() {
        return Outcome::Odd;
    }
    let mut blocks = Blocks::new(bytes);
    while let Some(block) = blocks.next() {
        let Block::Field(field) = block else {
            if strict {
                return Outcome::Odd;
            }
            continue;
        };
        if strict && field.is_odd() {
            return Outcome::Odd;
        }
        fields.push((field.name, field.value()));
    }
    Outcome::Plain(fields)
}

/// Reads the first value of one field, whose name is compared without regard to case.
///
/// The mended reading stops there; the strict one still makes sure that the rest is not odd.
pub fn first<'a>(bytes: &'a [u8], field: &str, strict: bool) -> First<'a> {
    if strict && std::str::from_utf8(bytes).is_err() {
        return First::Odd;
    }
    let wanted = field.to_lowercase();
    let mut found = None;
    let mut blocks = Blocks::new(bytes);
    while let Some(block) = blocks.next() {
        match block {
            Block::Field(header) => {
                if strict && header.is_odd() {
                    return First::Odd;
                }
                if found.is_none() && header.name.eq_ignore_ascii_case(&wanted) {
                    found = Some(header.value());
                    if !strict {
                        break;
                    }
                }
            }
            Block::Envelope if strict => return First::Odd,
            Block::Envelope => {}
        }
    }
    if found.is_none() && wanted == "description" {
        // The standard appends the body as the last field.
        let body = blocks.body();
        found = (!body.is_empty()).then(|| universal(body));
    }
    found.map_or(First::Absent, First::Found)
}

/// Splits the whole file as the email parser does: the fields before any dedent, and the body.
///
/// `None` (odd) also where that parser would note a defect, since a defect is part of its message.
pub fn message(bytes: &[u8]) -> Option<(Fields<'_>, Cow<'_, str>)> {
    std::str::from_utf8(bytes).ok()?;
    let mut fields = Vec::new();
    let mut blocks = Blocks::new(bytes);
    while let Some(block) = blocks.next() {
        match block {
            Block::Field(field) if !field.is_odd() => fields.push((field.name, field.raw_value())),
            _ => return None,
        }
    }
    (!blocks.defective).then(|| (fields, universal(blocks.body())))
}

/// Whether the email parser may treat the whole message otherwise because of this field.
fn is_mime(name: &str) -> bool {
    let starts = |prefix: &str| {
        name.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    starts("content-") || starts("mime-")
}

/// A part of the header block.
enum Block<'a> {
    Field(Field<'a>),
    /// A line that begins with `From `, which stands at the top of a mailbox.
    Envelope,
}

struct Field<'a> {
    name: &'a str,
    /// From behind the colon to the end of the last continuation line, its line break left out.
    raw: &'a [u8],
}

impl<'a> Field<'a> {
    /// Whether releases of Python differ in what they make of it, or of the body because of it.
    fn is_odd(&self) -> bool {
        // Newer releases drop an empty first line when others follow, older ones keep its break.
        is_mime(self.name) || matches!(self.text().first(), Some(b'\n' | b'\r'))
    }

    fn text(&self) -> &'a [u8] {
        let blanks = self.raw.iter().take_while(|&&byte| is_blank(byte)).count();
        &self.raw[blanks..]
    }

    /// The value as the email parser keeps it. No line break stands at its end: a continuation line
    /// begins with a blank.
    fn raw_value(&self) -> Cow<'a, str> {
        universal(self.text())
    }

    /// The value as `importlib.metadata` shows it.
    fn value(&self) -> Cow<'a, str> {
        let text = self.raw_value();
        if text.contains('\n') {
            Cow::Owned(dedent(&text))
        } else {
            text
        }
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Decodes, replacing what is not UTF-8, and makes every line break a `\n`, as text files are read.
fn universal(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    if memchr(b'\r', text.as_bytes()).is_none() {
        return text;
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// `textwrap.dedent(' ' * 8 + text)` for a text of several lines.
fn dedent(text: &str) -> String {
    let shifted = format!("        {text}");
    let indent = |line: &'_ str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut margin: Option<&str> = None;
    for line in shifted.split('\n') {
        let indent = indent(line);
        if indent == line.len() {
            continue;
        }
        let common = match margin {
            None => indent,
            Some(margin) => {
                let pairs = margin.bytes().zip(line.bytes());
                pairs.take_while(|(left, right)| left == right).count()
            }
        };
        margin = Some(&line[..common.min(indent)]);
    }
    let margin = margin.map_or(0, str::len);
    let mut out = String::with_capacity(shifted.len());
    for (number, line) in shifted.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        if indent(line) < line.len() {
            out.push_str(line.get(margin..).unwrap_or_default());
        }
    }
    out
}

/// Walks over the header block.
struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    ended: bool,
    /// Something was met that the email parser calls a defect.
    defective: bool,
}

impl<'a> Blocks<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            ended: false,
            defective: false,
        }
    }

    fn next(&mut self) -> Option<Block<'a>> {
        while !self.ended {
            let (content, next) = self.peek();
            let start = self.at;
            match kind(content) {
                Kind::End => {
                    self.ended = true;
                    // An empty line parts header and body; any other line belongs to the body.
                    if content.is_empty() {
                        self.at = next;
                    } else {
                        self.defective = true;
                    }
                }
                // Nothing to continue, or no name: the standard passes over both.
                Kind::Continuation => {
                    self.defective = true;
                    self.advance(next);
                }
                Kind::Nameless => {
                    self.defective = true;
                    self.advance(next);
                    self.continuation(next);
                }
                Kind::Envelope => {
                    self.advance(next);
                    return Some(Block::Envelope);
                }
                Kind::Named(colon) => {
                    self.advance(next);
                    let end = self.continuation(start + content.len());
                    let name = std::str::from_utf8(&content[..colon]).unwrap_or_default();
                    let raw = self.bytes.get(start + colon + 1..end).unwrap_or_default();
                    return Some(Block::Field(Field { name, raw }));
                }
            }
        }
        None
    }

    /// Takes the continuation lines at hand and tells where the last one ends.
    fn continuation(&mut self, mut end: usize) -> usize {
        while self.bytes.get(self.at).is_some_and(|&byte| is_blank(byte)) {
            let (content, next) = self.peek();
            end = self.at + content.len();
            self.advance(next);
        }
        end
    }

    /// The line at hand without its break, and where the next one begins.
    fn peek(&self) -> (&'a [u8], usize) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match memchr2(b'\n', b'\r', rest) {
            None => (rest, self.bytes.len()),
            Some(end) => {
                let pair = rest[end] == b'\r' && rest.get(end + 1) == Some(&b'\n');
                (&rest[..end], self.at + end + 1 + usize::from(pair))
            }
        }
    }

    fn advance(&mut self, next: usize) {
        self.at = next;
    }

    /// What follows the header block, once that has been walked to its end.
    fn body(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

enum Kind {
    /// A field whose name ends here.
    Named(usize),
    /// A colon without a name.
    Nameless,
    Continuation,
    Envelope,
    End,
}

/// Judges a line as the email parser's `headerRE` does.
fn kind(line: &[u8]) -> Kind {
    match line.first() {
        None => return Kind::End,
        Some(&byte) if is_blank(byte) => return Kind::Continuation,
        _ => {}
    }
    if line.starts_with(b"From ") {
        return Kind::Envelope;
    }
    match line.iter().position(|byte| !matches!(byte, 0x21..=0x39 | 0x3b..=0x7e)) {
        Some(0) if line[0] == b':' => Kind::Nameless,
        Some(at) if line[at] == b':' => Kind::Named(at),
        _ => Kind::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &[u8]) -> Vec<(String, String)> {
        match parse(text, true) {
            Outcome::Plain(fields) => fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into_owned()))
                .collect(),
            Outcome::Odd => vec![("odd".to_owned(), String::new())],
        }
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn fields_come_in_file_order_without_the_body() {
        assert_eq!(
            fields(b"Name: demo\nVersion:1.0 \nLicense:\n\nX: body"),
            pairs(&[("Name", "demo"), ("Version", "1.0 "), ("License", "")])
        );
        assert_eq!(fields(b""), []);
        assert_eq!(fields(b"\nName: body"), []);
    }

    #[test]
    fn every_kind_of_line_break_ends_a_field() {
        assert_eq!(
            fields(b"A: 1\r\nB: 2\rC: 3\r\n\r\nD: 4"),
            pairs(&[("A", "1"), ("B", "2"), ("C", "3")])
        );
    }

    #[test]
    fn continuation_lines_are_joined_and_dedented() {
        assert_eq!(
            fields(b"A: one\n        two\n          three\n \nB: x\r\n y\r\nC: x\n\t\n"),
            pairs(&[("A", "one\ntwo\n  three\n"), ("B", "       x\ny"), ("C", "x\n")])
        );
    }

    #[test]
    fn a_line_that_is_no_header_starts_the_body() {
        assert_eq!(fields(b"A: 1\nno header\nB: 2\n"), pairs(&[("A", "1")]));
        assert_eq!(fields("A: 1\nÜ: 2\nB: 3\n".as_bytes()), pairs(&[("A", "1")]));
        assert_eq!(fields("\u{feff}A: 1\n".as_bytes()), []);
    }

    #[test]
    fn nameless_and_orphaned_lines_are_passed_over() {
        assert_eq!(fields(b" x\nA: 1\n: y\n z\nB: 2\n"), pairs(&[("A", "1"), ("B", "2")]));
    }

    #[test]
    fn what_the_email_parser_may_treat_otherwise_is_odd() {
        for text in [
            &b"From me\nA: 1\n"[..],
            b"A: 1\nFrom me\n",
            b"A: 1\nContent-Type: text/plain\n",
            b"A:\n two\n",
            b"A: \r\n \r\n",
            b"content-transfer-encoding: base64\n",
            b"MIME-Version: 1.0\n",
            b"A: \xff\n",
            b"A: 1\n\n\xff",
        ] {
            assert_eq!(parse(text, true), Outcome::Odd);
            assert_eq!(first(text, "A", true), First::Odd);
            assert!(matches!(parse(text, false), Outcome::Plain(_)));
        }
    }

    #[test]
    fn wrong_bytes_are_replaced_in_the_mended_reading() {
        let Outcome::Plain(fields) = parse(b"A: 1\nB: x\n \xe9\nC: \xff\n\n\xff", false) else {
            panic!("odd");
        };
        assert_eq!(fields[2], ("C", Cow::Borrowed("\u{fffd}")));
    }

    #[test]
    fn the_first_of_several_values_is_found_in_any_case() {
        let text = b"a: 1\nName: x\nNAME: y\n\nbody\r\ntext";
        assert_eq!(first(text, "name", true), First::Found("x".into()));
        assert_eq!(first(text, "nAmE", false), First::Found("x".into()));
        assert_eq!(first(text, "Missing", true), First::Absent);
    }

    #[test]
    fn the_body_is_the_description_unless_a_field_is() {
        assert_eq!(
            first(b"A: 1\n\nx\r\ny", "Description", true),
            First::Found("x\ny".into())
        );
        assert_eq!(first(b"A: 1\nx y", "description", true), First::Found("x y".into()));
        assert_eq!(
            first(b"Description: d\n\nx", "description", true),
            First::Found("d".into())
        );
        assert_eq!(first(b"A: 1\n\n", "description", true), First::Absent);
    }

    #[test]
    fn a_message_has_its_fields_undedented_and_its_body() {
        let (fields, body) = message(b"A: x\r\n        y\r\nB: z\r\n\r\nbody\r\n").unwrap();
        assert_eq!(fields, [("A", "x\n        y".into()), ("B", "z".into())]);
        assert_eq!(body, "body\n");
        assert_eq!(message(b"A: x").unwrap().1, "");
    }

    #[test]
    fn a_message_with_a_defect_is_odd() {
        for text in [
            &b" x\nA: 1\n"[..],
            b"A: 1\n: x\n",
            b"A: 1\nbody\n",
            b"A:\n x\n",
            b"From x\n",
            b"Content-Type: x\n",
            b"A: 1\n\n\xff",
        ] {
            assert_eq!(message(text), None);
        }
    }
}
