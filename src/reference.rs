//! What an entry point refers to: `module:attr [extras]` in, its parts or a verdict out.
//!
//! Two grammars: what `importlib.metadata` accepts, and what the packaging specification asks for.
//! Outside ASCII, `\w` is approximated by `char::is_alphanumeric`: that also admits combining vowel
//! signs and enclosed letters, and its Unicode tables may be newer than the interpreter's. Where
//! exactness counts, the caller gives non-ASCII values to the interpreter's own `re`.

use memchr::{memchr, memrchr};

use crate::python_text::is_blank;

/// The parts of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The module, dotted.
    pub module: &'a str,
    /// The attribute, dotted, if there is one.
    pub attr: Option<&'a str>,
    /// The words between the brackets.
    pub extras: Vec<&'a str>,
}

/// Takes a value apart as `EntryPoint.pattern` does with `match`; `None` where that finds no match.
///
/// The character classes in a row never overlap, so no backtracking is needed: each is taken whole.
pub fn parse_compatible(value: &str) -> Option<Reference<'_>> {
    let (module, rest) = take_dotted(value)?;
    let mut rest = rest.trim_start_matches(is_blank);
    let mut attr = None;
    if let Some(after) = rest.strip_prefix(':') {
        let (found, after) = take_dotted(after.trim_start_matches(is_blank))?;
        attr = Some(found);
        rest = after.trim_start_matches(is_blank);
    }
    let mut extras = "";
    if rest.starts_with('[') {
        // `.` does not match a newline, and the last bracket of the line closes.
        let line_end = memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        let close = memrchr(b']', &rest.as_bytes()[..line_end])?;
        extras = &rest[..close];
        rest = rest[close + 1..].trim_start_matches(is_blank);
    }
    rest.is_empty().then(|| Reference {
        module,
        attr,
        extras: words(extras),
    })
}

fn is_word(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

fn take_dotted(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start_matches(|letter| letter == '.' || is_word(letter));
    let taken = text.len() - rest.len();
    (taken > 0).then(|| text.split_at(taken))
}

fn words(text: &str) -> Vec<&str> {
    text.split(|letter| !is_word(letter))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Whether a value follows the packaging specification: dotted identifiers, optionally a colon and
/// dotted identifiers, optionally extras in brackets, with blanks only where the specification has them.
pub fn is_strict(value: &str) -> bool {
    let value = value.trim_end_matches(BLANKS);
    let object = match value.strip_suffix(']') {
        None => value,
        Some(open) => match open.split_once('[') {
            Some((object, extras)) if are_extras(extras) => object.trim_end_matches(BLANKS),
            _ => return false,
        },
    };
    match object.split_once(':') {
        None => is_dotted(object),
        Some((module, attr)) => {
            is_dotted(module.trim_end_matches(BLANKS)) && is_dotted(attr.trim_start_matches(BLANKS))
        }
    }
}

const BLANKS: [char; 2] = [' ', '\t'];

fn is_dotted(text: &str) -> bool {
    text.split('.').all(|part| {
        let mut letters = part.chars();
        letters
            .next()
            .is_some_and(|first| first == '_' || first.is_alphabetic())
            && letters.all(is_word)
    })
}

/// Names of extras as the specification of names has them, separated by commas; there may be none.
fn are_extras(text: &str) -> bool {
    let is_name = |name: &str| {
        let bytes = name.as_bytes();
        bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    };
    let text = text.trim_matches(BLANKS);
    text.is_empty() || text.split(',').all(|name| is_name(name.trim_matches(BLANKS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(value: &str) -> Option<(&str, Option<&str>, Vec<&str>)> {
        parse_compatible(value).map(|found| (found.module, found.attr, found.extras))
    }

    #[test]
    fn what_importlib_metadata_matches_is_taken_apart() {
        assert_eq!(parts("a : b"), Some(("a", Some("b"), vec![])));
        assert_eq!(parts("a.b:c.d[x]"), Some(("a.b", Some("c.d"), vec!["x"])));
        assert_eq!(parts("a [x]"), Some(("a", None, vec!["x"])));
        assert_eq!(parts("a:b [x] [y]"), Some(("a", Some("b"), vec!["x", "y"])));
        assert_eq!(
            parts("a:b [x-y, z>=1]"),
            Some(("a", Some("b"), vec!["x", "y", "z", "1"]))
        );
        for value in ["a ", "a:b\n", "a..b", ".a", "a:.b", "1a", "é:ü", "a[x]\n\n", "a\n[x]"] {
            assert!(parts(value).is_some(), "{value:?}");
        }
    }

    #[test]
    fn what_importlib_metadata_rejects_has_no_parts() {
        for value in [
            "a-b",
            " a",
            "",
            "a:",
            ":b",
            "a:b:c",
            "a:b [x",
            "a:b#c",
            "a [x] b",
            "a [x\n]",
            "a\nb",
            "a [x\n] [y]",
        ] {
            assert_eq!(parts(value), None, "{value:?}");
        }
    }

    #[test]
    fn the_specification_is_stricter() {
        for value in ["a", "a.b", "a:b", "a.b : c.d", "a:b [x, y-z.1]", "_a1:_b [x] ", "a []"] {
            assert!(is_strict(value), "{value:?}");
        }
        for value in [
            "",
            "1a",
            "a..b",
            ".a",
            "a:",
            ":b",
            "a:.b",
            "a b",
            "a:b:c",
            "a [x] [y]",
            "a [x,]",
            "a [-x]",
            " a",
            "a-b",
            "a [x",
            "a x]",
            "a\n",
        ] {
            assert!(!is_strict(value), "{value:?}");
        }
    }

    #[test]
    fn whatever_is_strict_is_compatible() {
        for value in ["a", "a.b : c.d", "a:b [x, y-z.1]", "_a1:_b [x] "] {
            assert!(is_strict(value) && parts(value).is_some(), "{value:?}");
        }
    }
}
