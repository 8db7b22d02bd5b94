//! Google's TPU: PCI by device id, nodes, vfio groups, Pathways. The vendor's network cards and disks are none.

use super::ids::{self, GOOGLE};
use super::pci::hex;
use super::scene::Scene;
use super::{Device, Weight};
use crate::files::Fault;

/// Devices of one vfio group.
const MOST_IN_GROUP: usize = 64;

pub(super) fn look(scene: &mut Scene<'_>) {
    let mut counted = pci(scene);
    counted |= accel(scene, !counted);
    vfio(scene, !counted);
    pathways(scene);
    scene.mask("TPU_VISIBLE_CHIPS", "which chips libtpu may use");
}

fn pci(scene: &mut Scene<'_>) -> bool {
    let chips = scene.accelerators(
        GOOGLE,
        "a chip",
        "an accelerator of Google's that this list does not know",
    );
    chips > 0
}

/// Nodes directly in `/dev`; other vendors make `/dev/accel` a folder, or use the same names.
fn accel(scene: &mut Scene<'_>, count: bool) -> bool {
    let mut any = false;
    for number in scene.nodes("accel") {
        let vendor = format!("/sys/class/accel/accel{number}/device/vendor");
        let other = scene
            .root
            .head(&vendor, 64)
            .ok()
            .and_then(|bytes| hex(bytes.trim_ascii()));
        if other.is_some_and(|vendor| vendor != u32::from(GOOGLE)) {
            continue;
        }
        let path = format!("/dev/accel{number}");
        if scene.node("accel", &path, Weight::Strong, "a chip's node") {
            any = true;
            if count {
                scene.device(Device::default());
            }
        }
    }
    any
}

/// Newer chips are used through vfio; so are network cards, so the group's devices are asked for their ids.
fn vfio(scene: &mut Scene<'_>, count: bool) {
    if !scene.may_have("/dev/vfio") {
        return;
    }
    for group in scene.numbers("/dev/vfio", "") {
        let folder = format!("/sys/kernel/iommu_groups/{group}/devices");
        let mut addresses = scene.root.names(&folder).unwrap_or_default();
        addresses.sort_unstable();
        let found = addresses.iter().take(MOST_IN_GROUP).find_map(|address| {
            let number = |name: &str| match scene.root.head(&format!("{folder}/{address}/{name}"), 64) {
                Ok(bytes) => Ok(hex(bytes.trim_ascii()).and_then(|number| u16::try_from(number).ok())),
                Err(fault) => Err(fault),
            };
            if number("vendor") != Ok(Some(GOOGLE)) {
                return None;
            }
            match number("device") {
                Ok(Some(device)) => ids::known(GOOGLE, device).map(|known| (address.clone(), Some(known))),
                Ok(None) | Err(Fault::Absent) => None,
                Err(_) => Some((address.clone(), None)),
            }
        });
        let Some((address, known)) = found else {
            continue;
        };
        let path = format!("/dev/vfio/{group}");
        let (weight, text) = match known {
            Some(known) => (Weight::Strong, format!("the vfio group of a chip: {}", known.name)),
            None => (
                Weight::Weak,
                "the vfio group of a device of Google's whose id cannot be read".to_owned(),
            ),
        };
        if scene.node("vfio", &path, weight, &text) && count {
            scene.device(Device {
                name: known.map(|known| known.name.to_owned()),
                pci: Some(address),
                driver: Some("vfio-pci".to_owned()),
                ..Device::default()
            });
        }
    }
}

/// The chips are elsewhere, behind a proxy.
fn pathways(scene: &mut Scene<'_>) {
    let text = "Pathways: the chips are elsewhere, behind a proxy";
    for name in ["VLLM_TPU_USING_PATHWAYS", "JAX_PLATFORMS"] {
        let Some(value) = scene.variable(name).map(|value| value.to_string_lossy().to_lowercase()) else {
            continue;
        };
        let says = match name {
            "JAX_PLATFORMS" => value.contains("proxy"),
            _ => matches!(value.trim(), "1" | "true" | "yes" | "on"),
        };
        if says {
            let value = super::scene::shown(value.as_bytes(), 200);
            scene.add("pathways", ("env", name), value, Weight::Strong, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;

    #[test]
    fn chips_are_told_from_the_vendors_other_devices() {
        let site = Site::new();
        site.pci("0000:00:05.0", "1ae0:0042", "020000", "gvnic");
        site.pci("0000:00:06.0", "1ae0:001f", "010802", "nvme");
        site.pci("0000:00:07.0", "1ae0:0063", "ff0000", "vfio-pci");
        site.pci("0000:00:08.0", "1ae0:fff0", "120000", "vfio-pci");
        let report = site.look();
        assert_eq!(
            report.lines("tpu"),
            [
                "tpu.pci 0000:00:07.0 1ae0:0063 class ff0000 strong",
                "tpu.pci 0000:00:08.0 1ae0:fff0 class 120000 weak",
            ]
        );
        let [device] = &report.0.devices[..] else {
            panic!("{report:?}")
        };
        assert_eq!(device.name.as_deref(), Some("TPU v5e"));
    }

    #[test]
    fn nodes_of_other_vendors_and_folders_are_none() {
        let site = Site::new();
        for name in ["accel0", "accel1", "accel2x", "accel"] {
            site.file(&format!("dev/{name}"), "");
        }
        site.folder("dev/accel3");
        site.file("sys/class/accel/accel1/device/vendor", "0x1022\n");
        site.file("sys/class/accel/accel0/device/vendor", "0x1ae0\n");
        let report = site.look();
        assert_eq!(report.lines("tpu"), ["tpu.accel /dev/accel0 file strong"]);
        assert_eq!(report.0.devices.len(), 1);
        let site = Site::new();
        site.file("dev/accel/accel0", "");
        assert_eq!(site.look().lines("tpu"), [""; 0]);
    }

    #[test]
    fn a_vfio_group_counts_by_its_devices() {
        let site = Site::new();
        for (group, vendor, device) in [
            (0, "0x1ae0", "0x006f"),
            (1, "0x15b3", "0xa2dc"),
            (10, "0x1ae0", "0x0063"),
            (2, "0x1ae0", "0x0042"),
            (3, "0x1ae0", "odd"),
        ] {
            site.file(&format!("dev/vfio/{group}"), "");
            let folder = format!("sys/kernel/iommu_groups/{group}/devices/0000:0{group}:00.0");
            site.file(&format!("{folder}/vendor"), vendor);
            site.file(&format!("{folder}/device"), device);
        }
        site.file("dev/vfio/vfio", "");
        site.file("dev/vfio/99", "");
        let report = site.look();
        assert_eq!(
            report.lines("tpu"),
            ["tpu.vfio /dev/vfio/0 file strong", "tpu.vfio /dev/vfio/10 file strong"]
        );
        let names: Vec<_> = report.0.devices.iter().filter_map(|one| one.name.as_deref()).collect();
        assert_eq!(names, ["TPU v6e", "TPU v5e"]);
    }

    #[test]
    fn a_group_whose_device_id_cannot_be_read_is_weak() {
        let site = Site::new();
        site.file("dev/vfio/0", "");
        site.file("sys/kernel/iommu_groups/0/devices/0000:00:04.0/vendor", "0x1ae0\n");
        site.folder("sys/kernel/iommu_groups/0/devices/0000:00:04.0/device");
        assert_eq!(site.look().lines("tpu"), ["tpu.vfio /dev/vfio/0 file weak"]);
    }

    #[test]
    fn pathways_is_asked_for_by_either_variable() {
        for (name, value, says) in [
            ("JAX_PLATFORMS", "PROXY,cpu", true),
            ("JAX_PLATFORMS", "tpu,cpu", false),
            ("VLLM_TPU_USING_PATHWAYS", "True", true),
            ("VLLM_TPU_USING_PATHWAYS", "1", true),
            ("VLLM_TPU_USING_PATHWAYS", "0", false),
            ("VLLM_TPU_USING_PATHWAYS", "", false),
        ] {
            let lines = Site::new().look_with(&[(name, value)]).lines("tpu");
            assert_eq!(lines.len(), usize::from(says), "{name}={value}: {lines:?}");
            assert!(
                lines
                    .iter()
                    .all(|line| line.starts_with("tpu.pathways ") && line.ends_with(" strong"))
            );
        }
        let lines = Site::new().look_with(&[("TPU_VISIBLE_CHIPS", "0,1")]).lines("tpu");
        assert_eq!(lines, ["tpu.mask TPU_VISIBLE_CHIPS 0,1 info"]);
    }
}
