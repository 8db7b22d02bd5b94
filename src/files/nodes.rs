//! What stands at a path, where a link leads and whether this user may use it: nothing here is ever opened.

use std::fs::{FileType, Metadata};
use std::path::{Path, PathBuf};

use super::Fault;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link; only where links are not followed.
    Link,
    /// A character device, with its major and minor number.
    Device(u32, u32),
    /// Anything else, in a word.
    Other(&'static str),
}

/// Looks at a path; `follow` says whether at what its last link leads to.
///
/// # Errors
/// The [`Fault`].
pub fn look(path: &Path, follow: bool) -> Result<Thing, Fault> {
    let found = if follow {
        std::fs::metadata(path)
    } else {
        std::fs::symlink_metadata(path)
    };
    found
        .map(|found| thing(&found))
        .map_err(|error| Fault::from_error(&error))
}

/// The text of a symbolic link; None where something else stands.
///
/// # Errors
/// The [`Fault`].
pub fn link(path: &Path) -> Result<Option<PathBuf>, Fault> {
    match std::fs::read_link(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(Fault::from_error(&error)),
    }
}

/// The path with every link in it resolved.
///
/// # Errors
/// The [`Fault`].
pub fn resolved(path: &Path) -> Result<PathBuf, Fault> {
    std::fs::canonicalize(path).map_err(|error| Fault::from_error(&error))
}

/// Whether this process might open a path for reading and writing, by `access(2)` of the effective user.
///
/// A file system that is mounted read-only stands in no device's way. Elsewhere than on Linux nobody is refused.
///
/// # Errors
/// The [`Fault`].
#[cfg(target_os = "linux")]
pub fn usable(path: &Path) -> Result<(), Fault> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    match accessat(CWD, path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS) {
        Ok(()) | Err(rustix::io::Errno::ROFS) => Ok(()),
        Err(error) => Err(refusal(error)),
    }
}

/// A file's mode refuses with `EACCES`; `EPERM` comes from a device cgroup, which no group and no mode mends.
#[cfg(target_os = "linux")]
fn refusal(error: rustix::io::Errno) -> Fault {
    match error {
        rustix::io::Errno::PERM => Fault::Forbidden,
        other => Fault::from_error(&other.into()),
    }
}

/// See the Linux form.
///
/// # Errors
/// The [`Fault`].
#[cfg(not(target_os = "linux"))]
pub fn usable(path: &Path) -> Result<(), Fault> {
    look(path, true).map(drop)
}

fn thing(found: &Metadata) -> Thing {
    let kind = found.file_type();
    if kind.is_file() {
        Thing::File
    } else if kind.is_dir() {
        Thing::Folder
    } else if kind.is_symlink() {
        Thing::Link
    } else {
        special(kind, found)
    }
}

#[cfg(unix)]
fn special(kind: FileType, found: &Metadata) -> Thing {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_char_device() {
        let (major, minor) = numbers(found);
        Thing::Device(major, minor)
    } else if kind.is_fifo() {
        Thing::Other("pipe")
    } else if kind.is_socket() {
        Thing::Other("socket")
    } else {
        Thing::Other("block device")
    }
}

#[cfg(not(unix))]
fn special(_: FileType, _: &Metadata) -> Thing {
    Thing::Other("special file")
}

#[cfg(target_os = "linux")]
fn numbers(found: &Metadata) -> (u32, u32) {
    use std::os::linux::fs::MetadataExt;
    let number = found.st_rdev();
    (rustix::fs::major(number), rustix::fs::minor(number))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn numbers(_: &Metadata) -> (u32, u32) {
    (0, 0)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_and_a_link_followed_only_on_request() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let socket = root.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let other = root.path().join("link");
        std::os::unix::fs::symlink("file", &other).unwrap();
        assert_eq!(look(&file, false), Ok(Thing::File));
        assert_eq!(look(root.path(), false), Ok(Thing::Folder));
        assert_eq!(look(&socket, true), Ok(Thing::Other("socket")));
        assert_eq!(look(&other, false), Ok(Thing::Link));
        assert_eq!(look(&other, true), Ok(Thing::File));
        assert_eq!(link(&other), Ok(Some(PathBuf::from("file"))));
        assert_eq!(link(&file), Ok(None));
        assert_eq!(look(&root.path().join("absent"), true), Err(Fault::Absent));
        assert_eq!(resolved(&other).unwrap().file_name(), Some("file".as_ref()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_has_its_numbers() {
        assert_eq!(look(Path::new("/dev/null"), true), Ok(Thing::Device(1, 3)));
        assert_eq!(usable(Path::new("/dev/null")), Ok(()));
        assert_eq!(usable(Path::new("/dev/no such node")), Err(Fault::Absent));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_cgroup_refuses_otherwise_than_a_mode() {
        use rustix::io::Errno;
        assert_eq!(refusal(Errno::PERM), Fault::Forbidden);
        assert_eq!(refusal(Errno::ACCESS), Fault::Denied);
        assert_eq!(refusal(Errno::NOENT), Fault::Absent);
        assert_ne!(Fault::Forbidden.text(), Fault::Denied.text());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_this_user_may_not_write_is_not_usable() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join("node");
        std::fs::write(&node, b"").unwrap();
        std::fs::set_permissions(&node, std::fs::Permissions::from_mode(0o444)).unwrap();
        if std::fs::OpenOptions::new().write(true).open(&node).is_ok() {
            eprintln!("left out: this user may write everything");
            return;
        }
        assert_eq!(usable(&node), Err(Fault::Denied));
    }
}
