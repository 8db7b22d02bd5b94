//! Project names: a spelling goes in, the form that decides "the same project?" comes out.
//!
//! The rules are those of `importlib.metadata.Prepared`. Knows nothing of files.
//! Lower-casing a non-ASCII name follows this build's Unicode tables, which may be newer than the
//! interpreter's: the strict flavour leaves such names to the interpreter.

use std::fmt;

/// A project name in comparable form: runs of `-`, `_`, `.` are one `_`, letters are lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NormalizedName(Box<str>);

impl NormalizedName {
    /// Normalizes any spelling, as `Prepared.normalize` does.
    pub fn new(name: &str) -> Self {
        if is_normalized(name.as_bytes()) {
            return Self(name.into());
        }
        let lowered = if name.is_ascii() {
            join_runs(name, |out, piece| {
                out.extend(piece.chars().map(|letter| letter.to_ascii_lowercase()));
            })
        } else {
            // Lower-cased as a whole: the final sigma looks at its neighbours, dashes included.
            join_runs(name, String::push_str).to_lowercase()
        };
        Self(lowered.replace('-', "_").into_boxed_str())
    }

    /// The normalized text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether no name is left, as for a folder called `.dist-info`.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for NormalizedName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Whether normalizing would change nothing; most folder names written today pass.
fn is_normalized(name: &[u8]) -> bool {
    let mut before = 0;
    for &byte in name {
        let fine = match byte {
            b'a'..=b'z' | b'0'..=b'9' => true,
            b'_' => before != b'_',
            _ => false,
        };
        if !fine {
            return false;
        }
        before = byte;
    }
    true
}

/// Replaces each run of separators by one dash and hands the pieces between them to `push`.
fn join_runs(name: &str, push: impl Fn(&mut String, &str)) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find(is_separator) {
        push(&mut out, &rest[..at]);
        out.push('-');
        rest = rest[at..].trim_start_matches(is_separator);
    }
    push(&mut out, rest);
    out
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '-' | '_' | '.')
}

/// Splits the stem of a metadata folder at the first dash: `demo-1.0` is `demo` and `1.0`.
///
/// Without a dash there is nothing to split off, and the name alone may be cut short or not.
pub fn split_folder_name(stem: &str) -> (&str, Option<&str>) {
    match stem.split_once('-') {
        Some((name, rest)) => (name, Some(rest)),
        None => (stem, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(name: &str) -> String {
        NormalizedName::new(name).to_string()
    }

    #[test]
    fn runs_of_separators_become_one_underscore() {
        assert_eq!(normal("Sample__Pkg-name.foo"), "sample_pkg_name_foo");
        assert_eq!(normal("a-_.b"), "a_b");
        assert_eq!(normal("--a--"), "_a_");
        assert_eq!(normal("a__b"), "a_b");
    }

    #[test]
    fn a_normalized_name_stays_as_it_is() {
        assert_eq!(normal("zope_interface2"), "zope_interface2");
        assert_eq!(normal(""), "");
    }

    #[test]
    fn letters_outside_ascii_are_lowered_in_full() {
        assert_eq!(normal("İX"), "i\u{307}x");
        assert_eq!(normal("ΣΣ"), "σς");
        assert_eq!(normal("É.b"), "é_b");
    }

    #[test]
    fn all_spellings_of_a_project_are_equal() {
        assert_eq!(NormalizedName::new("Foo.Bar"), NormalizedName::new("foo-bar"));
        assert_ne!(NormalizedName::new("foo"), NormalizedName::new("~foo"));
    }

    #[test]
    fn a_folder_name_is_cut_at_its_first_dash() {
        assert_eq!(split_folder_name("demo-1.0-py3"), ("demo", Some("1.0-py3")));
        assert_eq!(split_folder_name("demo"), ("demo", None));
        assert_eq!(split_folder_name("-demo"), ("", Some("demo")));
        assert_eq!(split_folder_name(""), ("", None));
    }
}
