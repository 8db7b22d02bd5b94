//! Python's idea of lines and blanks, which differs from Rust's: text in, lines and stripped text out.
//!
//! Knows nothing of what the lines mean. Line numbers are those an editor shows, so they count
//! `\n`, `\r\n` and `\r` only, although `str.splitlines` breaks at more characters.

use memchr::{memchr2, memmem};

/// Whether `str.isspace` holds: `White_Space`, and the four separators U+001C to U+001F.
pub fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{1c}'..='\u{1f}')
}

/// `str.strip()`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// Whether `\n`, `\r\n` and `\r` are the only line breaks that `str.splitlines` sees in this text.
pub fn has_only_plain_breaks(text: &str) -> bool {
    // One bit for each question and no branch, so that the compiler looks at many bytes at once.
    let found = text.bytes().fold(0_u8, |found, byte| {
        found | u8::from(matches!(byte, 0x0b | 0x0c | 0x1c..=0x1e)) | (u8::from(matches!(byte, 0xc2 | 0xe2)) << 1)
    });
    let marks = ["\u{85}", "\u{2028}", "\u{2029}"];
    let holds = |mark: &str| memmem::find(text.as_bytes(), mark.as_bytes()).is_some();
    // Only these two bytes can begin one of the marks.
    found == 0 || found == 2 && !marks.into_iter().any(holds)
}

/// One line of a text, without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The number an editor shows, from 1; it stays at the highest value a `u32` can hold.
    pub number: u32,
    /// Where the line begins, in bytes.
    pub start: usize,
    /// The line itself.
    pub text: &'a str,
}

/// The lines of `str.splitlines()`, numbered.
pub fn lines(text: &str) -> Lines<'_> {
    Lines {
        text,
        at: 0,
        number: 1,
        plain: has_only_plain_breaks(text),
    }
}

/// Lines broken at `\n`, `\r\n` and `\r` only: what `splitlines` gives when those are all there is.
pub fn plain_lines(text: &str) -> Lines<'_> {
    Lines {
        text,
        at: 0,
        number: 1,
        plain: true,
    }
}

/// Iterator made by [`lines`] and [`plain_lines`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: u32,
    plain: bool,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (end, next, counts) = if self.plain {
            plain_break(rest.as_bytes())
        } else {
            any_break(rest)
        };
        let line = Line {
            number: self.number,
            start: self.at,
            text: &rest[..end],
        };
        self.at += next;
        self.number = self.number.saturating_add(u32::from(counts));
        Some(line)
    }
}

/// Where the first line ends, where the next one begins, and whether an editor counts the break.
#[inline]
fn plain_break(rest: &[u8]) -> (usize, usize, bool) {
    match memchr2(b'\n', b'\r', rest) {
        None => (rest.len(), rest.len(), false),
        Some(at) if rest[at] == b'\r' && rest.get(at + 1) == Some(&b'\n') => (at, at + 2, true),
        Some(at) => (at, at + 1, true),
    }
}

fn any_break(rest: &str) -> (usize, usize, bool) {
    let is_break = |letter: char| {
        matches!(
            letter,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    match rest.char_indices().find(|&(_, letter)| is_break(letter)) {
        None => (rest.len(), rest.len(), false),
        Some((at, '\n' | '\r')) => plain_break_at(rest.as_bytes(), at),
        Some((at, letter)) => (at, at + letter.len_utf8(), false),
    }
}

fn plain_break_at(rest: &[u8], at: usize) -> (usize, usize, bool) {
    let pair = rest[at] == b'\r' && rest.get(at + 1) == Some(&b'\n');
    (at, at + 1 + usize::from(pair), true)
}

/// The number of the editor's line in which this byte stands.
pub fn line_of(bytes: &[u8], offset: usize) -> u32 {
    let mut number: u32 = 1;
    let mut at = 0;
    let before = &bytes[..offset.min(bytes.len())];
    while at < before.len() {
        let (_, next, counts) = plain_break(&before[at..]);
        at += next;
        number = number.saturating_add(u32::from(counts));
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(u32, &str)> {
        lines(text).map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn the_three_ordinary_breaks_end_a_line() {
        assert_eq!(
            split("a\nb\r\nc\rd\n\n"),
            [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "")]
        );
        assert_eq!(split(""), []);
        assert_eq!(split("a"), [(1, "a")]);
    }

    #[test]
    fn rare_breaks_end_a_line_that_an_editor_does_not_count() {
        assert_eq!(
            split("a\u{b}b\u{c}c\u{1c}d\u{1d}e\u{1e}f\u{85}g\u{2028}h\u{2029}i\nj"),
            [
                (1, "a"),
                (1, "b"),
                (1, "c"),
                (1, "d"),
                (1, "e"),
                (1, "f"),
                (1, "g"),
                (1, "h"),
                (1, "i"),
                (2, "j")
            ]
        );
        assert_eq!(split("a\u{1f}b"), [(1, "a\u{1f}b")]);
    }

    #[test]
    fn a_pair_of_return_and_newline_is_one_break_beside_rare_ones() {
        assert_eq!(split("é\u{c}\r\nb\r"), [(1, "é"), (1, ""), (2, "b")]);
    }

    #[test]
    fn letters_that_share_a_lead_byte_with_a_rare_break_are_plain() {
        assert!(has_only_plain_breaks("© – “q”"));
        assert!(!has_only_plain_breaks("©\u{85}"));
        assert!(!has_only_plain_breaks("–\u{2028}"));
        assert!(!has_only_plain_breaks("a\u{1e}"));
    }

    #[test]
    fn starts_point_at_the_lines() {
        let text = "ab\r\nc\u{2028}d";
        for line in lines(text) {
            assert!(text[line.start..].starts_with(line.text));
        }
    }

    #[test]
    fn blanks_are_those_of_python() {
        assert_eq!(strip("\u{1c}\u{1f}\u{a0}\u{3000} a b\t\u{85}"), "a b");
        assert_eq!(strip("\u{feff}a\u{200b}"), "\u{feff}a\u{200b}");
        assert_eq!(strip(" \t"), "");
    }

    #[test]
    fn an_offset_is_found_in_its_line() {
        assert_eq!(line_of(b"a\nb\xff", 3), 2);
        assert_eq!(line_of(b"a\r\nb\rc", 5), 3);
        assert_eq!(line_of(b"", 9), 1);
    }
}
