//! NVIDIA: PCI, the driver's nodes and version, Tegra's marks, Windows' GPU, MIG instances, NVML's library.

use super::ids::{self, Memory};
use super::pci::{Function, THREE_D, VGA};
use super::scene::{Scene, shown};
use super::{Device, Weight};
use crate::files::{Fault, Thing};

const CAPABILITIES: &str = "/proc/driver/nvidia/capabilities";
const VERSION: &str = "/proc/driver/nvidia/version";
const WSL_LIBRARIES: &str = "/usr/lib/wsl/lib";
const NVML: &str = "libnvidia-ml.so.1";
/// Where the loader, or a container's runtime, puts it.
const FOLDERS: [&str; 16] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib64",
    "/lib",
    "/usr/local/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib/nvidia",
    WSL_LIBRARIES,
    "/run/opengl-driver/lib",
];
/// Entries of `LD_LIBRARY_PATH` that are looked into.
const MOST_ENTRIES: usize = 256;
/// Folders in one such entry; nobody nests libraries deeper.
const MOST_FOLDERS: usize = 64;

pub(super) fn look(scene: &mut Scene<'_>) {
    let gpus: Vec<Function> = (scene.vendor(ids::NVIDIA).into_iter())
        .filter(|one| matches!(one.kind(), VGA | THREE_D))
        .collect();
    for gpu in &gpus {
        pci(scene, gpu);
    }
    for number in scene.nodes("nvidia") {
        scene.node(
            "node",
            &format!("/dev/nvidia{number}"),
            Weight::Strong,
            "a GPU's node, made by the NVIDIA driver",
        );
    }
    scene.node(
        "control",
        "/dev/nvidiactl",
        Weight::Weak,
        "the NVIDIA driver's control node",
    );
    driver(scene);
    tegra(scene);
    wsl(scene);
    mig(scene);
    library(scene);
    scene.mask("CUDA_VISIBLE_DEVICES", "which GPUs CUDA may see; NVML sees them all");
    for gpu in &gpus {
        unified(scene, gpu);
    }
}

fn pci(scene: &mut Scene<'_>, gpu: &Function) {
    let known = ids::known(gpu.vendor, gpu.device);
    let name = known.map(|one| one.name);
    let mut text = name.map_or_else(|| "an NVIDIA GPU".to_owned(), |name| format!("an NVIDIA GPU: {name}"));
    let mut weight = Weight::Strong;
    if gpu.is_handed_on() {
        weight = Weight::Weak;
        text += ", set aside for a virtual machine";
    }
    scene.function(gpu, weight, text);
    scene.device(Device {
        name: name.map(ToOwned::to_owned),
        pci: Some(gpu.address.clone()),
        driver: gpu.driver.clone(),
        integrated: known.map(|one| one.memory == Memory::Integrated),
        ..Device::default()
    });
}

/// The kernel module's version, which it says without asking a device.
fn driver(scene: &mut Scene<'_>) {
    let bytes = match scene.root.head(VERSION, 4096) {
        Ok(bytes) => bytes,
        Err(fault) => return scene.fault(VERSION, &fault),
    };
    let version = kernel_version(&bytes);
    let result = version.clone().unwrap_or_else(|| "without a version".to_owned());
    scene.add(
        "driver",
        ("file", VERSION),
        result,
        Weight::Weak,
        "the NVIDIA kernel module is loaded",
    );
    if let Some(version) = version {
        scene.fact("cuda.kernel", version);
    }
}

/// `570.124.06` of `NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Mar 19 …`.
fn kernel_version(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace()
        .find(|word| is_version(word))
        .map(ToOwned::to_owned)
}

/// Two numbers or more with dots between: `570.124.06`, and not `x86_64`.
fn is_version(word: &str) -> bool {
    let mut parts = word.split('.');
    let numbers = parts
        .clone()
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    numbers && parts.nth(1).is_some() && word.len() <= 32
}

fn tegra(scene: &mut Scene<'_>) {
    let text = "a mark of Jetson or another Tegra, whose GPU is no PCI device";
    for (path, folder) in [("/etc/nv_tegra_release", false), ("/sys/class/tegra-firmware", true)] {
        match scene.root.thing(path) {
            Ok(Thing::File) => scene.add("tegra", ("file", path), "file", Weight::Strong, text),
            Ok(Thing::Folder) if folder => scene.add("tegra", ("file", path), "folder", Weight::Strong, text),
            Ok(Thing::Other(word)) => scene.unreadable(path, format!("it is a {word}")),
            Ok(_) => {}
            Err(fault) => scene.fault(path, &fault),
        }
    }
    let path = "/sys/devices/soc0/family";
    match scene.word(path) {
        Ok(family) if family.to_ascii_lowercase().starts_with("tegra") => {
            scene.add("tegra", ("file", path), family, Weight::Strong, text);
        }
        Ok(_) => {}
        Err(fault) => scene.fault(path, &fault),
    }
}

fn wsl(scene: &mut Scene<'_>) {
    scene.node(
        "wsl",
        "/dev/dxg",
        Weight::Weak,
        "Windows lends this Linux a GPU and does not say whose",
    );
    for name in ["libcuda.so.1", NVML] {
        let path = format!("{WSL_LIBRARIES}/{name}");
        match scene.root.thing(&path) {
            Ok(Thing::File) => {
                let text = "a library of the NVIDIA driver in Windows";
                scene.add("wsl-library", ("lib", &path), "file", Weight::Weak, text);
            }
            Ok(_) | Err(Fault::Absent) => {}
            Err(fault) => scene.unreadable(&path, fault.text()),
        }
    }
}

/// Instances are listed, never asked. A GPU that could have some has the folder even where it has none.
fn mig(scene: &mut Scene<'_>) {
    for gpu in scene.numbers(CAPABILITIES, "gpu") {
        let path = format!("{CAPABILITIES}/gpu{gpu}/mig");
        match scene.root.numbers(&path, "gi") {
            Ok(instances) => {
                let text = match instances.len() {
                    0 => "no MIG instance on this GPU, whether MIG is on or off",
                    _ => "MIG is on: programs use instances of this GPU",
                };
                let result = match instances.len() {
                    1 => "1 instance".to_owned(),
                    number => format!("{number} instances"),
                };
                scene.add("mig", ("file", &path), result, Weight::Info, text);
            }
            Err(fault) => scene.fault(&path, &fault),
        }
    }
}

/// NVML's library: where the loader would find it, and the version in the name that its link leads to.
///
/// Below another root the folders of `LD_LIBRARY_PATH` are those of that root: what this machine has is no trace of it.
fn library(scene: &mut Scene<'_>) {
    let asked = scene
        .variable("LD_LIBRARY_PATH")
        .map(|value| value.to_string_lossy().into_owned());
    let root = &scene.root;
    let entries = (asked.as_deref().unwrap_or("").split([':', ';']))
        .filter(|one| !one.is_empty() && !one.contains('$') && one.split('/').count() <= MOST_FOLDERS)
        .filter(|one| root.is_machine() || one.starts_with('/'))
        .take(MOST_ENTRIES);
    let mut paths = entries
        .chain(FOLDERS)
        .map(|folder| format!("{}/{NVML}", folder.trim_end_matches('/')));
    let found = paths
        .find(|path| root.thing(path) == Ok(Thing::File))
        .map(|path| (root.end_name(&path), path));
    let Some((end, path)) = found else {
        return;
    };
    let end = shown(end.unwrap_or_default().as_bytes(), 100);
    let text = "NVML's library, the user's side of the driver";
    scene.add("library", ("lib", &path), end.clone(), Weight::Weak, text);
    if let Some(version) = end
        .strip_prefix("libnvidia-ml.so.")
        .filter(|version| is_version(version))
    {
        scene.fact("cuda.library", version.to_owned());
    }
    scene.fact("cuda.library_path", path);
}

fn unified(scene: &mut Scene<'_>, gpu: &Function) {
    let Some(known) = ids::known(gpu.vendor, gpu.device) else {
        return;
    };
    let text = match known.memory {
        Memory::Discrete => return,
        Memory::Integrated => "its memory is the host's: how much it has is not asked of NVML",
        Memory::Coherent => "it addresses the host's memory beside its own",
    };
    scene.add("integrated", ("pci", &gpu.address), known.name, Weight::Info, text);
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::super::passive;
    use super::super::tests::Site;
    use super::*;

    const NVRM: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 01:58:39 UTC 2025\n\
                        GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n";

    #[test]
    fn a_gpu_is_seen_on_pci_and_other_functions_of_the_vendor_are_not() {
        let site = Site::new();
        site.pci("0000:18:00.0", "10de:2330", "030200", "nvidia");
        site.pci("0000:01:00.0", "10de:2684", "030000", "nouveau");
        site.pci("0000:01:00.1", "10de:22ba", "040300", "snd_hda_intel");
        site.pci("0000:05:00.0", "10de:22a3", "068000", "nvidia-nvswitch");
        site.pci("0000:02:00.0", "10de:ffff", "030200", "vfio-pci");
        let report = site.look();
        assert_eq!(
            report.lines("cuda"),
            [
                "cuda.pci 0000:01:00.0 10de:2684 class 030000 strong",
                "cuda.pci 0000:02:00.0 10de:ffff class 030200 weak",
                "cuda.pci 0000:18:00.0 10de:2330 class 030200 strong",
            ]
        );
        let names: Vec<_> = report.0.devices.iter().map(|one| one.name.as_deref()).collect();
        assert_eq!(names, [Some("GeForce RTX 4090"), None, Some("H100 SXM5 80GB")]);
        let indices: Vec<_> = report.0.devices.iter().map(|one| one.index).collect();
        assert_eq!(indices, [0, 1, 2]);
    }

    #[test]
    fn nodes_are_anchored_and_in_the_order_of_their_numbers() {
        let site = Site::new();
        for name in [
            "nvidia10",
            "nvidia2",
            "nvidia0x",
            "nvidia",
            "nvidia00",
            "nvidia-uvm",
            "nvidia-caps",
            "nvidiactl",
        ] {
            site.file(&format!("dev/{name}"), "");
        }
        site.folder("dev/nvidia3");
        assert_eq!(
            site.look().lines("cuda"),
            [
                "cuda.node /dev/nvidia2 file strong",
                "cuda.node /dev/nvidia10 file strong",
                "cuda.control /dev/nvidiactl file weak",
            ]
        );
    }

    #[test]
    fn the_module_says_its_version() {
        assert_eq!(kernel_version(NVRM.as_bytes()).as_deref(), Some("570.124.06"));
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@x)\n";
        assert_eq!(kernel_version(open.as_bytes()).as_deref(), Some("580.65.06"));
        for odd in [
            "",
            "GCC version: 12.3.0",
            "NVRM version: none",
            "NVRM version: 1..2 .5 6. 570",
        ] {
            assert_eq!(kernel_version(odd.as_bytes()), None, "{odd}");
        }
        let site = Site::new();
        site.file("proc/driver/nvidia/version", NVRM);
        let report = site.look();
        assert_eq!(
            report.lines("cuda"),
            ["cuda.driver /proc/driver/nvidia/version 570.124.06 weak"]
        );
        assert_eq!(report.fact("cuda.kernel"), Some("570.124.06"));
        site.file("proc/driver/nvidia/version", [0xff; 20_000]);
        let report = site.look();
        assert_eq!(
            report.lines("cuda"),
            ["cuda.driver /proc/driver/nvidia/version without a version weak"]
        );
        assert_eq!(report.fact("cuda.kernel"), None);
    }

    #[test]
    fn each_mark_of_a_tegra_counts() {
        for (path, text, result) in [
            ("etc/nv_tegra_release", "# R36", "file"),
            ("sys/devices/soc0/family", "Tegra\n", "Tegra"),
            ("sys/class/tegra-firmware/versions", "", "folder"),
        ] {
            let site = Site::new();
            site.file(path, text);
            let lines = site.look().lines("cuda");
            let [line] = &lines[..] else { panic!("{lines:?}") };
            assert!(
                line.starts_with("cuda.tegra /") && line.ends_with(&format!(" {result} strong")),
                "{line}"
            );
        }
        let site = Site::new();
        site.file("sys/devices/soc0/family", "Snapdragon\n");
        site.folder("etc/nv_tegra_release");
        assert_eq!(site.look().lines("cuda"), [""; 0]);
    }

    #[test]
    fn windows_lends_a_gpu() {
        let site = Site::new();
        site.file("dev/dxg", "");
        site.file("usr/lib/wsl/lib/libcuda.so.1", "");
        site.file("usr/lib/wsl/lib/libnvidia-ml.so.1", "");
        site.file("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n");
        let report = site.look();
        assert_eq!(
            report.lines("cuda"),
            [
                "cuda.wsl /dev/dxg file weak",
                "cuda.wsl-library /usr/lib/wsl/lib/libcuda.so.1 file weak",
                "cuda.wsl-library /usr/lib/wsl/lib/libnvidia-ml.so.1 file weak",
                "cuda.library /usr/lib/wsl/lib/libnvidia-ml.so.1 libnvidia-ml.so.1 weak",
            ]
        );
        assert_eq!(report.fact("wsl"), Some("yes"));
        assert_eq!(
            report.fact("kernel_release"),
            Some("5.15.167.4-microsoft-standard-WSL2")
        );
    }

    #[test]
    fn instances_are_counted_by_listing() {
        let site = Site::new();
        for path in [
            "gpu0/mig/gi1/ci0",
            "gpu0/mig/gi2/ci0",
            "gpu1/mig",
            "gpu2",
            "mig",
            "gpu10/mig/gi7",
        ] {
            site.folder(&format!("proc/driver/nvidia/capabilities/{path}"));
        }
        let base = "cuda.mig /proc/driver/nvidia/capabilities";
        assert_eq!(
            site.look().lines("cuda"),
            [
                format!("{base}/gpu0/mig 2 instances info"),
                format!("{base}/gpu1/mig 0 instances info"),
                format!("{base}/gpu10/mig 1 instance info"),
            ]
        );
    }

    #[test]
    fn the_library_says_its_version_through_every_link() {
        let site = Site::new();
        let folder = "usr/lib/x86_64-linux-gnu";
        site.file(&format!("{folder}/nvidia/current/libnvidia-ml.so.570.195.03"), "");
        site.link(
            &format!("{folder}/nvidia/current/libnvidia-ml.so.1"),
            "libnvidia-ml.so.570.195.03",
        );
        site.link(
            "etc/alternatives/nvml",
            "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1",
        );
        site.link(&format!("{folder}/libnvidia-ml.so.1"), "/etc/alternatives/nvml");
        let report = site.look();
        let line = "cuda.library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 libnvidia-ml.so.570.195.03 weak";
        assert_eq!(report.lines("cuda"), [line]);
        assert_eq!(report.fact("cuda.library"), Some("570.195.03"));
        assert_eq!(
            report.fact("cuda.library_path"),
            Some("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
        );
    }

    #[test]
    fn the_loaders_path_comes_first_and_below_a_root_it_is_that_roots() {
        let site = Site::new();
        let other = Site::new();
        other.file("lib/libnvidia-ml.so.1", "");
        let folder = other.path("lib");
        let value = format!("/nowhere::lib:$ORIGIN/../lib;{}:/opt/nvidia//", folder.display());
        assert_eq!(site.look_with(&[("LD_LIBRARY_PATH", &value)]).lines("cuda"), [""; 0]);
        site.file("usr/lib64/libnvidia-ml.so.1", "");
        site.file("lib/libnvidia-ml.so.1", "");
        site.file("opt/driver/libnvidia-ml.so.1", "");
        site.link("opt/nvidia", "/opt/driver");
        let report = site.look_with(&[("LD_LIBRARY_PATH", &value)]);
        assert_eq!(
            report.lines("cuda"),
            ["cuda.library /opt/nvidia/libnvidia-ml.so.1 libnvidia-ml.so.1 weak"]
        );
        assert_eq!(report.fact("cuda.library"), None);
    }

    #[test]
    fn on_the_machine_itself_the_loaders_path_is_the_machines() {
        let other = Site::new();
        other.file("lib/libnvidia-ml.so.570.195.03", "");
        other.link("lib/libnvidia-ml.so.1", "libnvidia-ml.so.570.195.03");
        let folder = other.path("lib").display().to_string();
        let environment = [("LD_LIBRARY_PATH".to_owned(), OsString::from(&folder))];
        let report = passive(OsStr::new("/"), &environment);
        let path = format!("{folder}/libnvidia-ml.so.1");
        assert!(
            report.facts.contains(&("cuda.library_path", path)),
            "{:?}",
            report.facts
        );
        assert!(report.facts.contains(&("cuda.library", "570.195.03".to_owned())));
    }

    #[test]
    fn an_absurd_loaders_path_is_passed_over() {
        let site = Site::new();
        site.file("lib/libnvidia-ml.so.1", "");
        let report = site.look_with(&[("LD_LIBRARY_PATH", &"/a".repeat(60_000))]);
        assert_eq!(
            report.lines("cuda"),
            ["cuda.library /lib/libnvidia-ml.so.1 libnvidia-ml.so.1 weak"]
        );
    }

    #[test]
    fn a_mask_is_told_as_it_stands() {
        let site = Site::new();
        let report = site.look_with(&[("CUDA_VISIBLE_DEVICES", "7"), ("CUDA_VISIBLE_DEVICES", "")]);
        assert_eq!(report.lines("cuda"), ["cuda.mask CUDA_VISIBLE_DEVICES  info"]);
        let report = site.look_with(&[("CUDA_VISIBLE_DEVICES", "MIG-x, 1")]);
        assert_eq!(report.lines("cuda"), ["cuda.mask CUDA_VISIBLE_DEVICES MIG-x, 1 info"]);
    }

    #[test]
    fn memory_that_is_the_hosts_is_told() {
        let site = Site::new();
        site.pci("000f:01:00.0", "10de:2e12", "030000", "nvidia");
        site.pci("0009:01:00.0", "10de:2342", "030200", "nvidia");
        let report = site.look();
        assert_eq!(
            report.lines("cuda")[2..],
            [
                "cuda.integrated 0009:01:00.0 GH200 120GB / 480GB info",
                "cuda.integrated 000f:01:00.0 GB10 info"
            ]
        );
        let integrated: Vec<_> = report.0.devices.iter().map(|one| one.integrated).collect();
        assert_eq!(integrated, [Some(false), Some(true)]);
    }
}
