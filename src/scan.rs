//! What was read of each path entry in, one ordered [`Inventory`] out: every distribution with its state,
//! every entry point with its distribution.
//!
//! The mended rules: inside a folder the order is by normalized name; between path entries it is path order;
//! of several copies of a distribution the valid one wins, then the first on the path, then the higher version.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dist_info::{DistInfo, METADATA_HEAD, header};
use crate::entry_point_files::{Points, PointsFile};
use crate::entry_points::Entry as EntryPoint;
use crate::files::{Extent, Fault, Folder, Stamp, now_ns};
use crate::name::{NormalizedName, split_folder_name};
use crate::path_entry::Deferral;
use crate::version_order;

/// The listing of one folder on the path.
#[derive(Debug)]
pub struct Listing {
    /// The folder's own stamp, taken before it was listed.
    pub stamp: Stamp,
    /// Whether that stamp can be trusted to show every later change.
    pub settled: bool,
    /// Its metadata, in the order of the file system.
    pub infos: Vec<DistInfo>,
}

/// One folder on the path, read.
#[derive(Debug)]
pub struct FolderScan {
    /// What is in it.
    pub listing: Arc<Listing>,
    /// For each of `listing.infos`, its `entry_points.txt`; empty in a survey, which reads none.
    pub points: Vec<Arc<PointsFile>>,
}

/// What one `sys.path` string led to.
#[derive(Clone, Debug)]
pub enum Scanned {
    /// A folder.
    Folder(Arc<FolderScan>),
    /// Left to the interpreter.
    Deferred(Deferral),
    /// Nothing.
    Missing,
    /// Something that cannot be listed.
    Unreadable(Fault),
}

impl Scanned {
    /// Whether nothing has changed between two looks at one path entry.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Folder(one), Self::Folder(two)) => Arc::ptr_eq(one, two),
            (Self::Deferred(one), Self::Deferred(two)) => one == two,
            (Self::Unreadable(one), Self::Unreadable(two)) => one == two,
            (Self::Missing, Self::Missing) => true,
            _ => false,
        }
    }
}

/// What became of a distribution in the choice between copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// This copy counts.
    Live,
    /// The copy with this row number counts instead.
    Shadowed(usize),
    /// It has no METADATA, and the valid copy with this row number counts instead.
    Leftover(usize),
    /// It names no distribution.
    Ignored,
}

impl State {
    /// The word for it in the Python interface.
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Shadowed(_) => "shadowed",
            Self::Leftover(_) => "leftover",
            Self::Ignored => "ignored",
        }
    }

    /// The row of the copy that counts instead.
    pub fn hidden_by(self) -> Option<usize> {
        match self {
            Self::Shadowed(row) | Self::Leftover(row) => Some(row),
            Self::Live | Self::Ignored => None,
        }
    }
}

/// One metadata folder in its place in the order.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number of the path entry.
    pub entry: usize,
    /// Number in that folder's listing.
    pub info: usize,
    /// What became of it.
    pub state: State,
}

/// A file whose stamp decided between copies.
#[derive(Debug)]
struct Tie {
    entry: usize,
    file: OsString,
    stamp: Option<Stamp>,
    settled: bool,
}

/// All of it, ordered; immutable.
#[derive(Debug)]
pub struct Inventory {
    /// The `sys.path` strings and what they led to.
    pub entries: Vec<(OsString, Scanned)>,
    /// Every metadata folder, in order.
    pub rows: Vec<Row>,
    /// Path entries that are the same folder as an earlier one, with the number of that one.
    pub repeated: Vec<(usize, usize)>,
    /// How many files could not be used as they are.
    pub damaged: usize,
    ties: Vec<Tie>,
}

impl Inventory {
    /// Orders what was read and chooses between copies.
    pub fn resolve(entries: Vec<(OsString, Scanned)>) -> Self {
        let mut inventory = Self {
            entries,
            rows: Vec::new(),
            repeated: Vec::new(),
            damaged: 0,
            ties: Vec::new(),
        };
        let mut doubled = false;
        inventory.rows = inventory.ordered(&mut doubled);
        if doubled {
            inventory.choose();
        }
        inventory.damaged = (inventory.rows.iter())
            .filter(|row| match inventory.points(row).map(|file| &file.points) {
                None | Some(Points::Absent) => false,
                Some(Points::Parsed(parsed)) => !parsed.faults().is_empty(),
                Some(Points::NotUtf8 { .. } | Points::Unread(_)) => true,
            })
            .filter(|row| row.state != State::Ignored)
            .count();
        inventory
    }

    /// All rows in path order, inside a folder by key; whether a key occurs twice.
    fn ordered(&mut self, doubled: &mut bool) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut seen_folders: Vec<(usize, Stamp)> = Vec::new();
        let mut repeated = Vec::new();
        let mut folders: Vec<Vec<&str>> = Vec::new();
        for (entry, (_, scanned)) in self.entries.iter().enumerate() {
            let Scanned::Folder(scan) = scanned else { continue };
            let stamp = scan.listing.stamp;
            if let Some((first, _)) = seen_folders.iter().find(|(_, other)| stamp.same_file(other)) {
                repeated.push((entry, *first));
                continue;
            }
            seen_folders.push((entry, stamp));
            let infos = &scan.listing.infos;
            let mut order: Vec<(Option<&str>, usize)> = (infos.iter().enumerate())
                .map(|(number, info)| (info.key().map(NormalizedName::as_str), number))
                .collect();
            order.sort_unstable_by(|(one, a), (two, b)| {
                one.cmp(two)
                    .then_with(|| infos[*a].folder_name.cmp(&infos[*b].folder_name))
            });
            rows.extend(order.iter().map(|(key, info)| {
                let state = if key.is_some() { State::Live } else { State::Ignored };
                Row {
                    entry,
                    info: *info,
                    state,
                }
            }));
            let keys: Vec<&str> = order.into_iter().filter_map(|(key, _)| key).collect();
            *doubled = *doubled
                || keys.windows(2).any(|pair| pair[0] == pair[1])
                || folders.iter().any(|other: &Vec<&str>| in_both(other, &keys));
            folders.push(keys);
        }
        self.repeated = repeated;
        rows
    }

    /// Decides between copies: the first valid one on the path, the higher version inside a folder.
    fn choose(&mut self) {
        let mut copies: HashMap<NormalizedName, Vec<usize>> = HashMap::new();
        for (number, row) in self.rows.iter().enumerate() {
            if let Some(key) = self.info(row).key() {
                copies.entry(key.clone()).or_default().push(number);
            }
        }
        copies.retain(|_, numbers| numbers.len() > 1);
        let mut weighed: HashMap<usize, Weight> = HashMap::new();
        for number in copies.values().flatten() {
            let (weight, tie) = self.weigh(&self.rows[*number]);
            self.ties.push(tie);
            weighed.insert(*number, weight);
        }
        let mut states = Vec::new();
        for numbers in copies.into_values() {
            let best = numbers
                .iter()
                .copied()
                .min_by(|one, two| self.rank(&weighed, *one, *two));
            let Some(winner) = best else { continue };
            let winner_valid = weighed.get(&winner).is_some_and(|weight| weight.valid);
            for number in numbers.into_iter().filter(|number| *number != winner) {
                let missing = weighed.get(&number).is_some_and(|weight| weight.missing);
                let leftover = winner_valid && missing;
                states.push((number, leftover, winner));
            }
        }
        // the winner stands before its copies in its folder, so numbers move: apply states, then sort again
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        for (number, leftover, winner) in states {
            self.rows[number].state = if leftover {
                State::Leftover(winner)
            } else {
                State::Shadowed(winner)
            };
        }
        order.sort_by(|one, two| {
            let (a, b) = (&self.rows[*one], &self.rows[*two]);
            a.entry
                .cmp(&b.entry)
                .then_with(|| self.info(a).key().cmp(&self.info(b).key()))
                .then_with(|| match (weighed.contains_key(one), weighed.contains_key(two)) {
                    (true, true) => self.rank(&weighed, *one, *two),
                    _ => one.cmp(two),
                })
        });
        let mut place = vec![0; order.len()];
        for (now, before) in order.iter().enumerate() {
            place[*before] = now;
        }
        self.rows = order
            .into_iter()
            .map(|before| {
                let row = self.rows[before];
                let state = match row.state {
                    State::Shadowed(winner) => State::Shadowed(place[winner]),
                    State::Leftover(winner) => State::Leftover(place[winner]),
                    other => other,
                };
                Row { state, ..row }
            })
            .collect();
    }

    fn rank(&self, weighed: &HashMap<usize, Weight>, one: usize, two: usize) -> Ordering {
        let (Some(a), Some(b)) = (weighed.get(&one), weighed.get(&two)) else {
            return one.cmp(&two);
        };
        let place = |number: usize| {
            let row = &self.rows[number];
            (row.entry, self.info(row).folder_name.as_os_str())
        };
        better((a, place(one)), (b, place(two)))
    }

    fn weigh(&self, row: &Row) -> (Weight, Tie) {
        let weight = weigh(&self.entries[row.entry].0, self.info(row));
        let tie = Tie {
            entry: row.entry,
            file: weight.file.clone(),
            stamp: weight.stamp,
            settled: weight.stamp.is_none_or(|stamp| stamp.settled(now_ns())),
        };
        (weight, tie)
    }

    /// Whether another look at the same path found the same listings.
    pub fn lists_the_same(&self, entries: &[(OsString, Scanned)]) -> bool {
        let same = |one: &Scanned, two: &Scanned| match (one, two) {
            (Scanned::Folder(one), Scanned::Folder(two)) => Arc::ptr_eq(&one.listing, &two.listing),
            _ => one.same(two),
        };
        self.entries.len() == entries.len()
            && (self.entries.iter().zip(entries)).all(|(one, two)| one.0 == two.0 && same(&one.1, &two.1))
    }

    /// Whether the choice between copies still stands.
    pub fn choice_stands(&self) -> bool {
        self.ties.iter().all(|tie| {
            let now = Folder::open(&self.entries[tie.entry].0)
                .and_then(|folder| folder.stamp_of(&tie.file))
                .ok();
            tie.settled && now == tie.stamp
        })
    }

    /// The metadata folder of a row.
    pub fn info(&self, row: &Row) -> &DistInfo {
        &self.scan(row).listing.infos[row.info]
    }

    /// The `entry_points.txt` of a row, unless this is a survey.
    pub fn points(&self, row: &Row) -> Option<&PointsFile> {
        self.scan(row).points.get(row.info).map(|file| &**file)
    }

    /// The metadata folder's full path: the `sys.path` string and the child's name.
    pub fn path(&self, row: &Row) -> PathBuf {
        join(&self.entries[row.entry].0, &self.info(row).folder_name)
    }

    #[expect(clippy::panic, reason = "rows are made from folders alone, in this file")]
    fn scan(&self, row: &Row) -> &FolderScan {
        match &self.entries[row.entry].1 {
            Scanned::Folder(scan) => scan,
            _ => panic!("a row of a path entry that is no folder"),
        }
    }

    /// The entry points of one group and name (`None`: all), each with its row's number.
    pub fn entry_points<'a>(
        &'a self,
        group: Option<&str>,
        name: Option<&str>,
        all: bool,
        mut visit: impl FnMut(usize, EntryPoint<'a>),
    ) {
        for (number, row) in self.rows.iter().enumerate() {
            let counts = row.state == State::Live || (all && row.state != State::Ignored);
            let Some(parsed) = self.points(row).and_then(PointsFile::parsed).filter(|_| counts) else {
                continue;
            };
            let mut take = |entry: EntryPoint<'a>| {
                if name.is_none_or(|name| name == entry.name) {
                    visit(number, entry);
                }
            };
            match group {
                Some(group) => parsed.entries_of(group).for_each(&mut take),
                None => parsed.entries().for_each(&mut take),
            }
        }
    }
}

/// Whether two sorted lists have a member in common.
fn in_both(one: &[&str], two: &[&str]) -> bool {
    let (few, many) = if one.len() < two.len() { (one, two) } else { (two, one) };
    few.iter().any(|key| many.binary_search(key).is_ok())
}

/// A path entry and a child's name, as one path; the current folder adds nothing.
pub fn join(entry: &OsStr, child: &OsStr) -> PathBuf {
    Path::new(entry).join(child)
}

/// What decides between copies of one distribution.
#[derive(Debug, Default)]
pub struct Weight {
    /// There is a METADATA or PKG-INFO that can be read and is not empty.
    pub valid: bool,
    /// There is none, or it is empty: nobody will miss the folder.
    pub missing: bool,
    /// By that file, else by the folder's name.
    pub version: String,
    /// That file, below the path entry.
    pub file: OsString,
    /// Its stamp.
    pub stamp: Option<Stamp>,
}

/// Orders copies of one distribution, each with the number of its path entry and its folder's name: the valid one
/// first, then the first on the path, then the higher version.
pub fn better(one: (&Weight, (usize, &OsStr)), two: (&Weight, (usize, &OsStr))) -> Ordering {
    let ((a, (a_entry, a_name)), (b, (b_entry, b_name))) = (one, two);
    (b.valid.cmp(&a.valid))
        .then_with(|| a_entry.cmp(&b_entry))
        .then_with(|| version_order::higher(&b.version, &a.version))
        .then_with(|| a_name.cmp(b_name))
}

/// Weighs one copy below a path entry.
pub fn weigh(entry: &OsStr, info: &DistInfo) -> Weight {
    let Ok(folder) = Folder::open(entry) else {
        return Weight::default();
    };
    let file = info.metadata_path(&folder);
    let by_name = || {
        let stem = info.folder_name.to_string_lossy();
        let stem = stem.rsplit_once('.').map_or(&*stem, |(stem, _)| stem);
        split_folder_name(stem).1.unwrap_or_default().to_owned()
    };
    match folder.read(&file, Extent::Head(METADATA_HEAD)) {
        Ok(content) => Weight {
            valid: !content.bytes.is_empty(),
            missing: content.bytes.is_empty(),
            version: header(&content.bytes, "Version").map_or_else(by_name, Cow::into_owned),
            stamp: Some(content.stamp),
            file,
        },
        Err(fault) => Weight {
            valid: false,
            missing: fault == Fault::Absent,
            version: by_name(),
            stamp: folder.stamp_of(&file).ok(),
            file,
        },
    }
}
