//! The same questions through `std::fs`, for systems without the raw calls.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::{Content, Extent, Fault, Kind, Stamp};

/// A folder by its path.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn open(path: &OsStr) -> Result<Self, Fault> {
        let path = PathBuf::from(if path.is_empty() { OsStr::new(".") } else { path });
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => Ok(Self { path }),
            Ok(_) => Err(Fault::NotFolder),
            Err(error) if error.kind() == ErrorKind::NotADirectory => Err(Fault::NotFolder),
            Err(error) => Err(fault(&error)),
        }
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "only the raw form is asked there"))]
    pub fn open_unlisted(path: &OsStr) -> Result<Self, Fault> {
        Self::open(path)
    }

    /// See the Linux form.
    #[must_use]
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "only the raw form is asked there"))]
    pub fn here() -> Self {
        Self { path: PathBuf::new() }
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp(&self) -> Result<Stamp, Fault> {
        std::fs::metadata(&self.path)
            .map(|found| stamp_from(&found))
            .map_err(|error| fault(&error))
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn list(&self, mut visit: impl FnMut(&OsStr, Kind)) -> Result<(), Fault> {
        self.list_while(|name, kind| {
            visit(name, kind);
            true
        })
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn list_while(&self, mut visit: impl FnMut(&OsStr, Kind) -> bool) -> Result<(), Fault> {
        for entry in std::fs::read_dir(&self.path).map_err(|error| fault(&error))? {
            let entry = entry.map_err(|error| fault(&error))?;
            let kind = entry.file_type().map_or(Kind::Unknown, kind);
            if !visit(&entry.file_name(), kind) {
                break;
            }
        }
        Ok(())
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp_of(&self, name: &OsStr) -> Result<Stamp, Fault> {
        std::fs::metadata(self.path.join(name))
            .map(|found| stamp_from(&found))
            .map_err(|error| fault(&error))
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp_of_itself(&self, name: &OsStr) -> Result<Stamp, Fault> {
        std::fs::symlink_metadata(self.path.join(name))
            .map(|found| stamp_from(&found))
            .map_err(|error| fault(&error))
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn link_of(&self, name: &OsStr) -> Result<Option<OsString>, Fault> {
        super::link(&self.path.join(name)).map(|target| target.map(PathBuf::into_os_string))
    }

    /// See the Linux form.
    #[must_use]
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "only the raw form is asked there"))]
    #[expect(clippy::unused_self, reason = "the Linux form has to look")]
    pub fn is_sysfs(&self) -> bool {
        false
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn look_for(&self, name: &OsStr) -> Result<(), Fault> {
        self.stamp_of(name).map(drop)
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "only the raw form is asked there"))]
    pub fn stamp_of_c(&self, name: &CStr) -> Result<Stamp, Fault> {
        self.stamp_of(OsStr::new(name.to_str().map_err(|_| Fault::Absent)?))
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn read(&self, name: &OsStr, extent: Extent) -> Result<Content, Fault> {
        let path = self.path.join(name);
        // looked at before it is opened: opening a pipe would wait
        let stamp = stamp_from(&std::fs::metadata(&path).map_err(|error| fault(&error))?);
        read_file(&path, stamp, extent)
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn read_into<'b>(&self, name: &OsStr, buffer: &'b mut [u8], _enough: u64) -> Result<&'b [u8], Fault> {
        let path = self.path.join(name);
        let stamp = self.stamp_of_itself(name)?;
        let read = read_file(&path, stamp, Extent::Head(buffer.len()))?.bytes;
        let filled = &mut buffer[..read.len()];
        filled.copy_from_slice(&read);
        Ok(filled)
    }

    /// See the Linux form.
    ///
    /// # Errors
    /// The [`Fault`].
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "only the raw form is asked there"))]
    pub fn read_stamped(&self, name: &CStr, stamp: Stamp, extent: Extent) -> Result<Content, Fault> {
        let name = name.to_str().map_err(|_| Fault::Absent)?;
        read_file(&self.path.join(name), stamp, extent)
    }
}

fn read_file(path: &Path, stamp: Stamp, extent: Extent) -> Result<Content, Fault> {
    if let Some(fault) = stamp.unreadable() {
        return Err(fault);
    }
    let limit = match extent {
        Extent::Whole(limit) if stamp.size > limit => return Err(Fault::TooLarge(stamp.size)),
        Extent::Whole(limit) => limit.saturating_add(1),
        Extent::Head(length) => length as u64,
    };
    let file = File::open(path).map_err(|error| fault(&error))?;
    let mut bytes = Vec::new();
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| fault(&error))?;
    if matches!(extent, Extent::Whole(most) if bytes.len() as u64 > most) {
        return Err(Fault::TooLarge(bytes.len() as u64));
    }
    Ok(Content { stamp, bytes })
}

fn fault(error: &std::io::Error) -> Fault {
    Fault::from_error(error)
}

fn kind(file_type: std::fs::FileType) -> Kind {
    if file_type.is_dir() {
        Kind::Folder
    } else if file_type.is_file() {
        Kind::File
    } else if file_type.is_symlink() {
        Kind::Link
    } else {
        Kind::Special
    }
}

fn nanoseconds(time: std::io::Result<std::time::SystemTime>) -> i64 {
    time.ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .and_then(|elapsed| i64::try_from(elapsed.as_nanos()).ok())
        .unwrap_or(i64::MAX) // unknown: never settled
}

#[cfg(unix)]
fn stamp_from(found: &Metadata) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    Stamp {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        modified_ns: nanoseconds(found.modified()),
        changed_ns: found
            .ctime()
            .saturating_mul(1_000_000_000)
            .saturating_add(found.ctime_nsec()),
        kind: kind(found.file_type()),
    }
}

#[cfg(not(unix))]
fn stamp_from(found: &Metadata) -> Stamp {
    // no inode here: the time of creation tells a replaced file from a rewritten one
    Stamp {
        device: 0,
        inode: 0,
        size: found.len(),
        modified_ns: nanoseconds(found.modified()),
        changed_ns: nanoseconds(found.created().or_else(|_| found.modified())),
        kind: kind(found.file_type()),
    }
}
