//! An open folder in, the metadata folders and files in it out, in the order of the file system.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

use crate::files::{Content, Extent, Fault, Folder, Kind, Stamp};
use crate::metadata;
use crate::name::{NormalizedName, split_folder_name};

/// As much of METADATA as is read for a name or a version; a header block is far smaller.
pub const METADATA_HEAD: usize = 64 * 1024;
/// Room for this many infos before a listing has to grow.
const FIRST_ROOM: usize = 64;

/// The two forms of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `X.dist-info`, with METADATA.
    DistInfo,
    /// `X.egg-info`, a folder with PKG-INFO, or that file itself.
    EggInfo,
}

impl Form {
    /// The file that holds the header block.
    #[must_use]
    pub fn metadata_file(self) -> &'static str {
        match self {
            Self::DistInfo => "METADATA",
            Self::EggInfo => "PKG-INFO",
        }
    }
}

/// Which distribution a metadata folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The one that the folder's name says.
    FolderName,
    /// The one that its metadata says, since the folder's name is ambiguous.
    OwnName(NormalizedName),
    /// None: the name starts with `~`; pip moved it aside and was interrupted.
    Interrupted,
    /// None: there is no name before the version.
    Nameless,
    /// None: a link that leads nowhere.
    Dangling,
}

/// One child of a path entry that bears the name of a metadata folder. Nothing of it has been read yet,
/// unless its name had to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistInfo {
    /// Name of the child, as listed.
    pub folder_name: OsString,
    /// Which form of metadata it is.
    pub form: Form,
    /// What the listing says it is.
    pub kind: Kind,
    /// Mended identity.
    pub identity: Identity,
    /// The project's name as cut from the folder's name: the key under which `importlib.metadata` lists it.
    pub folder_key: NormalizedName,
    /// Whether `folder_key` is exactly what the interpreter computes: plain ASCII.
    pub listing_exact: bool,
    /// Whether the interpreter takes `folder_key` for the uniqueness key too and does not read METADATA for it.
    pub unique_exact: bool,
    /// The files beside the folder's listing that decided the identity, with their stamps: the target of a link, and
    /// where the name is ambiguous, the metadata.
    pub sources: Vec<(OsString, Option<Stamp>)>,
}

impl DistInfo {
    /// The uniqueness key, unless the folder is to be ignored.
    pub fn key(&self) -> Option<&NormalizedName> {
        match &self.identity {
            Identity::FolderName => Some(&self.folder_key),
            Identity::OwnName(name) => Some(name),
            Identity::Interrupted | Identity::Nameless | Identity::Dangling => None,
        }
    }

    /// The child's name below the path entry, with a file's name behind it.
    #[must_use]
    pub fn file(&self, name: &str) -> OsString {
        let mut path = OsString::with_capacity(self.folder_name.len() + 1 + name.len());
        path.push(&self.folder_name);
        path.push("/");
        path.push(name);
        path
    }

    /// The file that holds the header block, below the path entry.
    #[must_use]
    pub fn metadata_path(&self, folder: &Folder) -> OsString {
        let is_file = match self.kind {
            Kind::File => true,
            Kind::Folder => false,
            _ => folder
                .stamp_of(&self.folder_name)
                .is_ok_and(|stamp| stamp.kind == Kind::File),
        };
        if is_file {
            self.folder_name.clone()
        } else {
            self.file(self.form.metadata_file())
        }
    }
}

/// The distribution as its folder's name says it: `name version`, or the name alone.
pub fn label(folder_name: &OsStr) -> String {
    let text = folder_name.to_string_lossy();
    let stem = text.rsplit_once('.').map_or(&*text, |(stem, _)| stem);
    match split_folder_name(stem) {
        (name, Some(version)) => format!("{name} {version}"),
        (name, None) => name.to_owned(),
    }
}

/// The first value of a field in a header block, mended reading.
pub fn header<'a>(bytes: &'a [u8], field: &str) -> Option<Cow<'a, str>> {
    match metadata::first(bytes, field, false) {
        metadata::First::Found(value) => Some(value),
        metadata::First::Absent | metadata::First::Odd => None,
    }
}

/// Lists the metadata of one open folder.
///
/// # Errors
/// The [`Fault`] that ended the listing.
pub fn list(folder: &Folder) -> Result<Vec<DistInfo>, Fault> {
    let mut found = Vec::with_capacity(FIRST_ROOM);
    let mut unclear = Vec::new();
    folder.list(|name, kind| {
        if let Some((info, ambiguous)) = recognise(name, kind) {
            if ambiguous || kind == Kind::Link {
                unclear.push((found.len(), ambiguous));
            }
            found.push(info);
        }
    })?;
    for (number, ambiguous) in unclear {
        let Some(info) = found.get_mut(number) else { continue };
        if info.kind == Kind::Link {
            // where it leads does not show in the folder's own stamp
            let target = folder.stamp_of(&info.folder_name);
            if target == Err(Fault::Absent) {
                info.identity = Identity::Dangling;
            }
            info.sources.push((info.folder_name.clone(), target.ok()));
        }
        if ambiguous && info.identity != Identity::Dangling {
            name_from_metadata(folder, info);
        }
    }
    Ok(found)
}

/// The name and form of a metadata child, by its suffix in any case, and whether its name is ambiguous.
fn recognise(child: &OsStr, kind: Kind) -> Option<(DistInfo, bool)> {
    let bytes = child.as_encoded_bytes();
    // most children end otherwise
    if !bytes.last().is_some_and(|last| last.eq_ignore_ascii_case(&b'o')) {
        return None;
    }
    [(".dist-info", Form::DistInfo), (".egg-info", Form::EggInfo)]
        .into_iter()
        .find_map(|(wanted, form)| {
            let (stem, suffix) = bytes.split_at_checked(bytes.len().checked_sub(wanted.len())?)?;
            let matches = suffix.eq_ignore_ascii_case(wanted.as_bytes());
            matches.then(|| describe(child, stem, suffix == wanted.as_bytes(), form, kind))
        })
}

fn describe(child: &OsStr, stem: &[u8], exact_suffix: bool, form: Form, kind: Kind) -> (DistInfo, bool) {
    let listing_exact = stem.is_ascii();
    let text = String::from_utf8_lossy(stem);
    let (project, rest) = match memchr::memchr(b'-', text.as_bytes()) {
        Some(dash) => (&text[..dash], Some(&text[dash + 1..])),
        None => (&*text, None),
    };
    let identity = if text.starts_with('~') {
        Identity::Interrupted
    } else if project.is_empty() {
        Identity::Nameless
    } else {
        Identity::FolderName
    };
    let ambiguous = identity == Identity::FolderName && rest.is_some_and(|rest| !is_version(rest));
    let info = DistInfo {
        folder_name: child.to_owned(),
        form,
        kind,
        identity,
        folder_key: NormalizedName::new(project),
        listing_exact,
        // `os.path.splitext` takes leading dots for part of the name, so a stem of dots alone has no suffix
        unique_exact: listing_exact && exact_suffix && !project.is_empty() && stem.iter().any(|byte| *byte != b'.'),
        sources: Vec::new(),
    };
    (info, ambiguous)
}

/// Whether the text behind the first dash is a version, perhaps with `-py3.9` and a platform behind it.
///
/// Where it is not, the dash may belong to the project's name.
fn is_version(rest: &str) -> bool {
    let end = memchr::memchr(b'-', rest.as_bytes()).unwrap_or(rest.len());
    let first = &rest[..end];
    match first.as_bytes() {
        [b'0'..=b'9', more @ ..] if more.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') => true,
        // the escape of file names: `_` stands for `-` or `+`
        [b'0'..=b'9' | b'v', ..] => ["+", "-"]
            .iter()
            .any(|sign| first.replace('_', sign).parse::<pep440_rs::Version>().is_ok()),
        _ => false,
    }
}

fn name_from_metadata(folder: &Folder, info: &mut DistInfo) {
    let path = info.metadata_path(folder);
    let read = folder.read(&path, Extent::Head(METADATA_HEAD));
    let stamp = match &read {
        Ok(Content { stamp, .. }) => Some(*stamp),
        Err(_) => folder.stamp_of(&path).ok(),
    };
    if let Ok(content) = read
        && let Some(own) = header(&content.bytes, "Name")
        && !own.trim().is_empty()
    {
        info.identity = Identity::OwnName(NormalizedName::new(own.trim()));
    }
    info.sources.push((path, stamp));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn listed(root: &Path) -> Vec<DistInfo> {
        let mut found = list(&Folder::open(root.as_os_str()).unwrap()).unwrap();
        found.sort_by(|a, b| a.folder_name.cmp(&b.folder_name));
        found
    }

    fn key(info: &DistInfo) -> &str {
        match &info.identity {
            Identity::Interrupted => "(interrupted)",
            Identity::Nameless => "(nameless)",
            Identity::Dangling => "(dangling)",
            Identity::FolderName | Identity::OwnName(_) => info.key().unwrap().as_str(),
        }
    }

    #[test]
    fn a_child_counts_by_its_suffix_alone() {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "a-1.dist-info",
            "B.C-2.DIST-INFO",
            "d.egg-info",
            "e-1.dist-info.bak",
            "plain",
            ".egg-info",
        ] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        fs::write(root.path().join("f-1-py3.9.egg-info"), "Name: f\n").unwrap();
        let found: Vec<_> = listed(root.path()).iter().map(|info| key(info).to_owned()).collect();
        assert_eq!(found, ["(nameless)", "b_c", "a", "d", "f"]);
    }

    #[test]
    fn remains_of_an_interrupted_pip_and_nameless_folders_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        for name in ["~ip-23.dist-info", "-ip-23.dist-info", ".dist-info"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let found: Vec<_> = listed(root.path()).iter().map(|info| key(info).to_owned()).collect();
        assert_eq!(found, ["(nameless)", "(nameless)", "(interrupted)"]);
    }

    #[test]
    fn a_name_cut_at_a_dash_is_read_from_pkg_info() {
        let root = tempfile::tempdir().unwrap();
        for name in [
            "flake8-plugin-utils.egg-info",
            "flake8-5.0.egg-info",
            "gone-tools.egg-info",
        ] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let info = root.path().join("flake8-plugin-utils.egg-info/PKG-INFO");
        fs::write(info, "Metadata-Version: 1.0\nName: flake8-plugin-utils\n").unwrap();
        let found = listed(root.path());
        let keys: Vec<_> = found.iter().map(key).collect();
        assert_eq!(keys, ["flake8", "flake8_plugin_utils", "gone"]);
        assert!(found[0].sources.is_empty());
        assert!(found[1].sources[0].1.is_some());
        assert!(found[2].sources[0].1.is_none());
    }

    #[test]
    fn versions_are_told_from_parts_of_a_name() {
        for version in [
            "1.0",
            "2004",
            "1.0rc1",
            "1.0_local",
            "1!2.0",
            "1.0-py3.9",
            "v1.2",
            "0.1.dev3+g1",
        ] {
            assert!(is_version(version), "{version}");
        }
        for part in ["plugin-utils", "2bar", "py3.9", "", "1.0bar"] {
            assert!(!is_version(part), "{part}");
        }
    }

    #[test]
    fn a_uniqueness_key_is_called_exact_only_where_the_interpreter_reads_no_metadata() {
        let info = |name: &str| recognise(OsStr::new(name), Kind::Folder).unwrap().0;
        assert!(info("Foo.Bar-1.dist-info").unique_exact);
        assert_eq!(info("Foo.Bar-1.dist-info").folder_key.as_str(), "foo_bar");
        assert!(info("~ip-1.dist-info").unique_exact);
        for odd in [
            "-1.dist-info",
            ".dist-info",
            "..dist-info",
            "Foo-1.DIST-INFO",
            "é-1.dist-info",
        ] {
            assert!(!info(odd).unique_exact, "{odd}");
        }
        assert!(info("-1.dist-info").listing_exact);
        assert!(!info("é-1.dist-info").listing_exact);
    }

    #[cfg(unix)]
    #[test]
    fn a_dangling_link_is_marked() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", root.path().join("x-1.dist-info")).unwrap();
        assert_eq!(listed(root.path())[0].identity, Identity::Dangling);
    }
}
