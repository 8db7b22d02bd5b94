//! What can be wrong on a path, and what its owner can do about it: one table of codes.
//!
//! A code's slug is public and never changes its meaning. Knows nothing of how a fault is found.

use std::fmt;
use std::path::PathBuf;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something that was asked for is lost.
    Error,
    /// The answer is complete but may not be the wanted one.
    Warning,
    /// Worth knowing, nothing to do.
    Note,
}

impl Severity {
    /// The word shown to people and used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Makes the enumeration and its table from the same rows, so that they cannot drift apart.
macro_rules! codes {
    ($($name:ident, $slug:literal, $severity:ident, $title:literal, $advice:literal;)+) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $name,)+
        }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            const fn row(self) -> (&'static str, Severity, &'static str, &'static str) {
                match self {
                    $(Self::$name => ($slug, Severity::$severity, $title, $advice),)+
                }
            }
        }
    };
}

codes! {
    EntryPointsLineWithoutEquals, "entry-points-line-without-equals", Error,
        "A line of `entry_points.txt` has no `=` and was skipped",
        "Ask the package's author to write it as `name = module:attribute`; the standard library fails on this file.";
    EntryPointsNotUtf8, "entry-points-not-utf8", Error,
        "`entry_points.txt` is not UTF-8 and was left out",
        "Save the file as UTF-8, or reinstall the package.";
    EntryPointsByteOrderMark, "entry-points-byte-order-mark", Warning,
        "`entry_points.txt` begins with a byte order mark, which was skipped",
        "Save the file as UTF-8 without a mark; the standard library loses the first section of this file.";
    EntryPointsTooLarge, "entry-points-too-large", Error,
        "`entry_points.txt` is too large and was left out",
        "Look at what has been written into the file, and reinstall the package.";
    EntryPointsUnreadable, "entry-points-unreadable", Error,
        "`entry_points.txt` could not be read",
        "Check the permissions of the file and of the folders above it.";
    EntryPointsNotAFile, "entry-points-not-a-file", Warning,
        "`entry_points.txt` is not a regular file and was left out",
        "Reinstall the package.";
    EntryPointsEmptyName, "entry-points-empty-name", Warning,
        "An entry point has an empty name",
        "Ask the package's author to name it: `name = module:attribute`.";
    EntryPointsBadReference, "entry-points-bad-reference", Warning,
        "An entry point does not refer to an object, so loading it will fail",
        "Ask the package's author to write it as `name = module:attribute`.";
    EntryPointsOutsideSection, "entry-points-outside-section", Warning,
        "A line of `entry_points.txt` stands before the first section and belongs to no group",
        "Ask the package's author to put a `[group]` line above it.";
    MetadataMissing, "metadata-missing", Warning,
        "A metadata folder has neither METADATA nor PKG-INFO",
        "It is probably the remains of an uninstall: remove the folder, or reinstall the package.";
    MetadataNotUtf8, "metadata-not-utf8", Warning,
        "The package's metadata is not UTF-8; the bytes in question were replaced",
        "Reinstall the package or ask its author to write UTF-8; the standard library fails on this file.";
    MetadataTooLarge, "metadata-too-large", Error,
        "The package's metadata is too large and was left out",
        "Look at what has been written into the file, and reinstall the package.";
    MetadataUnreadable, "metadata-unreadable", Error,
        "The package's metadata could not be read",
        "Check the permissions of the file and of the folders above it.";
    MetadataWithoutName, "metadata-without-name", Error,
        "The package's metadata names no project",
        "Reinstall the package.";
    MetadataWithoutVersion, "metadata-without-version", Warning,
        "The package's metadata names no version",
        "Reinstall the package.";
    RecordNotUtf8, "record-not-utf8", Error,
        "The list of the package's files is not UTF-8; the bytes in question were replaced",
        "Reinstall the package.";
    RecordMalformed, "record-malformed", Warning,
        "A row in the list of the package's files is malformed",
        "Reinstall the package; the standard library fails on this file.";
    RecordTooLarge, "record-too-large", Error,
        "The list of the package's files is too large and was left out",
        "Look at what has been written into the file, and reinstall the package.";
    RecordUnreadable, "record-unreadable", Error,
        "The list of the package's files could not be read",
        "Check the permissions of the file and of the folders above it.";
    DirectUrlMalformed, "direct-url-malformed", Warning,
        "`direct_url.json` cannot be read, so where the package came from is unknown",
        "Reinstall the package; the standard library fails on this file.";
    FolderNameless, "folder-nameless", Warning,
        "A metadata folder has no name in front of its suffix and was ignored",
        "Remove the folder; the standard library fails on it.";
    FolderInterruptedUninstall, "folder-interrupted-uninstall", Warning,
        "A metadata folder is the remains of an interrupted uninstall and was ignored",
        "Remove the folders whose names begin with `~` or `-`.";
    FolderDanglingLink, "folder-dangling-link", Warning,
        "A metadata folder is a link to nowhere",
        "Remove the link, or reinstall the package.";
    DistributionShadowed, "distribution-shadowed", Note,
        "Another copy of this distribution stands earlier on the path and is used instead",
        "Nothing, if that is intended; otherwise uninstall one of the two or change the order of the path.";
    DistributionTwoVersions, "distribution-two-versions", Warning,
        "One folder holds several versions of a distribution; the newest is used",
        "Uninstall the distribution until none is left, then install it again.";
    DistributionLeftover, "distribution-leftover", Warning,
        "A metadata folder without metadata lies beside a valid copy, which is used instead",
        "Remove the folder.";
    PathEntryUnreadable, "path-entry-unreadable", Warning,
        "A folder of the path could not be listed",
        "Check its permissions, or take it off the path.";
    PathEntryNotAString, "path-entry-not-a-string", Error,
        "An entry of the path is not a string and was ignored",
        "Put `str(entry)` on the path instead: the import system ignores anything but strings as well.";
    PathEntryDuplicate, "path-entry-duplicate", Note,
        "A folder stands on the path more than once",
        "Nothing; it was listed once.";
    FinderFailed, "finder-failed", Error,
        "A finder on `sys.meta_path` failed, so what it would have found is missing",
        "See the cause, and report it to the finder's author.";
    DistributionFailed, "distribution-failed", Error,
        "A distribution supplied by a foreign finder failed and was left out",
        "See the cause, and report it to the author of the finder that supplied it.";
    ModuleMissing, "module-missing", Error,
        "An entry point refers to a module that cannot be found",
        "Reinstall the package, and install the extras that the entry point needs.";
    ModuleUnchecked, "module-unchecked", Note,
        "Only importing could tell whether an entry point's module exists",
        "Nothing to do: an import hook, or the package itself, decides when it is imported.";
    EditableStale, "editable-stale", Error,
        "An editable install points at a folder that is gone",
        "Install the project again from where it is now, or uninstall it.";
    PthExecutesCode, "pth-executes-code", Note,
        "A .pth file runs code at every start of the interpreter",
        "Make sure that you know the package it belongs to.";
    PthFolderMissing, "pth-folder-missing", Warning,
        "A .pth file adds a folder to the path that is gone",
        "Put the folder back, or delete the line.";
    EntryPointNameCollision, "entry-point-name-collision", Warning,
        "Two distributions offer an entry point of the same name in the same group",
        "Uninstall one of them, or choose by distribution.";
    EggLink, "egg-link", Note,
        "An .egg-link was found, which neither the standard library nor this package follows",
        "Install the project with `pip install -e` of a recent pip, if its plugins are missing.";
}

impl Code {
    /// The stable name, in kebab-case.
    pub const fn slug(self) -> &'static str {
        self.row().0
    }

    /// How much it matters.
    pub const fn severity(self) -> Severity {
        self.row().1
    }

    /// What it is, in one line.
    pub const fn title(self) -> &'static str {
        self.row().2
    }

    /// The next step for the user.
    pub const fn advice(self) -> &'static str {
        self.row().3
    }

    /// The code of this slug.
    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.slug() == slug)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.slug())
    }
}

/// Faults of one file that are told one by one: a file of a million bad lines must not fill the memory.
pub const MOST_FAULTS: usize = 100;

/// Adds a fault; beyond the most that are told, a last one says that there are more.
pub fn add_fault(faults: &mut Vec<Fault>, fault: impl FnOnce() -> Fault) {
    if faults.len() < MOST_FAULTS {
        faults.push(fault());
    } else if faults.len() == MOST_FAULTS {
        let fault = fault();
        let message = format!("{}; what follows is not listed", fault.message);
        faults.push(Fault { message, ..fault });
    }
}

/// A fault inside one file; who knows the file makes a [`Diagnostic`] of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub code: Code,
    /// The line, from 1.
    pub line: u32,
    /// What is wrong there.
    pub message: String,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its kind.
    pub code: Code,
    /// The file or folder at fault.
    pub path: PathBuf,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// The distribution it belongs to, as far as that is known.
    pub distribution: Option<String>,
    /// What is wrong, in one sentence.
    pub message: String,
}

impl Diagnostic {
    /// A finding about a whole file or folder.
    pub fn new(code: Code, path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self {
            code,
            path: path.into(),
            line: None,
            distribution: None,
            message: message.into(),
        }
    }

    /// A finding from a fault in this file.
    pub fn from_fault(fault: Fault, path: impl Into<PathBuf>) -> Self {
        Self {
            line: Some(fault.line),
            ..Self::new(fault.code, path, fault.message)
        }
    }

    /// The same finding, ascribed to a distribution.
    #[must_use]
    pub fn of(mut self, distribution: impl Into<String>) -> Self {
        self.distribution = Some(distribution.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.code.severity(), self.path.display())?;
        if let Some(line) = self.line {
            write!(out, ":{line}")?;
        }
        write!(out, ": {} [{}]", self.message, self.code)
    }
}

/// A file's text for use inside a message: one line, no control characters, not too long.
pub fn excerpt(text: &str) -> String {
    const LIMIT: usize = 80;
    let mut out = String::new();
    for (count, letter) in text.chars().enumerate() {
        if count == LIMIT {
            out.push('…');
            break;
        }
        if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') {
            out.extend(letter.escape_unicode());
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn slugs_are_kebab_case_and_unique() {
        let mut seen = HashSet::new();
        for code in Code::ALL {
            let slug = code.slug();
            assert!(seen.insert(slug), "{slug} twice");
            assert!(
                slug.split('-').all(|word| !word.is_empty()
                    && word
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())),
                "{slug}"
            );
        }
    }

    #[test]
    fn a_code_is_found_by_its_slug() {
        for &code in Code::ALL {
            assert_eq!(Code::from_slug(code.slug()), Some(code));
        }
        assert_eq!(Code::from_slug("no-such-code"), None);
    }

    #[test]
    fn every_code_says_what_it_is_and_what_to_do() {
        for code in Code::ALL {
            assert!(!code.title().is_empty() && !code.title().contains('\n'), "{code}");
            assert!(!code.title().ends_with('.'), "{code}: a title is no sentence");
            assert!(code.advice().ends_with('.'), "{code}: advice is a sentence");
        }
    }

    #[test]
    fn a_finding_shows_severity_place_message_and_code() {
        let fault = Fault {
            code: Code::EntryPointsEmptyName,
            line: 3,
            message: "no name".into(),
        };
        let found = Diagnostic::from_fault(fault, "a/entry_points.txt").of("demo");
        assert_eq!(
            found.to_string(),
            "warning: a/entry_points.txt:3: no name [entry-points-empty-name]"
        );
        assert_eq!(found.distribution.as_deref(), Some("demo"));
    }

    #[test]
    fn an_excerpt_stays_one_short_line() {
        assert_eq!(excerpt("a\tb\u{2028}c"), "a\\u{9}b\\u{2028}c");
        assert_eq!(excerpt(&"x".repeat(200)).chars().count(), 81);
    }
}
