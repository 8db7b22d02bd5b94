//! Listing and reading: what the operating system says of one folder and of the files in it.
//!
//! Paths go in; raw names, bytes and [`Stamp`]s come out. Knows nothing of distributions.
//! Linux uses raw system calls relative to an open folder; everything else takes the
//! same questions through `std::fs`.

use std::io::ErrorKind;
use std::path::Path;

#[cfg(target_os = "linux")]
mod linux;
mod nodes;
#[cfg(any(not(target_os = "linux"), test))]
mod portable;

#[cfg(target_os = "linux")]
pub use linux::Folder;
#[cfg(not(target_os = "linux"))]
pub use portable::Folder;

pub use nodes::{Thing, link, look, resolved, usable};

/// Nanoseconds that a stamp must have been at rest when read before it is trusted.
///
/// Covers every clock step of a file system (Linux before 6.13 ticks at 1-10 ms, FAT at 2 s):
/// two changes within one step leave the same stamp.
pub const SETTLED_NS: i64 = 2_000_000_000;

/// What identifies one state of a file or folder: a change shows in at least one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, in nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Time of the last change of the inode, in nanoseconds since the epoch; no program can set it back.
    pub changed_ns: i64,
    /// What kind of thing it is.
    pub kind: Kind,
}

impl Stamp {
    /// Whether a content read at `now_ns` can still be told from every later one by this stamp.
    #[must_use]
    pub fn settled(&self, now_ns: i64) -> bool {
        now_ns.saturating_sub(self.modified_ns.max(self.changed_ns)) > SETTLED_NS
    }

    /// Why what bears this stamp is never read, if so.
    #[must_use]
    pub fn unreadable(&self) -> Option<Fault> {
        match self.kind {
            Kind::File => None,
            Kind::Folder => Some(Fault::Folder),
            _ => Some(Fault::Special),
        }
    }

    /// Whether two stamps are of the same file or folder, whatever its state.
    #[must_use]
    pub fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode) && self.inode != 0
    }
}

/// The kind of a directory entry, as far as the listing tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A pipe, a socket, a device.
    Special,
    /// The file system does not say in a listing.
    Unknown,
}

/// Why a file was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not exist.
    Absent,
    /// Permission was refused.
    Denied,
    /// The operation itself is refused, whatever the permissions; given by [`usable`] alone.
    Forbidden,
    /// It is a folder.
    Folder,
    /// It is not a folder, nor is there one on the way to it; given by [`Folder::open`] alone.
    NotFolder,
    /// It is a pipe, a socket or a device, which is never read.
    Special,
    /// It is larger than the limit; its size in bytes.
    TooLarge(u64),
    /// Any other error, by its number.
    Other(i32),
}

impl Fault {
    fn from_error(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput => Self::Absent,
            ErrorKind::PermissionDenied => Self::Denied,
            ErrorKind::IsADirectory => Self::Folder,
            _ => Self::Other(error.raw_os_error().unwrap_or(0)),
        }
    }

    /// What to tell a person.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Absent => "it does not exist".into(),
            Self::Denied => "permission denied".into(),
            Self::Forbidden => "operation not permitted".into(),
            Self::Folder => "it is a folder".into(),
            Self::NotFolder => "it is not a folder".into(),
            Self::Special => "it is a pipe, a socket or a device".into(),
            Self::TooLarge(size) => format!("it has {size} bytes"),
            Self::Other(code) => std::io::Error::from_raw_os_error(*code).to_string(),
        }
    }

    /// Whether `importlib.metadata` takes this for "no such file" (the errors that its `read_text` suppresses).
    #[must_use]
    pub fn standard_absent(&self) -> bool {
        matches!(self, Self::Absent | Self::Denied | Self::Folder)
    }
}

/// A file's bytes and the stamp it bore before they were read.
#[derive(Debug)]
pub struct Content {
    /// Taken before reading, so that a later change cannot hide behind it.
    pub stamp: Stamp,
    /// At most as many as were asked for.
    pub bytes: Vec<u8>,
}

/// How much of a file is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// All of it; more than this many bytes is [`Fault::TooLarge`].
    Whole(u64),
    /// The first bytes only, at most this many.
    Head(usize),
}

/// Now, in nanoseconds since the epoch.
#[must_use]
pub fn now_ns() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|elapsed| i64::try_from(elapsed.as_nanos()).ok())
        .unwrap_or(0)
}

/// Reads one file by its path. See [`Folder::read`].
///
/// # Errors
/// The [`Fault`] that kept it from being read.
pub fn read(path: &Path, extent: Extent) -> Result<Content, Fault> {
    Folder::here().read(path.as_os_str(), extent)
}

/// The stamp of the file that a path leads to, links followed.
///
/// # Errors
/// The [`Fault`] that kept it from being looked at.
pub fn stamp(path: &Path) -> Result<Stamp, Fault> {
    Folder::here().stamp_of(path.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{OsStr, OsString};

    fn sample() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("folder")).unwrap();
        std::fs::write(root.path().join("file"), b"0123456789").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("nowhere", root.path().join("link")).unwrap();
        root
    }

    #[test]
    fn both_ways_list_and_read_the_same() {
        let root = sample();
        let path = root.path().as_os_str();
        let raw = Folder::open(path).unwrap();
        let std = portable::Folder::open(path).unwrap();
        let mut one: Vec<(OsString, Kind)> = Vec::new();
        raw.list(|name, kind| one.push((name.to_owned(), kind))).unwrap();
        let mut two: Vec<(OsString, Kind)> = Vec::new();
        std.list(|name, kind| two.push((name.to_owned(), kind))).unwrap();
        assert_eq!(one, two);
        assert_eq!(one.len(), if cfg!(unix) { 3 } else { 2 });
        for name in ["file", "folder", "link", "absent", "file/below"] {
            let name = OsStr::new(name);
            assert_eq!(raw.stamp_of(name), std.stamp_of(name), "{}", name.display());
            assert_eq!(
                raw.stamp_of_itself(name),
                std.stamp_of_itself(name),
                "{}",
                name.display()
            );
            assert_eq!(raw.look_for(name), raw.stamp_of(name).map(drop), "{}", name.display());
            assert_eq!(raw.look_for(name), std.look_for(name), "{}", name.display());
            assert_eq!(raw.link_of(name), std.link_of(name), "{}", name.display());
            let (mut one, mut two) = ([0; 4], [0; 4]);
            let (a, b) = (raw.read_into(name, &mut one, 9), std.read_into(name, &mut two, 9));
            assert_eq!(a.as_ref().ok(), b.as_ref().ok(), "{}", name.display());
            assert_eq!(a.is_ok(), name == "file", "{}", name.display());
            for extent in [Extent::Whole(100), Extent::Whole(5), Extent::Head(4)] {
                let a = raw.read(name, extent).map(|content| (content.stamp, content.bytes));
                let b = std.read(name, extent).map(|content| (content.stamp, content.bytes));
                assert_eq!(a, b, "{} {extent:?}", name.display());
            }
        }
        assert_eq!(raw.stamp(), std.stamp());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reading_ends_where_the_buffer_or_the_file_does_or_when_there_is_enough() {
        let root = sample();
        let folder = Folder::open_unlisted(root.path().as_os_str()).unwrap();
        let mut buffer = [0; 16];
        let name = OsStr::new("file");
        for enough in [1, 10, u64::MAX] {
            assert_eq!(folder.read_into(name, &mut buffer, enough), Ok(&b"0123456789"[..]));
        }
        assert_eq!(folder.read_into(name, &mut buffer[..3], u64::MAX), Ok(&b"012"[..]));
        assert_eq!(
            folder.read_into(OsStr::new("folder"), &mut buffer, 1),
            Err(Fault::Folder)
        );
        assert!(folder.list(|_, _| ()).is_err(), "its children cannot be listed");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sysfs_is_told_from_other_file_systems() {
        let root = sample();
        assert!(!Folder::open(root.path().as_os_str()).unwrap().is_sysfs());
        assert!(!Folder::open(OsStr::new("/proc")).unwrap().is_sysfs());
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        if mounts.lines().any(|line| line.contains(" /sys sysfs ")) {
            assert!(Folder::open(OsStr::new("/sys/bus")).unwrap().is_sysfs());
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_of_any_length_is_told_whole() {
        let root = sample();
        for length in [1, 511, 512, 513, 4000] {
            let target = "x".repeat(length);
            let name = length.to_string();
            std::os::unix::fs::symlink(&target, root.path().join(&name)).unwrap();
            let folder = Folder::open(root.path().as_os_str()).unwrap();
            assert_eq!(folder.link_of(OsStr::new(&name)), Ok(Some(OsString::from(target))));
        }
    }

    #[test]
    fn a_file_over_the_limit_is_refused_with_its_size() {
        let root = sample();
        let fault = read(&root.path().join("file"), Extent::Whole(9)).unwrap_err();
        assert_eq!(fault, Fault::TooLarge(10));
    }

    #[test]
    fn a_head_is_cut_at_its_length() {
        let root = sample();
        let content = read(&root.path().join("file"), Extent::Head(4)).unwrap();
        assert_eq!(content.bytes, b"0123");
        assert_eq!(content.stamp.size, 10);
    }

    #[test]
    fn a_stamp_is_settled_only_after_the_clock_step() {
        let root = sample();
        let stamp = stamp(&root.path().join("file")).unwrap();
        assert!(!stamp.settled(now_ns()));
        assert!(stamp.settled(now_ns() + SETTLED_NS + 1_000_000));
        assert!(!stamp.settled(0), "a stamp of the future is never trusted");
    }

    #[test]
    fn a_folder_is_not_read() {
        let root = sample();
        assert_eq!(
            read(&root.path().join("folder"), Extent::Whole(9)).unwrap_err(),
            Fault::Folder
        );
    }
}
