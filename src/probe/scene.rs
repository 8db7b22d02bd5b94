//! What every platform's look starts from and adds to: the root, the environment, one pass over PCI, one listing of
//! `/dev`.

use std::ffi::{OsStr, OsString};

use super::ids;
use super::pci::{self, Function};
use super::root::{Root, numbered};
use super::{Device, Evidence, Report, Weight};
use crate::files::{Fault, Thing};

/// Characters of a file or a variable that are repeated.
const MOST_SHOWN: usize = 200;
/// A mask is repeated whole unless it is absurd: the eight UUIDs of a machine make 330 characters.
const MOST_MASK: usize = 4096;
/// Bytes of a file that holds one word.
const WORD: usize = 256;

pub(super) struct Scene<'a> {
    pub(super) root: Root,
    /// All PCI functions, in the order of their addresses.
    pub(super) pci: Vec<Function>,
    /// Whether this Linux runs inside Windows.
    pub(super) wsl: bool,
    environment: &'a [(String, OsString)],
    /// The names in `/dev`; None where it cannot be listed.
    dev: Option<Vec<String>>,
    platform: &'static str,
    report: Report,
}

impl<'a> Scene<'a> {
    pub(super) fn new(root: Root, environment: &'a [(String, OsString)]) -> Self {
        let mut scene = Self {
            pci: Vec::new(),
            wsl: false,
            environment,
            dev: Some(Vec::new()),
            platform: "",
            report: Report::default(),
            root,
        };
        if let Some(fault) = scene.root.fault() {
            scene.fact("root", fault.text());
            return scene;
        }
        scene.survey();
        scene
    }

    /// What is looked at once for all platforms.
    fn survey(&mut self) {
        for (name, path) in [
            ("boot_id", "/proc/sys/kernel/random/boot_id"),
            ("kernel_release", "/proc/sys/kernel/osrelease"),
        ] {
            if let Ok(word) = self.word(path) {
                self.wsl |= name == "kernel_release" && word.to_ascii_lowercase().contains("microsoft");
                self.fact(name, word);
            }
        }
        match self.root.names("/dev") {
            Ok(names) => self.dev = Some(names),
            Err(fault) => {
                self.fact("dev", fault.text());
                self.dev = None;
            }
        }
        self.wsl |= self.may_have("/dev/dxg") && self.root.thing("/dev/dxg").is_ok();
        if self.wsl {
            self.fact("wsl", "yes".to_owned());
        }
        let pass = pci::scan(&self.root);
        if let Some(note) = pass.note() {
            self.fact("pci", note);
        }
        self.pci = pass.functions;
    }

    pub(super) fn begin(&mut self, platform: &'static str) {
        self.platform = platform;
    }

    pub(super) fn report(self) -> Report {
        self.report
    }

    /// Adds evidence for the present platform.
    pub(super) fn add(
        &mut self,
        what: &str,
        (kind, subject): (&'static str, &str),
        result: impl Into<String>,
        weight: Weight,
        text: impl Into<String>,
    ) {
        self.report.evidence.push(Evidence {
            platform: self.platform,
            id: format!("{}.{what}", self.platform),
            kind,
            subject: subject.to_owned(),
            result: result.into(),
            weight,
            text: text.into(),
        });
    }

    /// Notes what could not be looked at.
    pub(super) fn unreadable(&mut self, subject: &str, reason: impl Into<String>) {
        let text = "it is there and could not be looked at, so it says neither yes nor no";
        self.add("unreadable", ("file", subject), reason, Weight::Info, text);
    }

    /// Notes a fault, unless it is only that nothing is there.
    pub(super) fn fault(&mut self, subject: &str, fault: &Fault) {
        if *fault != Fault::Absent {
            self.unreadable(subject, fault.text());
        }
    }

    /// The numbers of a folder's children that are called `prefix` and a number; none where it cannot be listed, which
    /// is told.
    pub(super) fn numbers(&mut self, path: &str, prefix: &str) -> Vec<u32> {
        self.root.numbers(path, prefix).unwrap_or_else(|fault| {
            self.fault(path, &fault);
            Vec::new()
        })
    }

    pub(super) fn fact(&mut self, name: &'static str, value: String) {
        self.report.facts.push((name, value));
    }

    /// Adds a device of the present platform; its place is the next one.
    pub(super) fn device(&mut self, device: Device) {
        let platform = self.platform;
        let index = self
            .report
            .devices
            .iter()
            .filter(|one| one.platform == platform)
            .count();
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.report.devices.push(Device {
            platform,
            index,
            ..device
        });
    }

    /// The PCI functions of a vendor.
    pub(super) fn vendor(&self, vendor: u16) -> Vec<Function> {
        self.pci.iter().filter(|one| one.vendor == vendor).cloned().collect()
    }

    /// A PCI function as evidence.
    pub(super) fn function(&mut self, one: &Function, weight: Weight, text: impl Into<String>) {
        let result = format!("{:04x}:{:04x} class {:06x}", one.vendor, one.device, one.class);
        self.add("pci", ("pci", &one.address), result, weight, text);
    }

    /// A vendor's PCI functions whose ids are known, as evidence and devices; the number of them. Other accelerators of
    /// the vendor are weak evidence, and told as `unknown`.
    pub(super) fn accelerators(&mut self, vendor: u16, what: &str, unknown: &'static str) -> usize {
        let mut count = 0;
        for one in self.vendor(vendor) {
            if let Some(known) = ids::known(one.vendor, one.device) {
                count += 1;
                self.function(&one, Weight::Strong, format!("{what}: {}", known.name));
                self.device(Device {
                    name: Some(known.name.to_owned()),
                    pci: Some(one.address),
                    driver: one.driver,
                    ..Device::default()
                });
            } else if one.kind() == pci::ACCELERATOR {
                self.function(&one, Weight::Weak, unknown);
            }
        }
        count
    }

    /// The numbers of the nodes in `/dev` that are called `prefix` and a number.
    pub(super) fn nodes(&self, prefix: &str) -> Vec<u32> {
        numbered(self.dev.as_deref().unwrap_or_default(), prefix)
    }

    /// Whether something may stand at a path in `/dev`, as far as its listing tells.
    pub(super) fn may_have(&self, path: &str) -> bool {
        let name = path.trim_start_matches("/dev/");
        let name = name.split_once('/').map_or(name, |(folder, _)| folder);
        self.dev
            .as_ref()
            .is_none_or(|names| names.iter().any(|known| known == name))
    }

    /// Evidence of a device node, if one is there, and against it, if this user may not use it.
    pub(super) fn node(&mut self, what: &str, path: &str, weight: Weight, text: &str) -> bool {
        let Some(result) = self.is_node(path) else {
            return false;
        };
        self.add(what, ("file", path), result, weight, text);
        self.access("access", path);
        true
    }

    /// What kind of node stands at a path; anything odd is noted, and no node.
    pub(super) fn is_node(&mut self, path: &str) -> Option<String> {
        if !self.may_have(path) {
            return None;
        }
        let odd = match self.root.thing(path) {
            Ok(Thing::Device(major, minor)) => return Some(format!("character device {major}:{minor}")),
            // nobody need be privileged to make a root for a test
            Ok(Thing::File) if !self.root.is_machine() => return Some("file".to_owned()),
            Ok(Thing::Folder) | Err(Fault::Absent) => return None,
            Ok(Thing::File) => "it is a regular file, no device".to_owned(),
            Ok(Thing::Other(word)) => format!("it is a {word}, no device"),
            Ok(Thing::Link) => "it is a link to itself".to_owned(),
            Err(fault) => fault.text(),
        };
        self.unreadable(path, odd);
        None
    }

    /// Evidence against a node that this user may not open.
    pub(super) fn access(&mut self, what: &str, path: &str) {
        if let Err(fault) = self.root.usable(path) {
            let text = "this user may not open it for reading and writing";
            self.add(what, ("file", path), fault.text(), Weight::Against, text);
        }
    }

    /// Evidence against a GPU whose render node is not here, or not for this user.
    pub(super) fn render(&mut self, path: &str) {
        match self.root.thing(path) {
            Ok(_) => self.access("render", path),
            Err(Fault::Absent) => {
                let text = "this GPU's render node is not here, as in a container that was not given it";
                self.add("render", ("file", path), Fault::Absent.text(), Weight::Against, text);
            }
            Err(fault) => self.unreadable(path, fault.text()),
        }
    }

    /// A variable that is set, even to nothing.
    pub(super) fn variable(&self, name: &str) -> Option<&'a OsStr> {
        let found = self.environment.iter().rev().find(|(known, _)| known == name)?;
        Some(&found.1)
    }

    /// A variable as evidence, its value as it stands.
    pub(super) fn mask(&mut self, name: &str, text: &str) {
        if let Some(value) = self.variable(name) {
            let value = shown(value.as_encoded_bytes(), MOST_MASK);
            self.add("mask", ("env", name), value, Weight::Info, text);
        }
    }

    /// The one word or line that a small file holds.
    pub(super) fn word(&self, path: &str) -> Result<String, Fault> {
        let bytes = self.root.head(path, WORD)?;
        Ok(shown(bytes.trim_ascii(), MOST_SHOWN))
    }
}

/// Bytes as text that can be shown: cut, and without control characters.
pub(super) fn shown(bytes: &[u8], most: usize) -> String {
    if bytes.len() <= most && bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return bytes.iter().copied().map(char::from).collect();
    }
    let text = String::from_utf8_lossy(bytes);
    let printable = text.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one });
    printable.take(most).collect()
}
