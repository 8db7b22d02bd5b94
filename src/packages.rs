//! A path in, what `packages_distributions` needs of each of its distributions out.
//!
//! The folder of a path entry is opened once and everything is read relative to it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::distribution::{Answer, Place, TopLevel, top_level};
use crate::files::Folder;
use crate::heads::Heads;
use crate::import_names::Rules;
use crate::memo::Scanner;
use crate::scan::{Scanned, State, join};
use crate::standard;

/// Import names with the name of the distribution; without names (odd), its metadata folder.
pub type Provided = (Option<Vec<String>>, OsString);

/// Of all distributions that provide any import name, in our own order; `None`: a path entry is left to the interpreter.
pub fn mended(
    scanner: &Scanner,
    heads: &Heads,
    paths: &[OsString],
    generation: u8,
    suffixes: &[String],
) -> Option<Vec<Provided>> {
    let survey = scanner.survey(paths);
    if survey
        .entries
        .iter()
        .any(|(_, scanned)| matches!(scanned, Scanned::Deferred(_)))
    {
        return None;
    }
    let suffixes: Vec<&str> = suffixes.iter().map(String::as_str).collect();
    let rules = Rules {
        generation,
        suffixes: &suffixes,
        mended: true,
    };
    let mut out = Vec::with_capacity(survey.rows.len());
    let mut opened: Option<(usize, Option<Folder>)> = None;
    for row in survey.rows.iter().filter(|row| row.state != State::Ignored) {
        let entry = survey.entries[row.entry].0.as_os_str();
        let (_, folder) = match &mut opened {
            Some(opened) if opened.0 == row.entry => opened,
            other => other.insert((row.entry, Folder::open(entry).ok())),
        };
        // gone since it was listed
        let Some(folder) = folder else { continue };
        let info = survey.info(row);
        let (place, full) = (place(folder, &info.folder_name), survey.path(row));
        match top_level(place, Some(folder), rules) {
            Answer::Odd => out.push((None, full.into_os_string())),
            Answer::Known(top) => {
                let names: Vec<String> = importable(top, generation);
                if names.is_empty() {
                    continue;
                }
                let name = match heads.header(place, full.as_os_str(), "Name", false) {
                    Answer::Known(Some(name)) => name,
                    // metadata without a name is filed under its folder's
                    _ => info.key().map_or_else(String::new, |key| key.as_str().to_owned()),
                };
                out.push((Some(names), name.into()));
            }
        }
    }
    Some(out)
}

/// The names that can be imported: a set of them is filtered, the first releases' and declared ones are not.
fn importable(top: TopLevel, generation: u8) -> Vec<String> {
    let all = top.declared || generation <= 11;
    let names = top.names.into_iter().flatten();
    names.filter(|name| all || !name.contains('.')).collect()
}

/// One metadata child, as `importlib.metadata` would read it.
#[derive(Debug)]
pub struct Child {
    /// Its name.
    pub folder_name: OsString,
    /// The import names.
    pub top: Answer<TopLevel>,
    /// The distribution's name; `None` also where nobody asks, since there are no import names.
    pub name: Answer<Option<String>>,
}

/// The metadata children of one path entry, in the interpreter's order.
///
/// Import names stand before any filter, since the order of the interpreter's set depends on all of them. `None`: odd.
pub fn strict(
    scanner: &Scanner,
    heads: &Heads,
    path: &OsString,
    generation: u8,
    suffixes: &[String],
) -> Option<Vec<Child>> {
    let children = standard::list(scanner, path, None)?;
    let suffixes: Vec<&str> = suffixes.iter().map(String::as_str).collect();
    let rules = Rules {
        generation,
        suffixes: &suffixes,
        mended: false,
    };
    if children.is_empty() {
        return Some(Vec::new());
    }
    let folder = Folder::open(path).ok()?;
    let found = children.into_iter().map(|child| {
        let place = place(&folder, &child);
        let top = top_level(place, Some(&folder), rules);
        let name = match &top {
            Answer::Known(top) if top.names.is_empty() => Answer::Known(None),
            _ => heads.header(place, join(path, &child).as_os_str(), "Name", true),
        };
        Child {
            folder_name: child,
            top,
            name,
        }
    });
    Some(found.collect())
}

fn place<'a>(folder: &'a Folder, child: &'a OsStr) -> Place<'a> {
    Place {
        folder: Some(folder),
        info: Path::new(child),
    }
}
