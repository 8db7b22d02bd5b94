//! One `sys.path` string in, what stands there out: a folder that we list, an archive that the
//! interpreter reads, nothing, or something that cannot be read.

use std::ffi::OsStr;

use crate::files::{self, Fault, Folder, Kind, Stamp};

/// What one `sys.path` string leads to.
#[derive(Debug)]
pub enum PathEntry {
    /// An open folder and its stamp, taken before anything in it is read.
    Directory(Folder, Stamp),
    /// Left to the interpreter's own machinery.
    Deferred(Deferral),
    /// Nothing is there; nothing to report either, every `sys.path` has such entries.
    Missing,
    /// Something is there that may not be listed.
    Unreadable(Fault),
}

/// Why an entry is left to the interpreter's own machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// A regular file, perhaps a zip.
    Archive,
    /// An `X.egg`, folder or file, whose metadata stands in `EGG-INFO`.
    Egg,
}

impl Deferral {
    /// The word for it in the Python interface.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Egg => "egg",
        }
    }
}

impl PathEntry {
    /// Looks at one `sys.path` string.
    #[must_use]
    pub fn look(path: &OsStr) -> Self {
        if is_egg(path) {
            return Self::Deferred(Deferral::Egg);
        }
        match Folder::open(path) {
            Ok(folder) => match folder.stamp() {
                Ok(stamp) => Self::Directory(folder, stamp),
                Err(fault) => Self::Unreadable(fault),
            },
            Err(Fault::NotFolder) => match files::stamp(path.as_ref()) {
                Ok(Stamp { kind: Kind::File, .. }) => Self::Deferred(Deferral::Archive),
                _ => Self::Missing,
            },
            Err(Fault::Absent) => Self::Missing,
            Err(fault) => Self::Unreadable(fault),
        }
    }
}

/// Whether the last part of a path ends in `.egg`, in any case.
#[must_use]
pub fn is_egg(path: &OsStr) -> bool {
    let bytes = path.as_encoded_bytes();
    bytes.len() >= 4 && bytes[bytes.len() - 4..].eq_ignore_ascii_case(b".egg")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(path: &std::path::Path) -> &'static str {
        match PathEntry::look(path.as_os_str()) {
            PathEntry::Directory(..) => "directory",
            PathEntry::Deferred(deferral) => deferral.word(),
            PathEntry::Missing => "missing",
            PathEntry::Unreadable(_) => "unreadable",
        }
    }

    #[test]
    fn each_kind_of_entry_is_told_from_the_others() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::write(at("file.txt"), b"text").unwrap();
        std::fs::create_dir(at("Some-1.EGG")).unwrap();
        assert_eq!(word(root.path()), "directory");
        assert_eq!(word(&at("file.txt")), "archive");
        assert_eq!(word(&at("file.txt/below")), "missing");
        assert_eq!(word(&at("Some-1.EGG")), "egg");
        assert_eq!(word(&at("absent")), "missing");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(at("loop"), at("loop")).unwrap();
            assert_eq!(word(&at("loop")), "unreadable");
        }
    }

    #[test]
    fn the_empty_string_is_the_current_folder() {
        assert!(matches!(PathEntry::look(OsStr::new("")), PathEntry::Directory(..)));
    }
}
