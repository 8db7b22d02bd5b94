//! An inventory in, everything that is wrong in it out: a fold over rows that exist already.

use std::path::PathBuf;

use crate::diagnostic::{Code, Diagnostic};
use crate::dist_info::{Identity, label};
use crate::entry_point_files::{LARGEST, Points, file_of};
use crate::files::Fault;
use crate::scan::{Inventory, Row, Scanned, State, join};

/// All findings, in the order of the inventory.
pub fn of(inventory: &Inventory) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for (path, scanned) in &inventory.entries {
        if let Scanned::Unreadable(fault) = scanned {
            let message = format!("it could not be listed: {}", fault.text());
            out.push(Diagnostic::new(Code::PathEntryUnreadable, path, message));
        }
    }
    for (again, first) in &inventory.repeated {
        let message = format!("it is the same folder as `{}`", inventory.entries[*first].0.display());
        out.push(Diagnostic::new(
            Code::PathEntryDuplicate,
            &inventory.entries[*again].0,
            message,
        ));
    }
    for row in &inventory.rows {
        folder(inventory, row, &mut out);
        if row.state != State::Ignored {
            entry_points(inventory, row, &mut out);
        }
    }
    out
}

fn folder(inventory: &Inventory, row: &Row, out: &mut Vec<Diagnostic>) {
    let info = inventory.info(row);
    let name = info.folder_name.display();
    let mut say =
        |code, message| out.push(Diagnostic::new(code, inventory.path(row), message).of(label(&info.folder_name)));
    match (&info.identity, row.state) {
        (Identity::Interrupted, _) => {
            say(
                Code::FolderInterruptedUninstall,
                format!("`{name}` was moved aside by an installer that did not finish"),
            );
        }
        (Identity::Nameless, _) => say(Code::FolderNameless, format!("`{name}` names no project")),
        (Identity::Dangling, _) => say(Code::FolderDanglingLink, format!("`{name}` is a link to nowhere")),
        (_, State::Leftover(winner)) => {
            let winner = inventory.path(&inventory.rows[winner]);
            say(
                Code::DistributionLeftover,
                format!("it has no metadata; `{}` is used instead", winner.display()),
            );
        }
        (_, State::Shadowed(winner)) => {
            let winner = &inventory.rows[winner];
            let code = if winner.entry == row.entry {
                Code::DistributionTwoVersions
            } else {
                Code::DistributionShadowed
            };
            let path = inventory.path(winner);
            say(code, format!("`{}` is used instead of this copy", path.display()));
        }
        (_, State::Live | State::Ignored) => {}
    }
}

fn entry_points(inventory: &Inventory, row: &Row, out: &mut Vec<Diagnostic>) {
    let info = inventory.info(row);
    let path = || -> PathBuf { join(&inventory.entries[row.entry].0, &file_of(info)) };
    let Some(file) = inventory.points(row) else { return };
    match &file.points {
        Points::Absent => {}
        Points::Parsed(parsed) => {
            let mut faults = parsed.faults().to_vec();
            faults.extend(parsed.reference_faults());
            faults.sort_by_key(|fault| fault.line);
            out.extend(
                faults
                    .into_iter()
                    .map(|fault| Diagnostic::from_fault(fault, path()).of(label(&info.folder_name))),
            );
        }
        Points::NotUtf8 { line } => {
            let message = format!("line {line} has a byte that is not UTF-8");
            let finding = Diagnostic::new(Code::EntryPointsNotUtf8, path(), message);
            out.push(
                Diagnostic {
                    line: Some(*line),
                    ..finding
                }
                .of(label(&info.folder_name)),
            );
        }
        Points::Unread(fault) => {
            let (code, message) = match fault {
                Fault::TooLarge(size) => (
                    Code::EntryPointsTooLarge,
                    format!("it has {size} bytes; at most {LARGEST} are read"),
                ),
                Fault::Folder | Fault::Special => (Code::EntryPointsNotAFile, fault.text()),
                _ => (Code::EntryPointsUnreadable, fault.text()),
            };
            out.push(Diagnostic::new(code, path(), message).of(label(&info.folder_name)));
        }
    }
}
