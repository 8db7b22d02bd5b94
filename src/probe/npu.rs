//! Huawei Ascend: the driver's nodes; PCI says little, since no list of its ids is published.

use super::ids::{self, HUAWEI};
use super::pci::ACCELERATOR;
use super::scene::Scene;
use super::{Device, Weight};

pub(super) fn look(scene: &mut Scene<'_>) {
    for number in scene.nodes("davinci") {
        let path = format!("/dev/davinci{number}");
        if scene.node(
            "node",
            &path,
            Weight::Strong,
            "a device's node, made by the Ascend driver",
        ) {
            scene.device(Device::default());
        }
    }
    scene.node(
        "control",
        "/dev/davinci_manager",
        Weight::Weak,
        "the Ascend driver's control node",
    );
    for one in scene.vendor(HUAWEI) {
        if one.kind() == ACCELERATOR {
            let text = match ids::known(one.vendor, one.device) {
                Some(known) => format!("probably an NPU: {}", known.name),
                None => "an accelerator of Huawei's that this list does not know".to_owned(),
            };
            scene.function(&one, Weight::Weak, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;

    #[test]
    fn nodes_are_anchored() {
        let site = Site::new();
        for name in [
            "davinci7",
            "davinci",
            "davinci_manager",
            "davinci1x",
            "davinci0",
            "devmm_svm",
            "hisi_hdc",
        ] {
            site.file(&format!("dev/{name}"), "");
        }
        let report = site.look();
        assert_eq!(
            report.lines("npu"),
            [
                "npu.node /dev/davinci0 file strong",
                "npu.node /dev/davinci7 file strong",
                "npu.control /dev/davinci_manager file weak",
            ]
        );
        assert_eq!(report.0.devices.len(), 2);
    }

    #[test]
    fn pci_says_little() {
        let site = Site::new();
        site.pci("0000:c1:00.0", "19e5:d802", "120000", "devdrv_device_driver");
        site.pci("0000:c2:00.0", "19e5:1822", "020000", "hinic");
        assert_eq!(
            site.look().lines("npu"),
            ["npu.pci 0000:c1:00.0 19e5:d802 class 120000 weak"]
        );
    }
}
