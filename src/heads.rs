//! A metadata folder in, its `Name` and `Version` out: read together, and kept while METADATA's stamp proves them.
//!
//! Never stale, by the rule of [`crate::memo`]; the lock is only ever tried, as there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::distribution::{self, Answer, LARGEST_METADATA, Place};
use crate::files::{Extent, Stamp, now_ns};
use crate::metadata::{self, First};

/// As much of METADATA as is read at first: both fields stand among its first lines.
const EARLY: usize = 2048;
/// Heads kept in mind; more than any environment has.
const MOST: usize = 16 * 1024;
/// The fields that are kept.
const FIELDS: [&str; 2] = ["Name", "Version"];

/// What METADATA said; `None` where that is not known.
type Values = [Option<String>; FIELDS.len()];

#[derive(Debug)]
struct Head {
    stamp: Stamp,
    values: Values,
}

/// The kept heads, of one flavour of reading.
#[derive(Debug, Default)]
pub struct Heads {
    kept: Mutex<HashMap<OsString, Head>>,
}

impl Heads {
    /// Forgets everything. Never needed for right answers.
    pub fn clear(&self) {
        let before = self.lock().map(|mut kept| std::mem::take(&mut *kept));
        drop(before);
    }

    fn lock(&self) -> Option<MutexGuard<'_, HashMap<OsString, Head>>> {
        match self.kept.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// [`distribution::header`], with the value from memory where its file is the same. `key` is the folder's full path.
    pub fn header(&self, place: Place<'_>, key: &OsStr, field: &str, strict: bool) -> Answer<Option<String>> {
        let Some(number) = FIELDS.iter().position(|kept| *kept == field) else {
            return distribution::header(place, field, strict);
        };
        if let Some((stamp, value)) = self.recall(key, number)
            && place.stamp_of("METADATA").is_ok_and(|now| now == stamp)
        {
            return Answer::Known(Some(value));
        }
        let read = if strict { whole(place) } else { early(place) };
        let Some((stamp, values)) = read else {
            return distribution::header(place, field, strict);
        };
        let value = values[number].clone();
        if stamp.settled(now_ns()) {
            self.keep(key, Head { stamp, values });
        }
        match value {
            Some(value) => Answer::Known(Some(value)),
            None => distribution::header(place, field, strict),
        }
    }

    fn recall(&self, key: &OsStr, number: usize) -> Option<(Stamp, String)> {
        let kept = self.lock()?;
        let head = kept.get(key)?;
        Some((head.stamp, head.values[number].clone()?))
    }

    fn keep(&self, key: &OsStr, head: Head) {
        let Some(mut kept) = self.lock() else { return };
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(key.to_owned(), head);
    }
}

/// The values that stand in the first lines of METADATA, mended reading.
fn early(place: Place<'_>) -> Option<(Stamp, Values)> {
    let content = place.read("METADATA", Extent::Head(EARLY)).ok()?;
    let mut bytes = content.bytes.as_slice();
    if bytes.len() == EARLY {
        // the last line may go on, or be continued by the next
        let cut = memchr::memrchr(b'\n', bytes)?;
        bytes = &bytes[..=memchr::memrchr(b'\n', &bytes[..cut])?];
    }
    Some((content.stamp, values(bytes, false)))
}

/// The values of the whole METADATA, as the standard reads it; `None` also where it is empty, which counts as absent.
fn whole(place: Place<'_>) -> Option<(Stamp, Values)> {
    let content = place.read("METADATA", Extent::Whole(LARGEST_METADATA)).ok()?;
    (!content.bytes.is_empty()).then(|| (content.stamp, values(&content.bytes, true)))
}

fn values(bytes: &[u8], strict: bool) -> Values {
    FIELDS.map(|field| match metadata::first(bytes, field, strict) {
        First::Found(value) if strict || !value.contains('\n') => Some(value.into_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, FileTimes};
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    struct Bed {
        _root: tempfile::TempDir,
        info: PathBuf,
    }

    impl Bed {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let info = root.path().join("pkg-1.dist-info");
            fs::create_dir(&info).unwrap();
            Self { _root: root, info }
        }

        fn write(&self, text: &str) {
            fs::write(self.info.join("METADATA"), text).unwrap();
        }

        fn ask(&self, heads: &Heads, field: &str, strict: bool) -> Answer<Option<String>> {
            heads.header(Place::at(&self.info), self.info.as_os_str(), field, strict)
        }
    }

    fn known(value: &str) -> Answer<Option<String>> {
        Answer::Known(Some(value.to_owned()))
    }

    #[test]
    fn a_young_file_is_read_at_each_question() {
        let (bed, heads) = (Bed::new(), Heads::default());
        for version in ["1", "2"] {
            bed.write(&format!("Name: x\nVersion: {version}\n"));
            for strict in [false, true] {
                assert_eq!(bed.ask(&heads, "Version", strict), known(version));
            }
        }
        assert!(heads.kept.lock().unwrap().is_empty());
    }

    #[test]
    fn a_settled_file_is_read_once_and_again_when_its_stamp_changes() {
        for strict in [false, true] {
            let (bed, heads) = (Bed::new(), Heads::default());
            bed.write("Name: x\nVersion: 1\n");
            std::thread::sleep(Duration::from_millis(2100));
            assert_eq!(bed.ask(&heads, "Name", strict), known("x"));
            assert_eq!(
                heads.kept.lock().unwrap()[bed.info.as_os_str()].values[1].as_deref(),
                Some("1")
            );
            assert_eq!(bed.ask(&heads, "Version", strict), known("1"));
            bed.write("Name: y\nVersion: 2\n");
            // back to where it was: the time of the inode's change still tells
            let before = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(60));
            File::options()
                .write(true)
                .open(bed.info.join("METADATA"))
                .unwrap()
                .set_times(before)
                .unwrap();
            assert_eq!(bed.ask(&heads, "Version", strict), known("2"));
            fs::remove_file(bed.info.join("METADATA")).unwrap();
            assert_eq!(bed.ask(&heads, "Version", strict), Answer::Known(None));
        }
    }

    #[test]
    fn a_field_beyond_the_first_lines_is_found() {
        let (bed, heads) = (Bed::new(), Heads::default());
        let many = "Classifier: Some :: Kind\n".repeat(200);
        bed.write(&format!("Name: x\n{many}Version: 3\n\nbody\n"));
        assert_eq!(bed.ask(&heads, "Version", false), known("3"));
        bed.write(&format!("Name: x\nVersion: 1\n {}\n", "2".repeat(EARLY)));
        assert_ne!(bed.ask(&heads, "Version", false), known("1"));
    }

    #[test]
    fn a_lock_that_is_taken_is_not_waited_for() {
        let (bed, heads) = (Bed::new(), Heads::default());
        bed.write("Name: x\nVersion: 1\n");
        let guard = heads.kept.lock().unwrap();
        assert_eq!(bed.ask(&heads, "Version", false), known("1"));
        heads.clear();
        drop(guard);
    }
}
