//! The PCI ids that are known: what is a discrete device, what shares the host's memory, and what it is called.
//!
//! The list ages. What it lacks is judged by its class, so an unknown id is never a reason for "no".

use std::sync::OnceLock;

/// Vendors whose devices are looked for.
pub(super) const NVIDIA: u16 = 0x10de;
pub(super) const AMD: u16 = 0x1002;
pub(super) const INTEL: u16 = 0x8086;
pub(super) const GOOGLE: u16 = 0x1ae0;
pub(super) const AMAZON: u16 = 0x1d0f;
pub(super) const HABANA: u16 = 0x1da3;
pub(super) const HUAWEI: u16 = 0x19e5;

const TABLE: &str = include_str!("pci_ids.txt");

/// How a device has its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Its own.
    Discrete,
    /// Its own, and the host's in one address space.
    Coherent,
    /// The host's.
    Integrated,
}

/// One known device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    id: (u16, u16),
    pub(super) memory: Memory,
    pub(super) name: &'static str,
}

/// What is known of a device.
pub(super) fn known(vendor: u16, device: u16) -> Option<Known> {
    static LIST: OnceLock<Vec<Known>> = OnceLock::new();
    let list = LIST.get_or_init(|| {
        let mut list: Vec<Known> = TABLE.lines().filter_map(entry).collect();
        list.sort_by_key(|one| one.id);
        list
    });
    let at = list.binary_search_by_key(&(vendor, device), |one| one.id).ok()?;
    list.get(at).copied()
}

/// A line of the table: vendor, device, memory, name. None for a comment, an empty line, or one that is not so.
fn entry(line: &'static str) -> Option<Known> {
    let mut words = line.splitn(4, ' ');
    let mut number = || u16::from_str_radix(words.next().filter(|word| word.len() == 4)?, 16).ok();
    let id = (number()?, number()?);
    let memory = match words.next()? {
        "discrete" => Memory::Discrete,
        "coherent" => Memory::Coherent,
        "integrated" => Memory::Integrated,
        _ => return None,
    };
    let name = words.next()?;
    Some(Known { id, memory, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_comment_or_an_entry_and_none_is_twice() {
        let mut seen = std::collections::HashSet::new();
        for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let one = entry(line).unwrap_or_else(|| panic!("{line:?}"));
            assert!(seen.insert(one.id), "{line:?} is there twice");
            assert!(!one.name.is_empty() && one.name == one.name.trim(), "{line:?}");
        }
        assert!(seen.len() > 100);
    }

    #[test]
    fn what_is_no_entry_is_none() {
        for odd in [
            "",
            "#",
            "10de",
            "10de 2330",
            "10de 2330 discrete",
            "10de 2330 odd H100",
            "10dex 2330 discrete H100",
            "10de 23 discrete x",
        ] {
            assert_eq!(entry(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn devices_are_found() {
        assert_eq!(known(NVIDIA, 0x2e12).map(|one| one.memory), Some(Memory::Integrated));
        assert_eq!(known(NVIDIA, 0x2342).map(|one| one.memory), Some(Memory::Coherent));
        assert_eq!(known(GOOGLE, 0x0063).map(|one| one.name), Some("TPU v5e"));
        assert_eq!(known(GOOGLE, 0x0042), None, "a network card");
        assert_eq!(known(0, 0), None);
    }
}
