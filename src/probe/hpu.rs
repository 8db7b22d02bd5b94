//! Intel Gaudi: nodes in `/dev/accel` that belong to the vendor, and PCI ids.

use super::ids::HABANA;
use super::pci::hex;
use super::scene::Scene;
use super::{Device, Weight};

pub(super) fn look(scene: &mut Scene<'_>) {
    let mut nodes = 0_usize;
    // where it is a node and no folder, it is another vendor's
    let numbers = if scene.may_have("/dev/accel") {
        scene.root.numbers("/dev/accel", "accel").unwrap_or_default()
    } else {
        Vec::new()
    };
    for number in numbers {
        let vendor = format!("/sys/class/accel/accel{number}/device/vendor");
        let vendor = scene
            .root
            .head(&vendor, 64)
            .ok()
            .and_then(|bytes| hex(bytes.trim_ascii()));
        if vendor == Some(u32::from(HABANA)) {
            let path = format!("/dev/accel/accel{number}");
            nodes += usize::from(scene.node("accel", &path, Weight::Strong, "a Gaudi's node"));
        }
    }
    let functions = scene.accelerators(
        HABANA,
        "an accelerator",
        "an accelerator of Habana's that this list does not know as a Gaudi",
    );
    for _ in functions..nodes {
        scene.device(Device::default());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;

    #[test]
    fn nodes_count_by_their_vendor() {
        let site = Site::new();
        for (number, vendor) in [
            (0, "0x1da3\n"),
            (1, "0x1022\n"),
            (2, "0x10de\n"),
            (10, "0x1da3\n"),
            (3, "odd"),
        ] {
            site.file(&format!("dev/accel/accel{number}"), "");
            site.file(&format!("sys/class/accel/accel{number}/device/vendor"), vendor);
        }
        site.file("dev/accel/accel4", "");
        let report = site.look();
        assert_eq!(
            report.lines("hpu"),
            [
                "hpu.accel /dev/accel/accel0 file strong",
                "hpu.accel /dev/accel/accel10 file strong"
            ]
        );
        assert_eq!(report.0.devices.len(), 2);
        assert_eq!(report.lines("tpu"), [""; 0]);
    }

    #[test]
    fn pci_ids_count() {
        let site = Site::new();
        site.pci("0000:33:00.0", "1da3:1020", "120000", "habanalabs");
        site.pci("0000:34:00.0", "1da3:0001", "120000", "habanalabs");
        let report = site.look();
        assert_eq!(
            report.lines("hpu"),
            [
                "hpu.pci 0000:33:00.0 1da3:1020 class 120000 strong",
                "hpu.pci 0000:34:00.0 1da3:0001 class 120000 weak"
            ]
        );
        assert_eq!(report.0.devices[0].name.as_deref(), Some("Gaudi2"));
    }
}
