//! Raw system calls: `openat`, `getdents64`, `fstatat`, `read`, no path built twice, no buffered reader.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{self, Access, AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;

use super::{Content, Extent, Fault, Kind, Stamp};

/// Bytes for one `getdents64`: glibc's own choice.
const LISTING_BUFFER: usize = 32 * 1024;
/// First guess for a file whose size is not known or zero.
const SMALL_FILE: usize = 4096;
/// Longest path that is built on the stack.
const STACK_PATH: usize = 512;
/// What `fstatfs` calls sysfs.
const SYSFS: fs::FsWord = 0x6265_6572;

/// How a file is opened. NONBLOCK: opening a pipe that nobody writes to must not wait.
const READING: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// An open folder, relative to which names are listed, looked at and read.
#[derive(Debug)]
pub struct Folder {
    handle: Option<OwnedFd>,
}

impl Folder {
    /// Opens a folder; `""` is the current one, as everywhere on `sys.path`.
    ///
    /// # Errors
    /// The [`Fault`]; a file in place of a folder is [`Fault::NotFolder`].
    pub fn open(path: &OsStr) -> Result<Self, Fault> {
        Self::open_as(path, OFlags::RDONLY)
    }

    /// [`Folder::open`] of one whose names are known: it can be looked into and cannot be listed.
    ///
    /// # Errors
    /// As there.
    pub fn open_unlisted(path: &OsStr) -> Result<Self, Fault> {
        Self::open_as(path, OFlags::PATH)
    }

    fn open_as(path: &OsStr, access: OFlags) -> Result<Self, Fault> {
        let path = if path.is_empty() { OsStr::new(".") } else { path };
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match with_path(path, |path| fs::openat(CWD, path, flags, Mode::empty())) {
            Ok(handle) => Ok(Self { handle: Some(handle) }),
            Err(Errno::NOTDIR) => Err(Fault::NotFolder),
            Err(error) => Err(fault(error)),
        }
    }

    /// The folder that relative paths start from, not opened.
    #[must_use]
    pub fn here() -> Self {
        Self { handle: None }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.handle.as_ref().map_or(CWD, AsFd::as_fd)
    }

    /// The folder's own stamp.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp(&self) -> Result<Stamp, Fault> {
        match &self.handle {
            Some(handle) => Ok(stamp_from(&fs::fstat(handle).map_err(fault)?)),
            None => self.stamp_of(OsStr::new(".")),
        }
    }

    /// Calls `visit` for each child but `.` and `..`, in the order of the file system (that of `os.listdir`).
    ///
    /// # Errors
    /// The [`Fault`]; children seen before it were visited.
    pub fn list(&self, mut visit: impl FnMut(&OsStr, Kind)) -> Result<(), Fault> {
        self.list_while(|name, kind| {
            visit(name, kind);
            true
        })
    }

    /// [`Folder::list`] until `visit` says no.
    ///
    /// # Errors
    /// The [`Fault`]; children seen before it were visited.
    pub fn list_while(&self, mut visit: impl FnMut(&OsStr, Kind) -> bool) -> Result<(), Fault> {
        let mut buffer = [MaybeUninit::uninit(); LISTING_BUFFER];
        let mut listing = RawDir::new(self.fd(), &mut buffer);
        while let Some(entry) = listing.next() {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && !visit(OsStr::from_bytes(name), kind(entry.file_type())) {
                break;
            }
        }
        Ok(())
    }

    /// The stamp of a file below this folder, links followed.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp_of(&self, name: &OsStr) -> Result<Stamp, Fault> {
        with_path(name, |path| fs::statat(self.fd(), path, AtFlags::empty()))
            .map(|stat| stamp_from(&stat))
            .map_err(fault)
    }

    /// [`Folder::stamp_of`] of a link itself, where the last name is one.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp_of_itself(&self, name: &OsStr) -> Result<Stamp, Fault> {
        with_path(name, |path| fs::statat(self.fd(), path, AtFlags::SYMLINK_NOFOLLOW))
            .map(|stat| stamp_from(&stat))
            .map_err(fault)
    }

    /// What a link below this folder says; None where something else stands.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn link_of(&self, name: &OsStr) -> Result<Option<OsString>, Fault> {
        let mut room = [MaybeUninit::uninit(); STACK_PATH];
        let found = with_path(name, |path| {
            let (target, rest) = fs::readlinkat_raw(self.fd(), path, &mut room)?;
            if rest.is_empty() {
                return fs::readlinkat(self.fd(), path, Vec::new()).map(CString::into_bytes);
            }
            Ok(target.to_vec())
        });
        match found {
            Ok(target) => Ok(Some(OsString::from_vec(target))),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(fault(error)),
        }
    }

    /// Whether this is a folder of sysfs, where nothing but folders, regular files and links can stand, and one read
    /// gives all of a file.
    #[must_use]
    pub fn is_sysfs(&self) -> bool {
        fs::fstatfs(self.fd()).is_ok_and(|found| found.f_type == SYSFS)
    }

    /// Whether there is such a file, links followed, as [`Folder::stamp_of`] tells it: cheaper, since nothing is told of it.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn look_for(&self, name: &OsStr) -> Result<(), Fault> {
        // EACCES as `stat` sees it: by the effective user
        match with_path(name, |path| {
            fs::accessat(self.fd(), path, Access::EXISTS, AtFlags::EACCESS)
        }) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(Fault::Absent),
            // whatever an old kernel or a sandbox makes of this call
            Err(_) => self.stamp_of(name).map(drop),
        }
    }

    /// [`Folder::stamp_of`] without the conversion of the name: the hot call of a repeated scan.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn stamp_of_c(&self, name: &CStr) -> Result<Stamp, Fault> {
        fs::statat(self.fd(), name, AtFlags::empty())
            .map(|stat| stamp_from(&stat))
            .map_err(fault)
    }

    /// Reads a file below this folder. Never waits for a pipe and never reads a device.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn read(&self, name: &OsStr, extent: Extent) -> Result<Content, Fault> {
        let handle = with_path(name, |path| self.open_file(path)).map_err(fault)?;
        let stamp = stamp_from(&fs::fstat(&handle).map_err(fault)?);
        match stamp.unreadable() {
            Some(fault) => Err(fault),
            None => read_open(&handle, stamp, extent),
        }
    }

    /// [`Folder::read`] of a file whose stamp was just taken, without another look at it: the hot call of a first scan.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn read_stamped(&self, name: &CStr, stamp: Stamp, extent: Extent) -> Result<Content, Fault> {
        if let Some(fault) = stamp.unreadable() {
            return Err(fault);
        }
        read_open(&self.open_file(name).map_err(fault)?, stamp, extent)
    }

    /// The first bytes of a file that is known to be a regular one: no more than the buffer holds, and no further read
    /// once there are `enough`. A link in its place is not followed.
    ///
    /// # Errors
    /// The [`Fault`].
    pub fn read_into<'b>(&self, name: &OsStr, buffer: &'b mut [u8], enough: u64) -> Result<&'b [u8], Fault> {
        let flags = READING | OFlags::NOFOLLOW;
        let open = |path: &CStr| fs::openat(self.fd(), path, flags, Mode::empty());
        let handle = with_path(name, open).map_err(fault)?;
        let mut filled = 0;
        while filled < buffer.len() && (filled as u64) < enough {
            match rustix::io::read(&handle, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(fault(error)),
            }
        }
        Ok(&buffer[..filled])
    }

    fn open_file(&self, path: &CStr) -> rustix::io::Result<OwnedFd> {
        fs::openat(self.fd(), path, READING, Mode::empty())
    }
}

fn read_open(handle: &OwnedFd, stamp: Stamp, extent: Extent) -> Result<Content, Fault> {
    let limit = match extent {
        Extent::Whole(limit) if stamp.size > limit => return Err(Fault::TooLarge(stamp.size)),
        Extent::Whole(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        Extent::Head(length) => length,
    };
    // one spare byte: a file of the stated size ends with one short read
    let wanted = usize::try_from(stamp.size).unwrap_or(usize::MAX).min(limit);
    let mut bytes = Vec::new();
    let first = if wanted == 0 {
        SMALL_FILE.min(limit)
    } else {
        wanted.saturating_add(1)
    };
    bytes
        .try_reserve_exact(first)
        .map_err(|_| Fault::TooLarge(stamp.size))?;
    loop {
        if bytes.len() == bytes.capacity() {
            bytes
                .try_reserve(SMALL_FILE.max(bytes.len()))
                .map_err(|_| Fault::TooLarge(stamp.size))?;
        }
        match rustix::io::read(handle, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => break,
            Ok(_) if bytes.len() > limit => match extent {
                Extent::Head(length) => {
                    bytes.truncate(length);
                    break;
                }
                // it grew while it was read
                Extent::Whole(_) => return Err(Fault::TooLarge(bytes.len() as u64)),
            },
            // a short read of a regular file of the stated size is its end
            Ok(_) if wanted != 0 && bytes.len() == wanted => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(fault(error)),
        }
    }
    Ok(Content { stamp, bytes })
}

fn with_path<T>(path: &OsStr, call: impl FnOnce(&CStr) -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let bytes = path.as_bytes();
    let mut stack = [0_u8; STACK_PATH];
    if let Some(room) = stack.get_mut(..bytes.len()).filter(|_| bytes.len() < STACK_PATH) {
        room.copy_from_slice(bytes);
        // a name with NUL in it exists nowhere
        let path = CStr::from_bytes_with_nul(&stack[..=bytes.len()]).map_err(|_| Errno::NOENT)?;
        return call(path);
    }
    let path = CString::new(bytes).map_err(|_| Errno::NOENT)?;
    call(&path)
}

fn fault(error: Errno) -> Fault {
    match error {
        Errno::NOENT | Errno::NOTDIR => Fault::Absent,
        Errno::ACCESS | Errno::PERM => Fault::Denied,
        Errno::ISDIR => Fault::Folder,
        Errno::NXIO => Fault::Special,
        other => Fault::Other(other.raw_os_error()),
    }
}

fn kind(file_type: FileType) -> Kind {
    match file_type {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        FileType::Unknown => Kind::Unknown,
        _ => Kind::Special,
    }
}

#[expect(
    clippy::allow_attributes,
    reason = "which of these casts are needed differs by architecture"
)]
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    clippy::cast_possible_wrap,
    reason = "the fields' types differ by architecture"
)]
fn stamp_from(stat: &Stat) -> Stamp {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Stamp {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        size: stat.st_size as u64,
        modified_ns: nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        changed_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
    }
}
