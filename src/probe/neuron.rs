//! AWS Neuron: nodes and PCI ids. The vendor's network cards and disks are none.

use super::ids::AMAZON;
use super::scene::Scene;
use super::{Device, Weight};

pub(super) fn look(scene: &mut Scene<'_>) {
    let mut nodes = 0_usize;
    for number in scene.nodes("neuron") {
        let path = format!("/dev/neuron{number}");
        nodes += usize::from(scene.node(
            "node",
            &path,
            Weight::Strong,
            "a device's node, made by the Neuron driver",
        ));
    }
    let functions = scene.accelerators(
        AMAZON,
        "a Neuron device",
        "an accelerator of Amazon's that this list does not know",
    );
    for _ in functions..nodes {
        scene.device(Device::default());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;

    #[test]
    fn nodes_are_anchored() {
        let site = Site::new();
        for name in [
            "neuron0", "neuron11", "neuron2", "neuronx", "neuron0a", "neuron", "xneuron1", "neuron_0",
        ] {
            site.file(&format!("dev/{name}"), "");
        }
        let report = site.look();
        assert_eq!(
            report.lines("neuron"),
            [
                "neuron.node /dev/neuron0 file strong",
                "neuron.node /dev/neuron2 file strong",
                "neuron.node /dev/neuron11 file strong",
            ]
        );
        assert_eq!(report.0.devices.len(), 3);
    }

    #[test]
    fn network_cards_and_disks_are_none() {
        let site = Site::new();
        site.pci("0000:00:05.0", "1d0f:ec20", "020000", "ena");
        site.pci("0000:00:04.0", "1d0f:8061", "010802", "nvme");
        site.pci("0000:00:1e.0", "1d0f:7164", "088000", "neuron");
        site.pci("0000:00:1f.0", "1d0f:fff0", "120000", "");
        assert_eq!(
            site.look().lines("neuron"),
            [
                "neuron.pci 0000:00:1e.0 1d0f:7164 class 088000 strong",
                "neuron.pci 0000:00:1f.0 1d0f:fff0 class 120000 weak",
            ]
        );
    }
}
