//! What was read in, the answers of `importlib.metadata` itself out: raw order, its keys, nothing mended.
//!
//! Every function answers `None` for "odd" where equality with the interpreter's own code cannot be promised;
//! the caller then runs that code.

use std::collections::HashSet;
use std::ffi::OsString;

use crate::dist_info::DistInfo;
use crate::entry_point_files::Points;
use crate::entry_points::Entry;
use crate::memo::{Listed, Scanner};
use crate::name::NormalizedName;
use crate::scan::{FolderScan, Listing, Scanned};

/// The infos of a listing as the interpreter's `Lookup` yields them: grouped by key, in order of first appearance.
///
/// `None`: a name whose key only the interpreter knows.
fn grouped(listing: &Listing) -> Option<Vec<&DistInfo>> {
    let infos = &listing.infos;
    if !infos.iter().all(|info| info.listing_exact) {
        return None;
    }
    let mut seen = HashSet::with_capacity(infos.len());
    if infos.iter().all(|info| seen.insert(&info.folder_key)) {
        return Some(infos.iter().collect());
    }
    let mut order: Vec<&NormalizedName> = Vec::with_capacity(infos.len());
    let mut by_key: std::collections::HashMap<&NormalizedName, Vec<&DistInfo>> =
        std::collections::HashMap::with_capacity(infos.len());
    for info in infos {
        let copies = by_key.entry(&info.folder_key).or_default();
        if copies.is_empty() {
            order.push(&info.folder_key);
        }
        copies.push(info);
    }
    Some(
        order
            .into_iter()
            .filter_map(|key| by_key.remove(key))
            .flatten()
            .collect(),
    )
}

/// The names of the metadata children of one path entry, in the interpreter's order; of one project only if named.
pub fn list(scanner: &Scanner, path: &OsString, name: Option<&str>) -> Option<Vec<OsString>> {
    if name.is_some_and(|name| !name.is_ascii()) {
        return None;
    }
    // `Prepared("")` is false and asks for all
    let wanted = name.filter(|name| !name.is_empty()).map(NormalizedName::new);
    let mut answer = None;
    scanner.list(std::slice::from_ref(path), |_, _, listed| {
        answer = match listed {
            Listed::Folder(listing) => grouped(&listing).map(|infos| {
                infos
                    .into_iter()
                    .filter(|info| wanted.as_ref().is_none_or(|wanted| *wanted == info.folder_key))
                    .map(|info| info.folder_name.clone())
                    .collect()
            }),
            Listed::Deferred(_) => None,
            // any error of the listing, then of the attempt to read a zip, is swallowed there
            Listed::Missing | Listed::Unreadable(_) => Some(Vec::new()),
        };
        false
    });
    answer
}

/// What the interpreter's `distribution(name)` finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The number of the path entry and the child's name.
    At(usize, OsString),
    /// No path entry has it.
    Nowhere,
    /// Only the interpreter can tell.
    Odd,
}

/// The first distribution of a name.
pub fn find(scanner: &Scanner, paths: &[OsString], name: &str) -> Found {
    if !name.is_ascii() || name.is_empty() {
        return Found::Odd;
    }
    let key = NormalizedName::new(name);
    let mut found = Found::Nowhere;
    scanner.list(paths, |number, _, listed| match listed {
        Listed::Folder(listing) => {
            if !listing.infos.iter().all(|info| info.listing_exact) {
                found = Found::Odd;
                return false;
            }
            match listing.infos.iter().find(|info| info.folder_key == key) {
                Some(info) => {
                    found = Found::At(number, info.folder_name.clone());
                    false
                }
                None => true,
            }
        }
        Listed::Deferred(_) => {
            found = Found::Odd;
            false
        }
        Listed::Missing | Listed::Unreadable(_) => true,
    });
    found
}

/// One distribution and its entry points that match; `None` in place of these if the file is odd.
#[derive(Debug)]
pub struct Matching<'a> {
    /// Number of the path entry.
    pub entry: usize,
    /// The metadata folder.
    pub info: &'a DistInfo,
    /// The entry points.
    pub points: Option<Vec<Entry<'a>>>,
}

/// The entry points of all unique distributions, in the interpreter's order.
pub fn entry_points<'a>(
    entries: &'a [(OsString, Scanned)],
    group: Option<&str>,
    name: Option<&str>,
) -> Option<Vec<Matching<'a>>> {
    let mut unique = HashSet::new();
    let mut out = Vec::new();
    for (entry, (_, scanned)) in entries.iter().enumerate() {
        let scan: &FolderScan = match scanned {
            Scanned::Folder(scan) => scan,
            Scanned::Deferred(_) => return None,
            Scanned::Missing | Scanned::Unreadable(_) => continue,
        };
        let infos = grouped(&scan.listing)?;
        unique.reserve(infos.len());
        let start = scan.listing.infos.as_ptr();
        for info in infos {
            if !info.unique_exact {
                return None;
            }
            if !unique.insert(&info.folder_key) {
                continue;
            }
            let number = std::ptr::from_ref(info).addr().wrapping_sub(start.addr()) / size_of::<DistInfo>();
            let points = match &scan.points.get(number)?.points {
                Points::Absent => continue,
                Points::Unread(fault) if fault.standard_absent() => continue,
                Points::Parsed(parsed) if parsed.standard() => {
                    let matches = |found: &Entry<'_>| name.is_none_or(|name| name == found.name);
                    let found: Vec<_> = match group {
                        Some(group) => parsed.entries_of(group).filter(matches).collect(),
                        None => parsed.entries().filter(matches).collect(),
                    };
                    if found.is_empty() {
                        continue;
                    }
                    Some(found)
                }
                _ => None,
            };
            out.push(Matching { entry, info, points });
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn dist(root: &std::path::Path, folder: &str, points: &[u8]) {
        let info = root.join(folder);
        fs::create_dir_all(&info).unwrap();
        fs::write(info.join("entry_points.txt"), points).unwrap();
    }

    #[test]
    fn copies_stand_together_where_the_first_of_them_stood() {
        let root = tempfile::tempdir().unwrap();
        for folder in [
            "b-1.dist-info",
            "a-2.dist-info",
            "b-2.dist-info",
            "a-1.dist-info",
            "c-1.dist-info",
        ] {
            dist(root.path(), folder, b"");
        }
        let path = root.path().as_os_str().to_owned();
        let listed = list(&Scanner::default(), &path, None).unwrap();
        let keys: Vec<_> = listed
            .iter()
            .map(|name| name.to_string_lossy()[..1].to_owned())
            .collect();
        let mut grouped = keys.clone();
        grouped.dedup();
        assert_eq!(keys.len(), 5);
        assert_eq!(grouped.len(), 3, "{keys:?}");
    }

    #[test]
    fn an_odd_file_is_left_to_the_interpreter_and_the_rest_is_answered() {
        let root = tempfile::tempdir().unwrap();
        dist(root.path(), "good-1.dist-info", b"[g]\na = m:f\n");
        dist(root.path(), "bad-1.dist-info", b"[g]\nno equals sign\n");
        let inventory = Scanner::default().scan(&[root.path().as_os_str().to_owned()]);
        let found = entry_points(&inventory.entries, Some("g"), None).unwrap();
        let mut odd: Vec<_> = found
            .iter()
            .map(|matching| (matching.info.folder_key.as_str(), matching.points.is_none()))
            .collect();
        odd.sort_unstable();
        assert_eq!(odd, [("bad", true), ("good", false)]);
    }

    #[test]
    fn a_name_that_is_not_ascii_makes_the_listing_odd() {
        let root = tempfile::tempdir().unwrap();
        dist(root.path(), "é-1.dist-info", b"");
        let path = root.path().as_os_str().to_owned();
        assert_eq!(list(&Scanner::default(), &path, None), None);
        assert_eq!(find(&Scanner::default(), &[path], "x"), Found::Odd);
    }
}
