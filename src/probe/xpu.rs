//! Intel: DRM's cards and PCI. Nearly every desktop has graphics in its processor, so those weigh little.

use super::ids::{self, INTEL, Known, Memory};
use super::pci::{self, DISPLAY, VGA};
use super::scene::Scene;
use super::{Device, Weight};

const CARDS: &str = "/sys/class/drm";
/// Graphics inside a processor sit at this place of the first bus.
const INSIDE: &str = "0000:00:02.0";

pub(super) fn look(scene: &mut Scene<'_>) {
    let counted = drm(scene);
    for one in scene.vendor(INTEL) {
        if !matches!(one.kind(), VGA | DISPLAY) {
            continue;
        }
        let known = ids::known(one.vendor, one.device);
        let discrete = known.is_some_and(|known| known.memory == Memory::Discrete) && !one.is_handed_on();
        let weight = if discrete { Weight::Strong } else { Weight::Weak };
        scene.function(&one, weight, describe(known, one.is_handed_on()));
        if !counted {
            scene.device(Device {
                name: known.map(|known| known.name.to_owned()),
                pci: Some(one.address.clone()),
                driver: one.driver.clone(),
                integrated: integrated(known, &one.address),
                ..Device::default()
            });
        }
    }
    scene.mask("ZE_AFFINITY_MASK", "which devices Level Zero may see");
    scene.mask("ONEAPI_DEVICE_SELECTOR", "which devices SYCL may see");
    if scene.wsl
        && let Some(result) = scene.is_node("/dev/dxg")
    {
        let text = "Windows lends this Linux a GPU and does not say whose; DRM has no card of it then";
        scene.add("wsl", ("file", "/dev/dxg"), result, Weight::Weak, text);
    }
}

/// The cards of DRM that are Intel's; whether there is one.
fn drm(scene: &mut Scene<'_>) -> bool {
    let mut any = false;
    for number in scene.numbers(CARDS, "card") {
        let path = format!("{CARDS}/card{number}");
        let folder = format!("{path}/device");
        let Some(found) = pci::identity(&scene.root, &folder).filter(|found| found.vendor == INTEL) else {
            continue;
        };
        let driver = found.driver.clone().unwrap_or_default();
        if driver != "i915" && driver != "xe" {
            continue;
        }
        any = true;
        let slot = if found.slot.is_empty() {
            scene.root.link_name(&folder).unwrap_or_default()
        } else {
            found.slot.clone()
        };
        let known = ids::known(found.vendor, found.device);
        let strong = known.map_or(driver == "xe", |known| known.memory == Memory::Discrete);
        let weight = if strong { Weight::Strong } else { Weight::Weak };
        let result = format!("{:04x}:{:04x} driver {driver}", found.vendor, found.device);
        scene.add("drm", ("file", &path), result, weight, describe(known, false));
        scene.device(Device {
            name: known.map(|known| known.name.to_owned()),
            integrated: integrated(known, &slot),
            pci: (!slot.is_empty()).then_some(slot),
            driver: Some(driver),
            ..Device::default()
        });
        for minor in scene
            .root
            .numbers(&format!("{folder}/drm"), "renderD")
            .unwrap_or_default()
        {
            let node = format!("/dev/dri/renderD{minor}");
            scene.render(&node);
        }
    }
    any
}

fn describe(known: Option<Known>, handed_on: bool) -> String {
    let mut text = match known {
        Some(known) if known.memory == Memory::Integrated => format!("graphics in an Intel processor: {}", known.name),
        Some(known) => format!("an Intel GPU: {}", known.name),
        None => "an Intel GPU, perhaps one inside a processor".to_owned(),
    };
    if handed_on {
        text += ", set aside for a virtual machine";
    }
    text
}

fn integrated(known: Option<Known>, address: &str) -> Option<bool> {
    match known {
        Some(known) => Some(known.memory == Memory::Integrated),
        None => (address == INSIDE).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;

    #[test]
    fn a_known_discrete_one_is_strong() {
        let site = Site::new();
        site.pci("0000:03:00.0", "8086:56a0", "030000", "i915");
        site.card(0, "0000:03:00.0", 128);
        let report = site.look();
        assert_eq!(
            report.lines("xpu"),
            [
                "xpu.drm /sys/class/drm/card0 8086:56a0 driver i915 strong",
                "xpu.pci 0000:03:00.0 8086:56a0 class 030000 strong",
            ]
        );
        let [device] = &report.0.devices[..] else {
            panic!("{report:?}")
        };
        assert_eq!(device.pci.as_deref(), Some("0000:03:00.0"));
        assert_eq!(
            (device.name.as_deref(), device.integrated),
            (Some("Arc A770"), Some(false))
        );
    }

    #[test]
    fn the_gpu_that_windows_lends_may_be_intels() {
        let site = Site::new();
        site.file("dev/dxg", "");
        assert_eq!(site.look().lines("xpu"), ["xpu.wsl /dev/dxg file weak"]);
    }

    #[test]
    fn what_every_desktop_has_is_weak() {
        for (id, driver) in [("8086:46a6", "i915"), ("8086:64a0", "xe")] {
            let site = Site::new();
            site.pci("0000:00:02.0", id, "030000", driver);
            site.card(1, "0000:00:02.0", 128);
            let report = site.look();
            assert_eq!(
                report.lines("xpu")[0],
                format!("xpu.drm /sys/class/drm/card1 {id} driver {driver} weak")
            );
            assert_eq!(report.0.devices[0].integrated, Some(true));
        }
    }

    #[test]
    fn the_newer_driver_makes_an_unknown_one_strong() {
        let site = Site::new();
        site.pci("0000:03:00.0", "8086:fff0", "030000", "xe");
        site.card(0, "0000:03:00.0", 128);
        let lines = site.look().lines("xpu");
        assert!(
            lines[0].ends_with(" strong") && lines[1].ends_with(" weak"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_container_that_was_not_given_the_render_node_is_told() {
        let site = Site::new();
        site.pci("0000:03:00.0", "8086:56a0", "030000", "i915");
        site.card(0, "0000:03:00.0", 128);
        std::fs::remove_dir_all(site.path("dev/dri")).unwrap();
        assert_eq!(
            site.look().lines("xpu")[1],
            "xpu.render /dev/dri/renderD128 it does not exist against"
        );
    }

    #[test]
    fn other_cards_and_other_drivers_are_none() {
        let site = Site::new();
        site.pci("0000:01:00.0", "10de:2684", "030000", "nvidia");
        site.card(0, "0000:01:00.0", 128);
        site.pci("0000:00:02.0", "8086:56a0", "058000", "vfio-pci");
        site.card(1, "0000:00:02.0", 129);
        site.folder("sys/class/drm/card0-HDMI-A-1");
        site.file("sys/class/drm/version", "drm 1.1.0");
        assert_eq!(site.look().lines("xpu"), [""; 0]);
    }

    #[test]
    fn without_drm_pci_counts() {
        let site = Site::new();
        site.pci("0000:3a:00.0", "8086:0bda", "038000", "");
        let report = site.look();
        assert_eq!(
            report.lines("xpu"),
            ["xpu.pci 0000:3a:00.0 8086:0bda class 038000 strong"]
        );
        assert_eq!(report.0.devices[0].name.as_deref(), Some("Data Center GPU Max 1100"));
    }

    #[test]
    fn masks() {
        let site = Site::new();
        let report = site.look_with(&[("ONEAPI_DEVICE_SELECTOR", "level_zero:0"), ("ZE_AFFINITY_MASK", "")]);
        assert_eq!(
            report.lines("xpu"),
            [
                "xpu.mask ZE_AFFINITY_MASK  info",
                "xpu.mask ONEAPI_DEVICE_SELECTOR level_zero:0 info"
            ]
        );
    }
}
