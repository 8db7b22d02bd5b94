//! Made roots, and what holds for all platforms: hostile input, order, bounds.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::PathBuf;

use proptest::prelude::*;

use super::root::Root;
use super::{Report, passive};

/// A root in a temporary folder.
pub(super) struct Site(tempfile::TempDir);

/// A report that tests can ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen(pub(super) Report);

impl Site {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self, inside: &str) -> PathBuf {
        self.0.path().join(inside)
    }

    fn place(&self, inside: &str) -> PathBuf {
        let path = self.path(inside);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(super) fn file(&self, inside: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.place(inside), bytes).unwrap();
    }

    pub(super) fn folder(&self, inside: &str) {
        std::fs::create_dir_all(self.path(inside)).unwrap();
    }

    pub(super) fn link(&self, inside: &str, target: &str) {
        symlink(target, self.place(inside)).unwrap();
    }

    pub(super) fn pipe(&self, inside: &str) {
        rustix::fs::mkfifoat(rustix::fs::CWD, self.place(inside), rustix::fs::Mode::RUSR).unwrap();
    }

    /// A PCI function as `uevent` tells of it.
    pub(super) fn pci(&self, address: &str, id: &str, class: &str, driver: &str) {
        let first = if driver.is_empty() {
            String::new()
        } else {
            format!("DRIVER={driver}\n")
        };
        let (id, class) = (id.to_uppercase(), class.trim_start_matches('0').to_uppercase());
        let text = format!("{first}PCI_CLASS={class}\nPCI_ID={id}\nPCI_SLOT_NAME={address}\n");
        self.file(&format!("sys/bus/pci/devices/{address}/uevent"), text);
    }

    /// A card of DRM whose device is a PCI function.
    pub(super) fn card(&self, number: u32, address: &str, minor: u32) {
        self.link(
            &format!("sys/class/drm/card{number}/device"),
            &format!("/sys/bus/pci/devices/{address}"),
        );
        self.folder(&format!("sys/bus/pci/devices/{address}/drm/renderD{minor}"));
        self.file(&format!("dev/dri/renderD{minor}"), "");
    }

    pub(super) fn root(&self) -> Root {
        Root::new(self.0.path().as_os_str())
    }

    pub(super) fn look(&self) -> Seen {
        self.look_with(&[])
    }

    pub(super) fn look_with(&self, environment: &[(&str, &str)]) -> Seen {
        let environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| ((*name).into(), OsString::from(*value)))
            .collect();
        Seen(passive(self.0.path().as_os_str(), &environment))
    }
}

impl Seen {
    /// A platform's evidence: id, subject, result, weight.
    pub(super) fn lines(&self, platform: &str) -> Vec<String> {
        let own = self.0.evidence.iter().filter(|one| one.platform == platform);
        own.map(|one| format!("{} {} {} {}", one.id, one.subject, one.result, one.weight.word()))
            .collect()
    }

    pub(super) fn fact(&self, name: &str) -> Option<&str> {
        self.0
            .facts
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Every file that some platform reads, and every node and folder that it looks at.
const FILES: [&str; 17] = [
    "etc/nv_tegra_release",
    "proc/cpuinfo",
    "proc/driver/nvidia/version",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/random/boot_id",
    "sys/bus/pci/devices/0000:18:00.0/uevent",
    "sys/bus/pci/devices/0000:19:00.0/vendor",
    "sys/bus/pci/devices/0000:19:00.0/device",
    "sys/bus/pci/devices/0000:19:00.0/class",
    "sys/class/accel/accel0/device/vendor",
    "sys/class/drm/card0/device/uevent",
    "sys/class/kfd/kfd/topology/nodes/1/properties",
    "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties",
    "sys/class/tegra-firmware",
    "sys/devices/soc0/family",
    "sys/kernel/iommu_groups/7/devices/0000:20:00.0/vendor",
    "sys/kernel/iommu_groups/7/devices/0000:20:00.0/device",
];
const NODES: [&str; 9] = [
    "dev/accel0",
    "dev/davinci0",
    "dev/davinci_manager",
    "dev/dxg",
    "dev/kfd",
    "dev/neuron0",
    "dev/nvidia0",
    "dev/nvidiactl",
    "dev/vfio/7",
];

#[test]
fn an_empty_root_gives_nothing_and_says_what_is_missing() {
    let report = Site::new().look();
    assert_eq!(report.0.evidence, []);
    assert_eq!(report.0.devices, []);
    assert_eq!(report.fact("dev"), Some("it does not exist"));
    assert_eq!(report.fact("pci"), Some("/sys/bus/pci/devices: it does not exist"));
}

#[test]
fn a_root_that_is_none_is_told() {
    let site = Site::new();
    site.file("file", "");
    for (path, said) in [("file", "it is not a folder"), ("absent", "it does not exist")] {
        let report = passive(site.path(path).as_os_str(), &[]);
        assert_eq!(report.facts, [("root", said.to_owned())]);
        assert_eq!(report.evidence, []);
    }
}

#[test]
fn this_machine_gives_an_answer() {
    let report = passive(OsStr::new("/"), &[]);
    let facts: Vec<_> = report.facts.iter().map(|(name, _)| *name).collect();
    assert!(!facts.contains(&"root"), "{facts:?}");
    if cfg!(target_os = "linux") {
        assert!(report.evidence.iter().any(|one| one.id == "cpu.features"), "{report:?}");
    }
}

#[test]
fn platforms_come_in_their_order() {
    let site = Site::new();
    for node in NODES {
        site.file(node, "");
    }
    site.file("proc/cpuinfo", "");
    let mut platforms: Vec<_> = site.look().0.evidence.into_iter().map(|one| one.platform).collect();
    platforms.dedup();
    assert_eq!(platforms, ["cuda", "rocm", "xpu", "tpu", "cpu", "neuron", "npu"]);
}

#[test]
fn pipes_and_sockets_are_neither_read_nor_nodes() {
    for make in ["pipe", "socket"] {
        let site = Site::new();
        let mut kept = Vec::new();
        for inside in FILES.iter().chain(&NODES) {
            if make == "pipe" {
                site.pipe(inside);
                continue;
            }
            // a socket's path is short, so it is made elsewhere and moved
            let short = site.path("s");
            kept.push(std::os::unix::net::UnixListener::bind(&short).unwrap());
            std::fs::rename(&short, site.place(inside)).unwrap();
        }
        let report = site.look();
        assert!(
            report.0.evidence.iter().all(|one| one.id.ends_with(".unreadable")),
            "{report:?}"
        );
        for expected in [
            format!("cuda.unreadable /dev/nvidia0 it is a {make}, no device info"),
            "cuda.unreadable /proc/driver/nvidia/version it is a pipe, a socket or a device info".to_owned(),
        ] {
            assert!(report.lines("cuda").contains(&expected), "{report:?}");
        }
        assert_eq!(report.fact("pci"), Some("2 damaged: 0000:18:00.0, 0000:19:00.0"));
    }
}

#[test]
fn folders_where_files_are_expected_give_no_yes() {
    let site = Site::new();
    for inside in FILES
        .iter()
        .chain(&NODES)
        .filter(|inside| !inside.ends_with("tegra-firmware"))
    {
        site.folder(inside);
    }
    let report = site.look();
    assert!(
        report.0.evidence.iter().all(|one| one.id.ends_with(".unreadable")),
        "{report:?}"
    );
}

#[test]
fn what_may_not_be_read_is_told() {
    let site = Site::new();
    for inside in FILES.iter().chain(&NODES) {
        site.file(inside, "0x10de");
        std::fs::set_permissions(site.path(inside), std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    if std::fs::read(site.path(FILES[0])).is_ok() {
        eprintln!("left out: this user may read everything");
        return;
    }
    let report = site.look();
    for expected in [
        "cuda.unreadable /proc/driver/nvidia/version permission denied info",
        "cuda.access /dev/nvidia0 permission denied against",
    ] {
        assert!(report.lines("cuda").iter().any(|line| line == expected), "{report:?}");
    }
    let properties = "/sys/class/kfd/kfd/topology/nodes/1/properties";
    let expected = format!("rocm.unreadable {properties} permission denied info");
    assert!(report.lines("rocm").contains(&expected), "{report:?}");
}

#[test]
fn links_never_lead_out_of_the_root() {
    let (site, other) = (Site::new(), Site::new());
    other.file("secret", "tegra\n");
    other.file("node", "");
    let outside = other.path("secret").display().to_string();
    site.link("sys/devices/soc0/family", &outside);
    site.link("dev/nvidia0", &other.path("node").display().to_string());
    site.link("dev/nvidia1", "/dev/null");
    site.link(
        "dev/nvidia2",
        &format!("../../../../../../../../..{}", other.path("node").display()),
    );
    site.link("proc", &other.path("").display().to_string());
    assert_eq!(site.look().lines("cuda"), [""; 0], "none of them is there");
    site.file("dev/null", "");
    assert_eq!(
        site.look().lines("cuda"),
        ["cuda.node /dev/nvidia1 file strong"],
        "inside the root it is a file"
    );
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_root_may_be_spelt_in_any_way() {
    let (site, other) = (Site::new(), Site::new());
    site.file("real/nvidia0", "");
    site.link("dev", "../../../../real");
    other.file("real/nvidia1", "");
    let path = site.path("").display().to_string();
    for odd in [format!("{path}//"), format!("{path}/./"), format!("{path}/real/..")] {
        let report = Seen(passive(OsStr::new(&odd), &[]));
        assert_eq!(report.lines("cuda"), ["cuda.node /dev/nvidia0 file strong"], "{odd}");
    }
}

#[test]
fn absolute_and_relative_links_are_followed_inside() {
    let site = Site::new();
    site.file("real/dev/nvidia0", "");
    site.link("dev", "/real/dev");
    site.file("real/soc/family", "tegra234\n");
    site.link("sys/devices/soc0", "../../../../../real/./x/../soc");
    site.folder("real/x");
    let lines = site.look().lines("cuda");
    assert_eq!(
        lines,
        [
            "cuda.node /dev/nvidia0 file strong",
            "cuda.tegra /sys/devices/soc0/family tegra234 strong"
        ]
    );
}

#[test]
fn loops_of_links_end() {
    let site = Site::new();
    site.link("dev/nvidia0", "nvidia0");
    site.link("dev/nvidia1", "nvidia2");
    site.link("dev/nvidia2", "nvidia1");
    site.link("sys", "/sys/bus");
    site.link("proc", "proc/proc/proc/proc");
    site.link("etc", &"etc/".repeat(1000));
    let report = site.look();
    let lines = report.lines("cuda");
    assert!(
        lines.len() >= 4 && lines.iter().all(|line| line.starts_with("cuda.unreadable ")),
        "{report:?}"
    );
}

#[test]
fn three_hundred_functions_are_read() {
    let site = Site::new();
    for number in 0..300 {
        let address = format!("{:04x}:{:02x}:00.0", number / 250, number % 250);
        let (id, class) = if number % 40 == 0 {
            ("10de:2330", "030200")
        } else {
            ("8086:1533", "020000")
        };
        site.pci(&address, id, class, "driver");
    }
    assert_eq!(site.look().lines("cuda").len(), 8);
}

#[test]
fn thousands_of_nodes_have_a_bound() {
    let site = Site::new();
    for number in 0..3000 {
        site.file(&format!("dev/nvidia{number}"), "");
    }
    let report = site.look();
    assert_eq!(report.lines("cuda").len(), 1024);
    assert!(report.lines("cuda")[1023].contains(" /dev/nvidia1023 "));
}

/// Bytes that are random, or words that the parsers look for, at random.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "PCI_CLASS=",
        "PCI_ID=",
        "10DE:2330",
        "30200",
        "DRIVER=",
        "\n",
        " ",
        ":",
        "simd_count ",
        "vendor_id 4098\n",
        "gfx_target_version ",
        "drm_render_minor ",
        "location_id ",
        "18446744073709551615",
        "0x1ae0",
        "0x0063",
        "tegra",
        "NVRM version: ",
        "570.1",
        "heap_type 1\n",
        "size_in_bytes ",
        "flags\t:",
        "avx512",
        "AuthenticAMD",
        "\u{fffd}",
    ]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        prop::collection::vec(word, 0..30).prop_map(|words| words.concat().into_bytes()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_content_is_too_odd(contents in prop::collection::vec(content(), FILES.len()), value in "\\PC{0,300}") {
        let site = Site::new();
        for (inside, bytes) in FILES.iter().zip(&contents) {
            site.file(inside, bytes);
        }
        for inside in NODES {
            site.file(inside, "");
        }
        let environment: Vec<_> = super::VARIABLES.iter().map(|name| (*name, value.as_str())).collect();
        let report = site.look_with(&environment);
        prop_assert_eq!(&report, &site.look_with(&environment));
        prop_assert!(report.0.evidence.len() < 60);
        for one in &report.0.evidence {
            prop_assert!(one.result.chars().count() <= 300 && !one.result.contains('\n'), "{:?}", one);
            prop_assert!(one.id.starts_with(one.platform) && !one.text.is_empty(), "{:?}", one);
        }
    }
}
