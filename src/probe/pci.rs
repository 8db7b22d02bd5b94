//! One pass over the PCI functions, from what the kernel has noted of them; their configuration space is never read.
//!
//! `uevent` has class, ids and driver in one read. Where it does not say them, `vendor`, `device`, `class` and the
//! `driver` link do.

use std::ops::Range;

use super::root::Root;
use super::scene::shown;
use super::shelf::Shelf;
use crate::files::Fault;

const FOLDER: &str = "/sys/bus/pci/devices";
/// More than any machine has; a large server has some hundred.
const MOST_FUNCTIONS: usize = 4096;
/// Bytes of `uevent`, which has two hundred.
const MOST_UEVENT: usize = 4096;
/// Damaged entries that are named.
const MOST_NAMED: usize = 3;

/// The class of display controllers that can show a picture.
pub(super) const VGA: u32 = 0x0300;
/// The class of display controllers that cannot.
pub(super) const THREE_D: u32 = 0x0302;
/// The class of other display controllers.
pub(super) const DISPLAY: u32 = 0x0380;
/// The class of processing accelerators.
pub(super) const ACCELERATOR: u32 = 0x1200;

/// Class, ids and driver of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) vendor: u16,
    pub(super) device: u16,
    pub(super) class: u32,
    pub(super) driver: Option<String>,
    /// The address that `uevent` says; empty where it says none.
    pub(super) slot: String,
}

/// One PCI function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// `0000:18:00.0`.
    pub(super) address: String,
    pub(super) vendor: u16,
    pub(super) device: u16,
    /// Class, sub-class and interface.
    pub(super) class: u32,
    pub(super) driver: Option<String>,
}

impl Function {
    /// Class and sub-class.
    pub(super) fn kind(&self) -> u32 {
        self.class >> 8
    }

    /// Whether it is set aside for a virtual machine.
    pub(super) fn is_handed_on(&self) -> bool {
        self.driver
            .as_deref()
            .is_some_and(|driver| driver == "vfio-pci" || driver == "pci-stub")
    }
}

/// What one pass gave.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub(super) functions: Vec<Function>,
    problem: Option<Fault>,
    damaged: Vec<String>,
    left_out: usize,
}

impl Pass {
    /// What went wrong, if anything did.
    pub(super) fn note(&self) -> Option<String> {
        let mut notes = Vec::new();
        if let Some(fault) = &self.problem {
            notes.push(format!("{FOLDER}: {}", fault.text()));
        }
        if !self.damaged.is_empty() {
            let named = self.damaged.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>();
            notes.push(format!("{} damaged: {}", self.damaged.len(), named.join(", ")));
        }
        if self.left_out > 0 {
            notes.push(format!("{} not looked at", self.left_out));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// All functions in the order of their addresses.
pub(super) fn scan(root: &Root) -> Pass {
    let mut pass = Pass::default();
    let listed = Shelf::open(root, FOLDER).and_then(|shelf| Ok((shelf.names()?, shelf)));
    let (names, shelf) = match listed {
        Ok(listed) => listed,
        Err(fault) => {
            pass.problem = Some(fault);
            return pass;
        }
    };
    let mut addresses: Vec<_> = (names.into_iter())
        .filter_map(|(name, kind)| Some((parse(&name)?, name, kind)))
        .collect();
    addresses.sort_unstable_by_key(|(numbers, ..)| *numbers);
    pass.left_out = addresses.len().saturating_sub(MOST_FUNCTIONS);
    let mut buffer = [0; MOST_UEVENT];
    for (_, address, kind) in addresses.into_iter().take(MOST_FUNCTIONS) {
        let uevent = shelf.head(&address, kind, "uevent", &mut buffer);
        let found = (uevent.ok().and_then(from_uevent)).or_else(|| from_files(root, &format!("{FOLDER}/{address}")));
        match found {
            Some(Identity {
                vendor,
                device,
                class,
                driver,
                ..
            }) => pass.functions.push(Function {
                address,
                vendor,
                device,
                class,
                driver,
            }),
            None => pass.damaged.push(address),
        }
    }
    pass
}

/// Class, ids and driver of the device whose folder this is; None where neither source says them.
pub(super) fn identity(root: &Root, folder: &str) -> Option<Identity> {
    let uevent = root.head(&format!("{folder}/uevent"), MOST_UEVENT);
    (uevent.ok().and_then(|bytes| from_uevent(&bytes))).or_else(|| from_files(root, folder))
}

fn from_files(root: &Root, folder: &str) -> Option<Identity> {
    let number = |name: &str| {
        let bytes = root.head(&format!("{folder}/{name}"), 64).ok()?;
        hex(bytes.trim_ascii())
    };
    Some(Identity {
        vendor: u16::try_from(number("vendor")?).ok()?,
        device: u16::try_from(number("device")?).ok()?,
        class: number("class").filter(|class| *class <= 0xff_ffff)?,
        driver: root
            .link_name(&format!("{folder}/driver"))
            .map(|name| shown(name.as_bytes(), 64)),
        slot: String::new(),
    })
}

fn from_uevent(bytes: &[u8]) -> Option<Identity> {
    let (mut ids, mut class) = (None, None);
    let mut found = Identity::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        if let Some(value) = line.strip_prefix(b"DRIVER=") {
            found.driver = Some(shown(value.trim_ascii(), 64));
        } else if let Some(value) = line.strip_prefix(b"PCI_CLASS=") {
            class = hex(value.trim_ascii()).filter(|class| *class <= 0xff_ffff);
        } else if let Some(value) = line.strip_prefix(b"PCI_ID=") {
            ids = pair(value.trim_ascii());
        } else if let Some(value) = line.strip_prefix(b"PCI_SLOT_NAME=")
            && let Ok(name) = str::from_utf8(value.trim_ascii())
            && parse(name).is_some()
        {
            name.clone_into(&mut found.slot);
        }
    }
    (found.vendor, found.device) = ids?;
    found.class = class?;
    Some(found)
}

/// `10DE:2330`.
fn pair(value: &[u8]) -> Option<(u16, u16)> {
    let at = value.iter().position(|byte| *byte == b':')?;
    let half = |bytes| u16::try_from(hex(bytes)?).ok();
    Some((half(&value[..at])?, half(&value[at + 1..])?))
}

/// A number of one to eight hexadecimal digits, with or without `0x`.
pub(super) fn hex(bytes: &[u8]) -> Option<u32> {
    digits(bytes.strip_prefix(b"0x").unwrap_or(bytes))
}

fn digits(bytes: &[u8]) -> Option<u32> {
    if !(1..=8).contains(&bytes.len()) {
        return None;
    }
    let add = |number: u32, byte: &u8| Some(number << 4 | char::from(*byte).to_digit(16)?);
    bytes.iter().try_fold(0, add)
}

/// The numbers of an address: domain, bus, device, function.
fn parse(name: &str) -> Option<(u32, u32, u32, u32)> {
    let (domain, rest) = name.as_bytes().split_last_chunk::<8>()?;
    let [b':', _, _, b':', _, _, b'.', _] = rest else {
        return None;
    };
    let number = |at: Range<usize>| digits(&rest[at]);
    let domain = digits(domain).filter(|_| domain.len() >= 4)?;
    Some((domain, number(1..3)?, number(4..6)?, number(7..8)?))
}

/// An address from its numbers, as the kernel writes it.
pub(super) fn address(domain: u32, bus: u32, device: u32, function: u32) -> String {
    format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;
    use super::*;

    const UEVENT: &str = "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SUBSYS_ID=10DE:16C1\n\
                          PCI_SLOT_NAME=0000:18:00.0\nMODALIAS=pci:v000010DE\n";

    #[test]
    fn uevent_says_all_at_once() {
        let found = from_uevent(UEVENT.as_bytes()).unwrap();
        assert_eq!((found.vendor, found.device, found.class), (0x10de, 0x2330, 0x03_0200));
        assert_eq!(
            (found.driver.as_deref(), found.slot.as_str()),
            (Some("nvidia"), "0000:18:00.0")
        );
    }

    #[test]
    fn addresses_are_read_as_numbers_and_nothing_else_is_one() {
        assert_eq!(parse("0000:18:00.0"), Some((0, 0x18, 0, 0)));
        assert_eq!(parse("10000:e1:1f.7"), Some((0x1_0000, 0xe1, 0x1f, 7)));
        for odd in [
            "",
            "0000:18:00",
            "000:18:00.0",
            "0000:18:00.10",
            "0x00:18:00.0",
            "0000:18:00:00.0",
            "0000:1g:00.0",
        ] {
            assert_eq!(parse(odd), None, "{odd}");
        }
        assert_eq!(address(0, 0x18, 0, 0), "0000:18:00.0");
    }

    #[test]
    fn three_files_and_a_link_say_it_where_uevent_does_not() {
        let site = Site::new();
        let folder = "sys/bus/pci/devices/0000:01:00.0";
        site.file(&format!("{folder}/vendor"), "0x1002\n");
        site.file(&format!("{folder}/device"), "0x74a1\n");
        site.file(&format!("{folder}/class"), "0x120000\n");
        site.link(&format!("{folder}/driver"), "../../../../bus/pci/drivers/amdgpu");
        for uevent in [None, Some("DRIVER=amdgpu\n"), Some("PCI_CLASS=xyz\nPCI_ID=1002:74a1\n")] {
            if let Some(text) = uevent {
                site.file(&format!("{folder}/uevent"), text);
            }
            let pass = scan(&site.root());
            let [one] = &pass.functions[..] else { panic!("{pass:?}") };
            assert_eq!(
                (one.vendor, one.kind(), one.driver.as_deref()),
                (0x1002, ACCELERATOR, Some("amdgpu"))
            );
            assert_eq!(pass.note(), None);
        }
    }

    #[test]
    fn damaged_ones_are_left_out_and_named() {
        let site = Site::new();
        site.pci("0000:02:00.0", "10de:2330", "030200", "nvidia");
        site.file("sys/bus/pci/devices/0000:01:00.0/uevent", [0xff, 0x00, 0x3d]);
        site.file("sys/bus/pci/devices/0000:03:00.0", "no folder");
        site.file("sys/bus/pci/devices/not an address/uevent", UEVENT);
        let pass = scan(&site.root());
        assert_eq!(pass.functions.len(), 1);
        assert_eq!(pass.note().unwrap(), "2 damaged: 0000:01:00.0, 0000:03:00.0");
    }

    #[test]
    fn functions_come_in_the_order_of_their_addresses() {
        let site = Site::new();
        for address in ["10000:01:00.0", "0000:c1:00.0", "0000:18:00.1", "0000:18:00.0"] {
            site.pci(address, "10de:2330", "030200", "nvidia");
        }
        let found: Vec<_> = scan(&site.root())
            .functions
            .into_iter()
            .map(|one| one.address)
            .collect();
        assert_eq!(found, ["0000:18:00.0", "0000:18:00.1", "0000:c1:00.0", "10000:01:00.0"]);
    }

    #[test]
    fn links_as_the_kernel_makes_them_are_followed() {
        let site = Site::new();
        site.file("sys/devices/pci0000:00/0000:18:00.0/uevent", UEVENT);
        site.link(
            "sys/bus/pci/devices/0000:18:00.0",
            "../../../devices/pci0000:00/0000:18:00.0",
        );
        assert_eq!(scan(&site.root()).functions.len(), 1);
    }

    #[test]
    fn a_machine_without_pci_is_told() {
        assert_eq!(
            scan(&Site::new().root()).note().unwrap(),
            "/sys/bus/pci/devices: it does not exist"
        );
    }

    #[test]
    fn there_is_a_bound() {
        let site = Site::new();
        for number in 0..MOST_FUNCTIONS + 3 {
            let name = format!("{:04x}:{:02x}:00.0", number >> 8, number & 0xff);
            std::fs::create_dir_all(site.path(&format!("sys/bus/pci/devices/{name}"))).unwrap();
        }
        let pass = scan(&site.root());
        assert_eq!((pass.damaged.len(), pass.left_out), (MOST_FUNCTIONS, 3));
        assert!(pass.note().unwrap().ends_with("; 3 not looked at"));
    }
}
