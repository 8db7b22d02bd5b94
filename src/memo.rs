//! `sys.path` strings in, an [`Inventory`] or the folders of one distribution out, reusing what this process
//! has read before wherever a stamp proves it unchanged.
//!
//! Never stale: a folder's listing is reused only if its stamp is the same and had settled when it was read; an
//! `entry_points.txt` likewise, absence being a value too. The lock guards one pointer, is never waited for and
//! is never held while anything is read: whoever finds it taken (another thread, or the copy of a lock that a
//! fork froze) goes on without a memo.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, TryLockError};

use crate::dist_info::{self, DistInfo};
use crate::entry_point_files::{Pace, PointsFile, read_all};
use crate::files::{self, Fault, Folder, Stamp, now_ns};
use crate::name::NormalizedName;
use crate::path_entry::{Deferral, PathEntry};
use crate::scan::{FolderScan, Inventory, Listing, Scanned, better, weigh};

/// Folders kept in mind; more than any `sys.path` has.
const MOST_FOLDERS: usize = 1024;

/// One folder in memory.
#[derive(Clone, Debug)]
struct Known {
    listing: Arc<Listing>,
    scan: Option<Arc<FolderScan>>,
}

#[derive(Clone, Debug, Default)]
struct Memo {
    folders: HashMap<OsString, Known>,
    inventory: Option<Arc<Inventory>>,
    survey: Option<Arc<Inventory>>,
}

/// Scans a path and remembers what it read.
#[derive(Debug, Default)]
pub struct Scanner {
    memo: Mutex<Arc<Memo>>,
}

/// What a path entry holds, before any file in it is read.
#[derive(Debug)]
pub enum Listed {
    /// A folder.
    Folder(Arc<Listing>),
    /// Left to the interpreter.
    Deferred(Deferral),
    /// Nothing.
    Missing,
    /// Something that cannot be listed.
    Unreadable(Fault),
}

impl Scanner {
    /// Forgets everything. Never needed for right answers.
    pub fn clear(&self) {
        self.remember(Memo::default());
    }

    fn recall(&self) -> Arc<Memo> {
        match self.memo.try_lock() {
            Ok(memo) => Arc::clone(&memo),
            Err(TryLockError::Poisoned(memo)) => Arc::clone(&memo.into_inner()),
            Err(TryLockError::WouldBlock) => Arc::default(),
        }
    }

    fn remember(&self, memo: Memo) {
        let memo = Arc::new(memo);
        let before = match self.memo.try_lock() {
            Ok(mut place) => std::mem::replace(&mut *place, memo),
            Err(TryLockError::Poisoned(place)) => std::mem::replace(&mut *place.into_inner(), memo),
            Err(TryLockError::WouldBlock) => return,
        };
        // freed after the lock: it may be large
        drop(before);
    }

    /// Reads all of a path in one pass.
    pub fn scan(&self, paths: &[OsString]) -> Arc<Inventory> {
        let memo = self.recall();
        let pace = Pace::default();
        let entries: Vec<_> = paths
            .iter()
            .map(|path| {
                let known = memo.folders.get(path);
                (path.clone(), scan_entry(path, known, &pace))
            })
            .collect();
        let unchanged = memo.inventory.as_ref().filter(|before| {
            before.entries.len() == entries.len()
                && before
                    .entries
                    .iter()
                    .zip(&entries)
                    .all(|(one, two)| one.0 == two.0 && one.1.same(&two.1))
                && before.choice_stands()
        });
        if let Some(inventory) = unchanged {
            return Arc::clone(inventory);
        }
        let inventory = Arc::new(Inventory::resolve(entries));
        let mut next = Memo {
            folders: memo.folders.clone(),
            inventory: Some(Arc::clone(&inventory)),
            survey: None,
        };
        next.learn(inventory.entries.iter().filter_map(|(path, scanned)| match scanned {
            Scanned::Folder(scan) => {
                let listing = Arc::clone(&scan.listing);
                Some((
                    path,
                    Known {
                        listing,
                        scan: Some(Arc::clone(scan)),
                    },
                ))
            }
            _ => None,
        }));
        self.remember(next);
        inventory
    }

    /// Lists each path entry, files unread.
    pub fn list(&self, paths: &[OsString], mut visit: impl FnMut(usize, &OsStr, Listed) -> bool) {
        let memo = self.recall();
        let mut news = Vec::new();
        for (number, path) in paths.iter().enumerate() {
            let known = memo.folders.get(path);
            let listed = match known {
                Some(known) if known_by_stamp(path, &known.listing) => Listed::Folder(Arc::clone(&known.listing)),
                _ => match list_entry(path, known.map(|known| &known.listing)) {
                    Opened::Folder(_, listing) => Listed::Folder(listing),
                    Opened::Other(listed) => listed,
                },
            };
            if let Listed::Folder(listing) = &listed
                && known.is_none_or(|known| !Arc::ptr_eq(&known.listing, listing))
            {
                let scan = known.and_then(|known| known.scan.clone());
                news.push((
                    path,
                    Known {
                        listing: Arc::clone(listing),
                        scan,
                    },
                ));
            }
            if !visit(number, path, listed) {
                break;
            }
        }
        if !news.is_empty() {
            let mut next = Memo::clone(&memo);
            next.learn(news.into_iter());
            self.remember(next);
        }
    }

    /// As [`Scanner::scan`], but without reading any `entry_points.txt`.
    pub fn survey(&self, paths: &[OsString]) -> Arc<Inventory> {
        let mut entries = Vec::with_capacity(paths.len());
        self.list(paths, |_, path, listed| {
            let scanned = match listed {
                Listed::Folder(listing) => Scanned::Folder(Arc::new(FolderScan {
                    listing,
                    points: Vec::new(),
                })),
                Listed::Deferred(deferral) => Scanned::Deferred(deferral),
                Listed::Missing => Scanned::Missing,
                Listed::Unreadable(fault) => Scanned::Unreadable(fault),
            };
            entries.push((path.to_owned(), scanned));
            true
        });
        let memo = self.recall();
        let known = [&memo.survey, &memo.inventory].into_iter().flatten();
        for before in known {
            if before.lists_the_same(&entries) && before.choice_stands() {
                return Arc::clone(before);
            }
        }
        let survey = Arc::new(Inventory::resolve(entries));
        let mut next = Memo::clone(&memo);
        next.survey = Some(Arc::clone(&survey));
        self.remember(next);
        survey
    }

    /// The metadata folders of one distribution, the one that counts first, and the numbers of the path entries
    /// that are left to the interpreter.
    pub fn find(&self, paths: &[OsString], name: &str) -> (Vec<(usize, OsString)>, Vec<usize>) {
        let key = NormalizedName::new(name);
        let mut deferred = Vec::new();
        let mut found: Vec<(usize, DistInfo)> = Vec::new();
        let mut folders: Vec<Stamp> = Vec::new();
        self.list(paths, |number, _, listed| {
            match listed {
                Listed::Folder(listing) if !folders.iter().any(|other| other.same_file(&listing.stamp)) => {
                    folders.push(listing.stamp);
                    let copies = listing.infos.iter().filter(|info| info.key() == Some(&key));
                    found.extend(copies.map(|info| (number, info.clone())));
                }
                Listed::Deferred(_) => deferred.push(number),
                _ => {}
            }
            true
        });
        if found.len() > 1 {
            let mut weighed: Vec<_> = (found.into_iter())
                .map(|copy| (weigh(&paths[copy.0], &copy.1), copy))
                .collect();
            weighed.sort_by(|(one, (a, first)), (two, (b, second))| {
                better((one, (*a, &first.folder_name)), (two, (*b, &second.folder_name)))
            });
            found = weighed.into_iter().map(|(_, copy)| copy).collect();
        }
        (
            found
                .into_iter()
                .map(|(number, info)| (number, info.folder_name))
                .collect(),
            deferred,
        )
    }
}

impl Memo {
    fn learn<'a>(&mut self, news: impl Iterator<Item = (&'a OsString, Known)>) {
        if self.folders.len() > MOST_FOLDERS {
            self.folders.clear();
        }
        for (path, known) in news {
            self.folders.insert(path.clone(), known);
        }
    }
}

/// A path entry that was opened.
enum Opened {
    Folder(Folder, Arc<Listing>),
    Other(Listed),
}

/// Whether one look at the folder's stamp proves a listing: no opening, no closing.
fn known_by_stamp(path: &OsStr, known: &Listing) -> bool {
    known.settled
        && known.infos.iter().all(|info| info.sources.is_empty())
        && files::stamp(if path.is_empty() { ".".as_ref() } else { path.as_ref() }).is_ok_and(|now| now == known.stamp)
}

fn list_entry(path: &OsStr, known: Option<&Arc<Listing>>) -> Opened {
    let (folder, stamp) = match PathEntry::look(path) {
        PathEntry::Directory(folder, stamp) => (folder, stamp),
        PathEntry::Deferred(deferral) => return Opened::Other(Listed::Deferred(deferral)),
        PathEntry::Missing => return Opened::Other(Listed::Missing),
        PathEntry::Unreadable(fault) => return Opened::Other(Listed::Unreadable(fault)),
    };
    if let Some(known) = known.filter(|known| still_true(&folder, stamp, known)) {
        return Opened::Folder(folder, Arc::clone(known));
    }
    match dist_info::list(&folder) {
        Ok(infos) => {
            let now = now_ns();
            let sources = infos.iter().flat_map(|info| &info.sources);
            let settled = stamp.settled(now)
                && sources
                    .filter_map(|(_, stamp)| stamp.as_ref())
                    .all(|stamp| stamp.settled(now));
            Opened::Folder(folder, Arc::new(Listing { stamp, settled, infos }))
        }
        Err(fault) => Opened::Other(Listed::Unreadable(fault)),
    }
}

fn still_true(folder: &Folder, stamp: Stamp, known: &Listing) -> bool {
    known.settled
        && known.stamp == stamp
        && known
            .infos
            .iter()
            .flat_map(|info| &info.sources)
            .all(|(file, stamp)| folder.stamp_of(file).ok() == *stamp)
}

fn scan_entry(path: &OsStr, known: Option<&Known>, pace: &Pace) -> Scanned {
    let (folder, listing) = match list_entry(path, known.map(|known| &known.listing)) {
        Opened::Folder(folder, listing) => (folder, listing),
        Opened::Other(Listed::Deferred(deferral)) => return Scanned::Deferred(deferral),
        Opened::Other(Listed::Missing | Listed::Folder(_)) => return Scanned::Missing,
        Opened::Other(Listed::Unreadable(fault)) => return Scanned::Unreadable(fault),
    };
    let before = known.and_then(|known| known.scan.as_ref());
    let points = match before {
        Some(before) if Arc::ptr_eq(&before.listing, &listing) => read_all(&folder, &listing.infos, pace, |number| {
            before.points.get(number).cloned()
        }),
        Some(before) => {
            let by_name: HashMap<&OsStr, &Arc<PointsFile>> = (before.listing.infos.iter())
                .map(|info| info.folder_name.as_os_str())
                .zip(&before.points)
                .collect();
            read_all(&folder, &listing.infos, pace, |number| {
                let info = listing.infos.get(number)?;
                by_name.get(info.folder_name.as_os_str()).map(|file| Arc::clone(file))
            })
        }
        None => read_all(&folder, &listing.infos, pace, |_| None),
    };
    match before {
        Some(before)
            if Arc::ptr_eq(&before.listing, &listing)
                && before
                    .points
                    .iter()
                    .zip(&points)
                    .all(|(one, two)| Arc::ptr_eq(one, two)) =>
        {
            Scanned::Folder(Arc::clone(before))
        }
        _ => Scanned::Folder(Arc::new(FolderScan { listing, points })),
    }
}
