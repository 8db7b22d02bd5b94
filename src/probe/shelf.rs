//! Many small files in many folders, each behind a link: what a pass over the PCI functions is made of.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::root::{Root, children};
use crate::files::{Fault, Folder, Kind};

/// An open folder whose children are folders of small files, or links to such folders.
pub(super) struct Shelf<'a> {
    root: &'a Root,
    path: &'a str,
    /// The same without links.
    real: PathBuf,
    folder: Folder,
    /// Whether nothing odd can stand here.
    tame: bool,
    /// Where an earlier link led: most lead there, or further down from there.
    near: RefCell<Option<Near>>,
}

/// A folder of the root that the links of a shelf lead into.
struct Near {
    /// What the links say of it.
    said: String,
    folder: Folder,
    /// What is no link below it, nor is any folder that it stands in.
    plain: HashSet<String>,
}

impl<'a> Shelf<'a> {
    pub(super) fn open(root: &'a Root, path: &'a str) -> Result<Self, Fault> {
        let (real, folder) = root.open(path)?;
        Ok(Self {
            root,
            path,
            tame: root.is_machine() && folder.is_sysfs(),
            real,
            folder,
            near: RefCell::default(),
        })
    }

    /// See [`children`].
    pub(super) fn names(&self) -> Result<Vec<(String, Kind)>, Fault> {
        children(&self.folder)
    }

    /// [`Root::head`] of a small file in one of the children, as much of it as the buffer holds.
    ///
    /// There may be hundreds of children, and every system call counts. In sysfs itself the file is opened at once.
    /// Below any other root it is looked at first; a child's link is read and taken apart here, and a folder that it
    /// leads into stays open for those that come after. What is less plain than that goes the long way.
    pub(super) fn head<'b>(
        &self,
        child: &str,
        kind: Kind,
        name: &str,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], Fault> {
        if self.tame {
            return self.folder.read_into(&joined(child, name), buffer, 1);
        }
        if !self.root.is_machine() {
            let target = match kind {
                Kind::Link | Kind::Unknown => self.folder.link_of(OsStr::new(child))?,
                _ => None,
            };
            let found = match target {
                None => regular(&self.folder, &joined(child, name), buffer)?,
                Some(target) => self.linked(target.to_str().unwrap_or_default(), name, buffer)?,
            };
            if let Some(length) = found {
                return Ok(&buffer[..length]);
            }
        }
        let bytes = self.root.head(&format!("{}/{child}/{name}", self.path), buffer.len())?;
        let filled = &mut buffer[..bytes.len()];
        filled.copy_from_slice(&bytes);
        Ok(filled)
    }

    /// Reads a file in the folder that a link leads to; None where that is less plain than the kernel's own links are.
    fn linked(&self, target: &str, name: &str, buffer: &mut [u8]) -> Result<Option<usize>, Fault> {
        let mut near = self.near.borrow_mut();
        if near.as_ref().is_none_or(|known| below(&known.said, target).is_none()) {
            let Some(said) = common(target) else {
                return Ok(None);
            };
            let real = self.root.walk(&self.real, Path::new(said))?;
            *near = Some(Near {
                said: said.to_owned(),
                folder: Folder::open_unlisted(real.as_os_str())?,
                plain: HashSet::new(),
            });
        }
        let known = near
            .as_mut()
            .and_then(|known| Some((below(&known.said, target)?, known)));
        let Some((rest, known)) = known else {
            return Ok(None);
        };
        for (end, _) in rest.match_indices('/').chain([(rest.len(), "")]) {
            let upper = &rest[..end];
            if known.plain.contains(upper) {
                continue;
            }
            if known.folder.link_of(OsStr::new(upper))?.is_some() {
                return Ok(None);
            }
            known.plain.insert(upper.to_owned());
        }
        regular(&known.folder, &joined(rest, name), buffer)
    }
}

/// What a link of the kernel's says like its neighbours': the way up and the first name, as `../../../devices`.
fn common(target: &str) -> Option<&str> {
    let mut start = 0;
    for (end, _) in target.match_indices('/') {
        if !matches!(&target[start..end], "" | "." | "..") {
            return Some(&target[..end]);
        }
        start = end + 1;
    }
    let (said, _) = target.rsplit_once('/')?;
    (!said.is_empty()).then_some(said)
}

/// What leads down from one path to the other, by nothing but names.
fn below<'a>(upper: &str, lower: &'a str) -> Option<&'a str> {
    let rest = lower.strip_prefix(upper)?.strip_prefix('/')?;
    let named = |part: &str| !matches!(part, "" | "." | "..");
    rest.split('/').all(named).then_some(rest)
}

fn joined(folder: &str, name: &str) -> OsString {
    let mut path = String::with_capacity(folder.len() + 1 + name.len());
    path.push_str(folder);
    path.push('/');
    path.push_str(name);
    path.into()
}

/// Reads a regular file and says how much of it; None where a link stands there.
fn regular(folder: &Folder, name: &OsStr, buffer: &mut [u8]) -> Result<Option<usize>, Fault> {
    let stamp = folder.stamp_of_itself(name)?;
    if stamp.kind == Kind::Link {
        return Ok(None);
    }
    if let Some(fault) = stamp.unreadable() {
        return Err(fault);
    }
    // some file systems say no size
    let enough = if stamp.size == 0 { u64::MAX } else { stamp.size };
    let read = folder.read_into(name, buffer, enough)?;
    Ok(Some(read.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::Site;
    use super::*;

    const SHELF: &str = "/sys/bus/pci/devices";

    /// What files in the children of the shelf hold, or `-`, one after the other by the same shelf.
    fn read(site: &Site, names: &[&str]) -> Vec<String> {
        let root = site.root();
        let shelf = Shelf::open(&root, SHELF).unwrap();
        let kinds = shelf.names().unwrap();
        let one = |child: &&str| {
            let kind = kinds.iter().find(|(name, _)| name == child).unwrap().1;
            let mut buffer = [0; 16];
            let bytes = shelf.head(child, kind, "uevent", &mut buffer);
            bytes.map_or("-".to_owned(), |bytes| String::from_utf8(bytes.to_vec()).unwrap())
        };
        names.iter().map(one).collect()
    }

    fn child(site: &Site, name: &str, target: &str) {
        site.link(&format!("sys/bus/pci/devices/{name}"), target);
    }

    #[test]
    fn links_like_the_kernels_are_followed_behind_bridges_too() {
        let site = Site::new();
        let places = ["0/a", "0/a/b", "0/a/b/c", "0/d", "1/e", "0/a/f"];
        for (number, place) in places.into_iter().enumerate() {
            site.file(&format!("sys/devices/{place}/uevent"), place);
            child(&site, &number.to_string(), &format!("../../../devices/{place}"));
        }
        assert_eq!(read(&site, &["0", "1", "2", "3", "4", "5"]), places);
        assert_eq!(read(&site, &["2", "1", "0", "5", "4", "3"])[2], "0/a");
    }

    #[test]
    fn every_other_kind_of_link_is_followed_inside() {
        let site = Site::new();
        site.file("sys/devices/0/a/uevent", "a");
        site.file("uevent", "top");
        site.file("b/uevent", "b");
        site.link("sys/devices/0/link", "a");
        site.link("sys/devices/by-link", "0");
        site.link("sys/devices/0/c/uevent", "../a/uevent");
        let links = [
            ("0", "../../../devices/0/a", "a"),
            ("1", "/sys/devices/0/a", "a"),
            ("2", "../../../devices/0/link", "a"),
            ("3", "../../../devices/by-link/a", "a"),
            ("4", "../../../devices/0/c", "a"),
            ("5", "3", "a"),
            ("6", "/b", "b"),
            ("7", "/", "top"),
            ("8", "../../../../../../../../b", "b"),
            ("9", "../../../devices/0/a/../../../../b/.", "b"),
            ("a", "../../../devices//0/./a/", "a"),
            ("b", "./0", "a"),
            ("c", "../../../devices/0/by/..", "-"),
        ];
        for (name, target, _) in links {
            child(&site, name, target);
        }
        let names = links.map(|(name, ..)| name);
        assert_eq!(read(&site, &names), links.map(|(.., text)| text));
    }

    #[test]
    fn no_link_leads_out() {
        let (site, other) = (Site::new(), Site::new());
        other.file("a/uevent", "outside");
        other.file("a/b/uevent", "outside");
        let outside = other.path("").display().to_string();
        let up = "../".repeat(40);
        site.file("sys/devices/0/z/uevent", "z");
        site.link("sys/devices/out", &outside);
        site.link("sys/devices/0/out", &format!("{outside}/a"));
        site.link("sys/devices/0/up", &format!("{up}{outside}/a"));
        site.link("sys/devices/0/c/uevent", &format!("{outside}/a/uevent"));
        let targets = [
            format!("{outside}/a"),
            format!("{up}{outside}/a"),
            "../../../devices/out/a".to_owned(),
            "../../../devices/0/out".to_owned(),
            "../../../devices/0/up".to_owned(),
            "../../../devices/0/up/b".to_owned(),
            "../../../devices/0/out/b".to_owned(),
            "../../../devices/0/c".to_owned(),
        ];
        // the folder that they stand in is open by then
        child(&site, "z", "../../../devices/0/z");
        for (number, target) in targets.iter().enumerate() {
            assert!(
                std::fs::exists(site.path("sys/bus/pci/devices").join(target)).unwrap(),
                "{target}"
            );
            child(&site, &number.to_string(), target);
            let number = number.to_string();
            assert_eq!(read(&site, &["z", &number, "z"]), ["z", "-", "z"], "{target}");
        }
    }

    #[test]
    fn loops_end() {
        let site = Site::new();
        site.link("sys/devices/0/a", "b");
        site.link("sys/devices/0/b", "a");
        site.link("sys/devices/1", "/sys/devices/1/1");
        site.link("sys/devices/2/uevent", "uevent");
        for (name, target) in [
            ("0", "0"),
            ("1", "2"),
            ("2", "1"),
            ("3", "../../../devices/0/a"),
            ("4", "../../../devices/1/a"),
            ("5", "../devices/5"),
            ("6", "../../../devices/2"),
        ] {
            child(&site, name, target);
        }
        assert_eq!(read(&site, &["0", "1", "2", "3", "4", "5", "6"]), ["-"; 7]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_regular_file_is_never_opened() {
        use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
        use std::mem::MaybeUninit;

        let site = Site::new();
        let places = [
            "sys/devices/0/a/uevent",
            "sys/bus/pci/devices/b/uevent",
            "sys/devices/0/pipe",
        ];
        for place in places {
            site.pipe(place);
        }
        child(&site, "a", "../../../devices/0/a");
        site.link("sys/devices/0/c/uevent", "../pipe");
        child(&site, "c", "../../../devices/0/c");
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        for place in places {
            inotify::add_watch(&watch, site.path(place), WatchFlags::OPEN).unwrap();
        }
        let opened = || {
            let mut room = [MaybeUninit::uninit(); 512];
            inotify::Reader::new(&watch, &mut room).next().is_ok()
        };
        assert_eq!(read(&site, &["a", "b", "c"]), ["-"; 3]);
        assert!(!opened());
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::open(site.path(places[0]), flags, rustix::fs::Mode::empty()).unwrap();
        assert!(opened(), "the watch sees what is opened");
    }

    #[test]
    fn as_much_is_read_as_there_is_room_for() {
        let site = Site::new();
        for (name, text) in [("a", ""), ("b", "0123456789abcdef"), ("c", "0123456789abcdefg")] {
            site.file(&format!("sys/bus/pci/devices/{name}/uevent"), text);
        }
        let cut = "0123456789abcdef";
        assert_eq!(read(&site, &["a", "b", "c"]), ["", cut, cut]);
    }

    /// A path of few names, so that it often leads somewhere.
    fn target() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec!["..", "..", ".", "a", "b", "x", "sys", "bus", "pci", "devices"]);
        (
            prop::sample::select(vec!["", "", "/", "../../../"]),
            prop::collection::vec(part, 1..6),
        )
            .prop_map(|(start, parts)| start.to_owned() + &parts.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(192))]

        #[test]
        fn the_short_way_finds_what_the_long_way_finds(
            inner in prop::collection::vec((target(), target(), any::<bool>()), 0..8),
            outer in prop::collection::vec(target(), 1..8),
        ) {
            let site = Site::new();
            for place in ["uevent", "a/uevent", "a/b/uevent", "sys/devices/uevent", "sys/devices/a/uevent",
                          "sys/devices/a/b/uevent", "sys/bus/pci/devices/x/uevent"] {
                site.file(place, place);
            }
            for (place, target, of_file) in &inner {
                // where it fits: what stands there already stays
                let end = if *of_file { "/uevent" } else { "" };
                let place = format!("{}{end}", place.replace("..", "")).replace("//", "/");
                let (place, target) = (site.path(place.trim_start_matches('/')), format!("{target}{end}"));
                let _there = place.parent().map(std::fs::create_dir_all);
                let _there = std::os::unix::fs::symlink(target, place);
            }
            for (number, target) in outer.iter().enumerate() {
                child(&site, &format!("n{number}"), target);
            }
            let root = site.root();
            let shelf = Shelf::open(&root, SHELF).unwrap();
            for (name, kind) in shelf.names().unwrap() {
                let mut buffer = [0; 64];
                let short = shelf.head(&name, kind, "uevent", &mut buffer).ok();
                let long = site.root().head(&format!("{SHELF}/{name}/uevent"), 64).ok();
                prop_assert_eq!(short, long.as_deref(), "{}", name);
            }
        }
    }
}
