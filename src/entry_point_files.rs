//! A folder's metadata entries in, the content of each one's `entry_points.txt` out.
//!
//! What an earlier pass read is taken over where the file's stamp proves it unchanged. One thread, unless the
//! storage proves slow.

use std::ffi::{CStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::dist_info::DistInfo;
use crate::entry_points::Parsed;
use crate::files::{self, Extent, Fault, Folder, Kind, Stamp};

/// Largest `entry_points.txt` that is read, in bytes. The largest real ones have some 50 KB.
pub const LARGEST: u64 = 32 * 1024 * 1024;

/// Mean time for one distribution above which storage counts as slow (warm: 3 µs, cold disk: 160-310 µs).
const SLOW: Duration = Duration::from_micros(60);
/// Distributions looked at before the pace is judged.
const SAMPLE: usize = 8;
/// Readers at once on slow storage; more gained nothing on a cold disk.
const READERS: usize = 16;

/// What an `entry_points.txt` held.
#[derive(Debug)]
pub enum Points {
    /// There is none.
    Absent,
    /// Its entry points.
    Parsed(Parsed),
    /// A byte that is not UTF-8, on this line.
    NotUtf8 {
        /// From 1.
        line: u32,
    },
    /// It could not be read.
    Unread(Fault),
}

/// What was read, and the stamp that proves it.
#[derive(Debug)]
pub struct PointsFile {
    stamp: Option<Stamp>,
    settled: bool,
    /// The content.
    pub points: Points,
}

impl PointsFile {
    /// The entry points, if the file is sound.
    pub fn parsed(&self) -> Option<&Parsed> {
        match &self.points {
            Points::Parsed(parsed) => Some(parsed),
            _ => None,
        }
    }
}

/// Remembers over several folders whether storage is slow.
#[derive(Debug, Default)]
pub struct Pace {
    slow: AtomicBool,
}

/// Reads the files of all `infos`, in their order.
///
/// `previous` gives what an earlier pass read for the info of this number, if any.
pub fn read_all(
    folder: &Folder,
    infos: &[DistInfo],
    pace: &Pace,
    previous: impl Fn(usize) -> Option<Arc<PointsFile>> + Sync,
) -> Vec<Arc<PointsFile>> {
    let absent = Arc::new(PointsFile {
        stamp: None,
        settled: true,
        points: Points::Absent,
    });
    let mut out = Vec::with_capacity(infos.len());
    let mut path = Vec::with_capacity(128);
    let started = Instant::now();
    let mut slow = pace.slow.load(Ordering::Relaxed);
    for (number, info) in infos.iter().enumerate() {
        if slow {
            break;
        }
        out.push(read_one(folder, info, &mut path, &absent, previous(number)));
        // one look at the clock for four distributions
        if number % 4 == 3 && out.len() >= SAMPLE {
            let allowed = SLOW * u32::try_from(out.len()).unwrap_or(u32::MAX);
            slow = started.elapsed() > allowed;
        }
    }
    if slow {
        pace.slow.store(true, Ordering::Relaxed);
        read_rest(folder, infos, &absent, &previous, &mut out);
    }
    out
}

/// The rest of a slow folder, by many readers; in line where none can be started.
fn read_rest(
    folder: &Folder,
    infos: &[DistInfo],
    absent: &Arc<PointsFile>,
    previous: &(impl Fn(usize) -> Option<Arc<PointsFile>> + Sync),
    out: &mut Vec<Arc<PointsFile>>,
) {
    let first = out.len();
    let next = AtomicUsize::new(first);
    let work = || {
        let mut mine = Vec::new();
        let mut path = Vec::with_capacity(128);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(info) = infos.get(number) else { return mine };
            mine.push((number, read_one(folder, info, &mut path, absent, previous(number))));
        }
    };
    let mut read: Vec<(usize, Arc<PointsFile>)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..READERS.min(infos.len() - first))
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut read = work();
        for other in others {
            // a reader that panicked leaves gaps, which are read again below
            read.extend(other.join().unwrap_or_default());
        }
        read
    });
    read.sort_unstable_by_key(|(number, _)| *number);
    let mut read = read.into_iter().peekable();
    let mut path = Vec::new();
    for (number, info) in infos.iter().enumerate().skip(first) {
        out.push(match read.next_if(|(at, _)| *at == number) {
            Some((_, file)) => file,
            None => read_one(folder, info, &mut path, absent, previous(number)),
        });
    }
}

fn read_one(
    folder: &Folder,
    info: &DistInfo,
    path: &mut Vec<u8>,
    absent: &Arc<PointsFile>,
    previous: Option<Arc<PointsFile>>,
) -> Arc<PointsFile> {
    // metadata that is a plain file holds no other file
    if info.kind == Kind::File {
        return previous.unwrap_or_else(|| Arc::clone(absent));
    }
    path.clear();
    path.extend_from_slice(info.folder_name.as_encoded_bytes());
    path.extend_from_slice(b"/entry_points.txt\0");
    let Ok(name) = CStr::from_bytes_with_nul(path) else {
        return Arc::clone(absent);
    };
    // most have no such file, and looking costs less than trying to open it
    let stamp = match (folder.stamp_of_c(name), previous) {
        (Err(Fault::Absent), Some(previous)) if matches!(previous.points, Points::Absent) => return previous,
        (Err(Fault::Absent), _) => return Arc::clone(absent),
        (Ok(now), Some(previous)) if previous.settled && previous.stamp == Some(now) => return previous,
        (stamp, _) => stamp,
    };
    // the stamp is older than the content, so that no later change can hide behind it
    let read = stamp.and_then(|stamp| folder.read_stamped(name, stamp, Extent::Whole(LARGEST)));
    Arc::new(match read {
        Ok(content) => PointsFile {
            stamp: Some(content.stamp),
            settled: content.stamp.settled(files::now_ns()),
            points: match Parsed::from_bytes(content.bytes) {
                Ok(parsed) => Points::Parsed(parsed),
                Err(error) => Points::NotUtf8 { line: error.line },
            },
        },
        Err(Fault::Absent) => return Arc::clone(absent),
        Err(fault) => PointsFile {
            stamp: None,
            settled: false,
            points: Points::Unread(fault),
        },
    })
}

/// Where the file of one info stands below the path entry.
pub fn file_of(info: &DistInfo) -> OsString {
    info.file("entry_points.txt")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist_info;

    fn site(count: usize) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for number in 0..count {
            let info = root.path().join(format!("p{number}-1.dist-info"));
            std::fs::create_dir(&info).unwrap();
            if number % 3 != 0 {
                std::fs::write(info.join("entry_points.txt"), format!("[g]\nn{number} = m:f\n")).unwrap();
            }
        }
        root
    }

    fn names(files: &[Arc<PointsFile>]) -> Vec<Option<String>> {
        files
            .iter()
            .map(|file| {
                file.parsed()
                    .and_then(|parsed| parsed.entries().next().map(|entry| entry.name.to_owned()))
            })
            .collect()
    }

    #[test]
    fn many_readers_give_the_same_in_the_same_order_as_one() {
        let root = site(100);
        let folder = Folder::open(root.path().as_os_str()).unwrap();
        let infos = dist_info::list(&folder).unwrap();
        let one = read_all(&folder, &infos, &Pace::default(), |_| None);
        let many = read_all(
            &folder,
            &infos,
            &Pace {
                slow: AtomicBool::new(true),
            },
            |_| None,
        );
        assert_eq!(names(&one), names(&many));
        assert_eq!(names(&one).iter().flatten().count(), 66);
    }

    #[test]
    fn a_file_that_just_changed_is_read_again() {
        let root = site(2);
        let folder = Folder::open(root.path().as_os_str()).unwrap();
        let infos = dist_info::list(&folder).unwrap();
        let first = read_all(&folder, &infos, &Pace::default(), |_| None);
        let again = read_all(&folder, &infos, &Pace::default(), |number| {
            Some(Arc::clone(&first[number]))
        });
        for (before, after) in first.iter().zip(&again) {
            // absence is proved by each look; a young file proves nothing
            assert_eq!(Arc::ptr_eq(before, after), before.parsed().is_none());
        }
    }
}
