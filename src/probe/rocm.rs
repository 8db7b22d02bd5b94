//! AMD: KFD's topology, PCI, render nodes. `amdsmi` is not needed to see a GPU.

use super::ids::{self, AMD, Memory};
use super::pci::{ACCELERATOR, DISPLAY, THREE_D, VGA, address};
use super::scene::Scene;
use super::{Device, Weight};

const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";
/// Bytes of a properties file that are read; it has one or two thousand.
const MOST_PROPERTIES: usize = 64 * 1024;
/// Memory banks of one node.
const MOST_BANKS: usize = 64;
/// CDNA 3, whose APU is a data-centre device: gfx940 to gfx942.
const DATA_CENTRE: std::ops::RangeInclusive<u64> = 90_400..=90_402;

pub(super) fn look(scene: &mut Scene<'_>) {
    scene.node("control", "/dev/kfd", Weight::Weak, "the compute node of AMD's driver");
    let counted = kfd(scene);
    pci(scene, !counted);
    scene.mask("HIP_VISIBLE_DEVICES", "which GPUs HIP may see");
    scene.mask("ROCR_VISIBLE_DEVICES", "which GPUs the ROCm runtime may see");
    if scene.wsl
        && let Some(result) = scene.is_node("/dev/dxg")
    {
        let text = "Windows lends this Linux a GPU and does not say whose; there is no /dev/kfd then";
        scene.add("wsl", ("file", "/dev/dxg"), result, Weight::Weak, text);
    }
}

/// The GPU nodes of KFD's topology; whether there is one.
fn kfd(scene: &mut Scene<'_>) -> bool {
    let mut any = false;
    for number in scene.numbers(NODES, "") {
        let path = format!("{NODES}/{number}/properties");
        match scene.root.head(&path, MOST_PROPERTIES) {
            Ok(bytes) => {
                let node = Node::parse(&bytes);
                if node.is_gpu() {
                    any = true;
                    gpu(scene, &path, number, &node);
                }
            }
            Err(fault) => scene.fault(&path, &fault),
        }
    }
    any
}

fn gpu(scene: &mut Scene<'_>, path: &str, number: u32, node: &Node) {
    let memory = local_memory(scene, number);
    let target = node.target();
    let pci = node.address();
    let device = u16::try_from(node.device_id).unwrap_or(0);
    let known = ids::known(AMD, device);
    let data_centre = DATA_CENTRE.contains(&node.gfx_target_version);
    let integrated = !data_centre
        && (node.cpu_cores_count > 0 || memory == 0 || known.is_some_and(|one| one.memory == Memory::Integrated));
    let (weight, text) = if integrated {
        (Weight::Weak, "an AMD GPU inside a processor")
    } else {
        (Weight::Strong, "an AMD GPU that can compute")
    };
    scene.add("kfd", ("file", path), format!("{target} at {pci}"), weight, text);
    let driver = scene
        .pci
        .iter()
        .find(|one| one.address == pci)
        .and_then(|one| one.driver.clone());
    scene.device(Device {
        name: known.map(|one| one.name.to_owned()),
        pci: Some(pci),
        memory_bytes: (memory > 0).then_some(memory),
        memory_source: (memory > 0).then_some("sysfs"),
        capability: Some(target),
        driver,
        integrated: Some(integrated),
        ..Device::default()
    });
    let render = format!("/dev/dri/renderD{}", node.drm_render_minor);
    scene.render(&render);
}

/// Bytes of the memory that is the GPU's own.
fn local_memory(scene: &Scene<'_>, number: u32) -> u64 {
    let folder = format!("{NODES}/{number}/mem_banks");
    let banks = scene.root.numbers(&folder, "").unwrap_or_default();
    let sizes = banks.into_iter().take(MOST_BANKS).filter_map(|bank| {
        let bytes = scene.root.head(&format!("{folder}/{bank}/properties"), 4096).ok()?;
        let (mut heap, mut size) = (0, 0);
        for (key, value) in pairs(&bytes) {
            match key {
                "heap_type" => heap = value,
                "size_in_bytes" => size = value,
                _ => {}
            }
        }
        // 1 and 2: the frame buffer, visible to the host or not
        matches!(heap, 1 | 2).then_some(size)
    });
    sizes.fold(0, u64::saturating_add)
}

fn pci(scene: &mut Scene<'_>, count: bool) {
    for one in scene.vendor(AMD) {
        if !matches!(one.kind(), VGA | THREE_D | DISPLAY | ACCELERATOR) {
            continue;
        }
        let known = ids::known(one.vendor, one.device);
        let integrated = known.map(|known| known.memory == Memory::Integrated);
        let mut weight = if one.kind() == VGA || integrated == Some(true) {
            Weight::Weak
        } else {
            Weight::Strong
        };
        let mut text = match known {
            Some(known) => format!("an AMD GPU: {}", known.name),
            None if one.kind() == VGA => "an AMD GPU, perhaps one inside a processor".to_owned(),
            None => "an AMD GPU".to_owned(),
        };
        if one.is_handed_on() {
            weight = Weight::Weak;
            text += ", set aside for a virtual machine";
        }
        scene.function(&one, weight, text);
        if count {
            scene.device(Device {
                name: known.map(|known| known.name.to_owned()),
                pci: Some(one.address),
                driver: one.driver,
                integrated,
                ..Device::default()
            });
        }
    }
}

/// What a properties file says; nought where it says nothing that can be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Node {
    simd_count: u64,
    cpu_cores_count: u64,
    vendor_id: u64,
    device_id: u64,
    gfx_target_version: u64,
    drm_render_minor: u64,
    location_id: u64,
    domain: u64,
}

impl Node {
    fn parse(bytes: &[u8]) -> Self {
        let mut node = Self::default();
        for (key, value) in pairs(bytes) {
            let field = match key {
                "simd_count" => &mut node.simd_count,
                "cpu_cores_count" => &mut node.cpu_cores_count,
                "vendor_id" => &mut node.vendor_id,
                "device_id" => &mut node.device_id,
                "gfx_target_version" => &mut node.gfx_target_version,
                "drm_render_minor" => &mut node.drm_render_minor,
                "location_id" => &mut node.location_id,
                "domain" => &mut node.domain,
                _ => continue,
            };
            *field = value;
        }
        node
    }

    fn is_gpu(&self) -> bool {
        self.simd_count > 0
            && self.vendor_id == u64::from(AMD)
            && self.gfx_target_version != 0
            && self.drm_render_minor != 0
    }

    /// `gfx942` of 90402; the last part is hexadecimal.
    fn target(&self) -> String {
        let version = self.gfx_target_version;
        format!("gfx{}{}{:x}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// The PCI address: bus, device and function stand in `location_id`.
    fn address(&self) -> String {
        let part = |value: u64, mask: u64| u32::try_from(value & mask).unwrap_or(0);
        let place = self.location_id;
        address(
            part(self.domain, 0xffff_ffff),
            part(place >> 8, 0xff),
            part(place >> 3, 0x1f),
            part(place, 7),
        )
    }
}

/// Lines of a name and a number; others are passed over.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = (&str, u64)> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        Some((words.next()?, words.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;
    use super::*;

    const MI300X: &str = "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ngfx_target_version 90402\n\
                          vendor_id 4098\ndevice_id 29857\nlocation_id 6400\ndomain 0\ndrm_render_minor 128\n";
    const IGPU: &str = "cpu_cores_count 0\nsimd_count 4\nmem_banks_count 0\ngfx_target_version 100306\n\
                        vendor_id 4098\ndevice_id 5710\nlocation_id 4096\ndomain 0\ndrm_render_minor 129\n";
    const CPU: &str = "cpu_cores_count 96\nsimd_count 0\nvendor_id 0\ngfx_target_version 0\ndrm_render_minor 0\n";
    const BANK: &str = "heap_type 1\nsize_in_bytes 206141652992\nflags 0\n";

    fn node(site: &Site, number: u32, properties: impl AsRef<[u8]>, bank: Option<&str>) {
        let folder = format!("sys/class/kfd/kfd/topology/nodes/{number}");
        site.file(&format!("{folder}/properties"), properties);
        if let Some(bank) = bank {
            site.file(&format!("{folder}/mem_banks/0/properties"), bank);
        }
    }

    #[test]
    fn a_gpu_with_memory_of_its_own_is_strong() {
        let site = Site::new();
        site.file("dev/kfd", "");
        site.file("dev/dri/renderD128", "");
        node(&site, 0, CPU, Some("heap_type 0\nsize_in_bytes 1000\n"));
        node(&site, 2, MI300X, Some(BANK));
        let report = site.look();
        assert_eq!(
            report.lines("rocm"),
            [
                "rocm.control /dev/kfd file weak".to_owned(),
                format!("rocm.kfd {NODES}/2/properties gfx942 at 0000:19:00.0 strong"),
            ]
        );
        let [device] = &report.0.devices[..] else {
            panic!("{report:?}")
        };
        assert_eq!(device.name.as_deref(), Some("Instinct MI300X"));
        assert_eq!(device.capability.as_deref(), Some("gfx942"));
        assert_eq!(
            (device.memory_bytes, device.memory_source),
            (Some(206_141_652_992), Some("sysfs"))
        );
        assert_eq!(device.integrated, Some(false));
    }

    #[test]
    fn one_inside_a_processor_is_weak() {
        for (properties, bank) in [
            (IGPU.to_owned(), None),
            (IGPU.to_owned(), Some("heap_type 1\nsize_in_bytes 536870912\n")),
            (
                MI300X
                    .replace("90402", "90012")
                    .replace("cpu_cores_count 0", "cpu_cores_count 8"),
                Some(BANK),
            ),
        ] {
            let site = Site::new();
            node(&site, 1, &properties, bank);
            let line = &site.look().lines("rocm")[0];
            assert!(line.starts_with("rocm.kfd ") && line.ends_with(" weak"), "{line}");
        }
    }

    #[test]
    fn a_data_centre_apu_is_strong() {
        let site = Site::new();
        node(&site, 1, MI300X.replace("29857", "29856"), None);
        assert!(site.look().lines("rocm")[0].ends_with(" strong"));
    }

    #[test]
    fn a_processors_node_is_none() {
        let site = Site::new();
        node(&site, 0, CPU, None);
        for (number, (field, value)) in [
            ("vendor_id 4098", "vendor_id 32902"),
            ("simd_count 1216", "simd_count 0"),
            ("gfx_target_version 90402", "gfx_target_version 0"),
            ("drm_render_minor 128", "drm_render_minor 0"),
        ]
        .into_iter()
        .enumerate()
        {
            node(
                &site,
                u32::try_from(number).unwrap() + 1,
                MI300X.replace(field, value),
                Some(BANK),
            );
        }
        assert_eq!(site.look().lines("rocm"), [""; 0]);
    }

    #[test]
    fn damaged_lines_are_passed_over_and_long_files_cut() {
        let mut odd: Vec<u8> = vec![0xff, 0x00, b'\n'];
        odd.extend_from_slice(
            b"simd_count\nsimd_count x\nlonely\n\n99999999999999999999999 1\nname 99999999999999999999999\n",
        );
        odd.extend(MI300X.bytes());
        for extra in [0, 20_000, 1_000_000] {
            let site = Site::new();
            let mut bytes = odd.clone();
            bytes.extend(std::iter::repeat_n(b'x', extra));
            node(&site, 1, &bytes, Some(BANK));
            assert!(
                site.look().lines("rocm")[0].ends_with("gfx942 at 0000:19:00.0 strong"),
                "{extra}"
            );
        }
        let site = Site::new();
        let mut late = vec![b'x'; MOST_PROPERTIES];
        late.extend(MI300X.bytes());
        node(&site, 1, &late, None);
        assert_eq!(
            site.look().lines("rocm"),
            [""; 0],
            "what stands behind the bound is not read"
        );
    }

    #[test]
    fn a_render_node_that_is_missing_speaks_against() {
        let site = Site::new();
        node(&site, 1, MI300X, Some(BANK));
        assert_eq!(
            site.look().lines("rocm")[1],
            "rocm.render /dev/dri/renderD128 it does not exist against"
        );
    }

    #[test]
    fn without_kfd_pci_tells_and_class_weighs() {
        let site = Site::new();
        site.pci("0000:01:00.0", "1002:74a1", "120000", "amdgpu");
        site.pci("0000:02:00.0", "1002:740f", "038000", "amdgpu");
        site.pci("0000:03:00.0", "1002:744c", "030000", "amdgpu");
        site.pci("0000:04:00.0", "1002:1586", "038000", "amdgpu");
        site.pci("0000:05:00.0", "1002:ffff", "030200", "amdgpu");
        site.pci("0000:05:00.1", "1002:ab38", "040300", "snd_hda_intel");
        let report = site.look();
        let weights: Vec<_> = report.0.evidence.iter().map(|one| one.weight.word()).collect();
        assert_eq!(weights, ["strong", "strong", "weak", "weak", "strong"]);
        assert_eq!(report.0.devices.len(), 5);
        assert_eq!(report.0.devices[3].integrated, Some(true));
    }

    #[test]
    fn targets_are_written_as_amd_writes_them() {
        for (version, target) in [
            (90_402, "gfx942"),
            (90_010, "gfx90a"),
            (110_000, "gfx1100"),
            (100_306, "gfx1036"),
        ] {
            let node = Node {
                gfx_target_version: version,
                ..Node::default()
            };
            assert_eq!(node.target(), target);
        }
    }

    #[test]
    fn masks_and_windows() {
        let site = Site::new();
        site.file("dev/dxg", "");
        let report = site.look_with(&[("ROCR_VISIBLE_DEVICES", "0"), ("HIP_VISIBLE_DEVICES", "1")]);
        assert_eq!(
            report.lines("rocm"),
            [
                "rocm.mask HIP_VISIBLE_DEVICES 1 info",
                "rocm.mask ROCR_VISIBLE_DEVICES 0 info",
                "rocm.wsl /dev/dxg file weak",
            ]
        );
    }
}
