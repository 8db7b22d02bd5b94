//! Looking below a root: every path is the host's own, and no link leads out of the root.
//!
//! Under `/` the kernel follows links. Under any other root they are followed here, name by name, an absolute one and
//! every `..` from that root. (`openat2` would do so too, but not on every kernel and not in every container. Nor is it
//! quicker: it only opens, and nothing is opened here before it was looked at.)

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::files::{self, Extent, Fault, Folder, Kind, Thing};

/// Links on the way to one file, as the kernel has it.
const MOST_LINKS: usize = 40;
/// Names that a path may grow to while its links are followed.
const MOST_STEPS: usize = 4096;
/// Children that are looked at in one folder.
const MOST_NAMES: usize = 16_384;
/// Nodes or devices of one kind.
const MOST_NUMBERED: usize = 1024;
/// `ELOOP`.
const LOOP: Fault = Fault::Other(40);

/// A root, and what has been learnt of the links in it.
pub(super) struct Root {
    base: PathBuf,
    machine: bool,
    /// By the bytes of a path: as a path it would be taken apart for every comparison.
    folders: RefCell<HashMap<String, Result<PathBuf, Fault>>>,
    /// Folders inside the root that are no links, nor is any that they stand in.
    plain: RefCell<HashSet<OsString>>,
}

impl Root {
    pub(super) fn new(path: &OsStr) -> Self {
        // without what makes one path differ from another in text alone
        let base: PathBuf = Path::new(path).components().collect();
        let mut parts = base.components();
        let machine = parts.next() == Some(Component::RootDir) && parts.next().is_none();
        Self {
            base,
            machine,
            folders: RefCell::default(),
            plain: RefCell::default(),
        }
    }

    /// Whether this is `/`, where only a character device is a device node.
    pub(super) fn is_machine(&self) -> bool {
        self.machine
    }

    /// Why the root itself is no folder that can be looked at.
    pub(super) fn fault(&self) -> Option<Fault> {
        match files::look(&self.base, true) {
            Ok(Thing::Folder) => None,
            Ok(_) => Some(Fault::NotFolder),
            Err(fault) => Some(fault),
        }
    }

    /// What stands at a path, links followed.
    pub(super) fn thing(&self, path: &str) -> Result<Thing, Fault> {
        self.find(path).map(|(_, thing)| thing)
    }

    /// The first bytes of a regular file. Anything else is not opened.
    pub(super) fn head(&self, path: &str, limit: usize) -> Result<Vec<u8>, Fault> {
        // no node can stand there, so it is opened at once and looked at afterwards
        let real = if self.machine && (path.starts_with("/sys/") || path.starts_with("/proc/")) {
            PathBuf::from(path)
        } else {
            match self.find(path)? {
                (real, Thing::File) => real,
                (_, Thing::Folder) => return Err(Fault::Folder),
                _ => return Err(Fault::Special),
            }
        };
        files::read(&real, Extent::Head(limit)).map(|content| content.bytes)
    }

    /// The children of a folder, in no order; names that are no UTF-8 are none that is looked for.
    pub(super) fn names(&self, path: &str) -> Result<Vec<String>, Fault> {
        let listed = children(&self.open(path)?.1)?;
        Ok(listed.into_iter().map(|(name, _)| name).collect())
    }

    /// Opens a folder; its path, links followed, comes with it.
    pub(super) fn open(&self, path: &str) -> Result<(PathBuf, Folder), Fault> {
        let real = if self.machine {
            PathBuf::from(path)
        } else {
            self.find(path)?.0
        };
        let folder = Folder::open(real.as_os_str())?;
        Ok((real, folder))
    }

    /// The numbers of the children that are called `prefix` and a number, in order.
    pub(super) fn numbers(&self, path: &str, prefix: &str) -> Result<Vec<u32>, Fault> {
        self.names(path).map(|names| numbered(&names, prefix))
    }

    /// Whether this user might open it for reading and writing; see [`files::usable`].
    pub(super) fn usable(&self, path: &str) -> Result<(), Fault> {
        let (real, _) = self.find(path)?;
        files::usable(&real)
    }

    /// The last name of what a link says, not followed.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        let (parent, name) = split(path);
        let real = self.folder(parent).ok()?.join(name);
        last_name(&files::link(&real).ok()??)
    }

    /// The name that a file has once every link is followed.
    pub(super) fn end_name(&self, path: &str) -> Option<String> {
        let (real, _) = self.find(path).ok()?;
        if self.machine {
            return last_name(&files::resolved(&real).ok()?);
        }
        last_name(&real)
    }

    /// Where a path leads, and what stands there.
    fn find(&self, path: &str) -> Result<(PathBuf, Thing), Fault> {
        if self.machine {
            let real = PathBuf::from(path);
            return files::look(&real, true).map(|thing| (real, thing));
        }
        let (parent, name) = split(path);
        let parent = self.folder(parent)?;
        let real = parent.join(name);
        match files::look(&real, false)? {
            Thing::Link => {
                let real = self.walk(&parent, Path::new(name))?;
                files::look(&real, false).map(|thing| (real, thing))
            }
            thing => Ok((real, thing)),
        }
    }

    /// A folder's real path; the root's is that of `""`.
    fn folder(&self, path: &str) -> Result<PathBuf, Fault> {
        if self.machine {
            return Ok(PathBuf::from(if path.is_empty() { "/" } else { path }));
        }
        if path.is_empty() {
            return Ok(self.base.clone());
        }
        if let Some(known) = self.folders.borrow().get(path) {
            return known.clone();
        }
        let (parent, name) = split(path);
        let found = self
            .folder(parent)
            .and_then(|parent| self.walk(&parent, Path::new(name)));
        self.folders.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }

    /// Follows `rest` from a folder of the root, the path to which has no links; so has the path that comes of it.
    pub(super) fn walk(&self, start: &Path, rest: &Path) -> Result<PathBuf, Fault> {
        let mut here = start.to_owned();
        let mut ahead: Vec<OsString> = Vec::new();
        push(&mut ahead, rest);
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            match name.as_encoded_bytes() {
                b"." => continue,
                b"/" => {
                    here.clone_from(&self.base);
                    continue;
                }
                b".." => {
                    if here.as_os_str() != self.base.as_os_str() {
                        here.pop();
                    }
                    continue;
                }
                _ => here.push(&name),
            }
            if self.plain.borrow().contains(here.as_os_str()) {
                continue;
            }
            let Some(target) = files::link(&here)? else {
                if !ahead.is_empty() {
                    self.plain.borrow_mut().insert(here.clone().into_os_string());
                }
                continue;
            };
            links += 1;
            here.pop();
            push(&mut ahead, &target);
            if links > MOST_LINKS || ahead.len() > MOST_STEPS {
                return Err(LOOP);
            }
        }
        Ok(here)
    }
}

/// The children of a folder and what they are, in no order; see [`Root::names`].
pub(super) fn children(folder: &Folder) -> Result<Vec<(String, Kind)>, Fault> {
    let mut names = Vec::new();
    let mut seen = 0;
    folder.list_while(|name, kind| {
        names.extend(name.to_str().map(|name| (name.to_owned(), kind)));
        seen += 1;
        seen < MOST_NAMES
    })?;
    Ok(names)
}

/// A path's folder and its last name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Puts the parts of a path on a stack, the first one on top.
fn push(ahead: &mut Vec<OsString>, path: &Path) {
    ahead.extend(path.components().rev().map(|part| part.as_os_str().to_owned()));
}

fn last_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Numbers of names that are `prefix` and a number without leading zeros, in order.
pub(super) fn numbered(names: &[String], prefix: &str) -> Vec<u32> {
    let number = |name: &String| {
        let digits = name.strip_prefix(prefix)?;
        let plain = digits == "0" || !digits.starts_with('0');
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| plain && all)
    };
    let mut found: Vec<u32> = names.iter().filter_map(number).collect();
    found.sort_unstable();
    found.truncate(MOST_NUMBERED);
    found
}
