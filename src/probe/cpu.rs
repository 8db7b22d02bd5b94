//! The processor: what it can do for a CPU build, and whether that build was asked for.

use super::Weight;
use super::scene::{Scene, shown};

const CPUINFO: &str = "/proc/cpuinfo";
/// The first processors are enough; the kernel writes two pages for four.
const MOST_CPUINFO: usize = 8192;
/// What CPU builds look for, in the kernel's spelling: x86, then Arm.
const FEATURES: [&str; 17] = [
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "neon",
    "asimd",
    "asimddp",
    "bf16",
    "i8mm",
    "sve",
];

pub(super) fn look(scene: &mut Scene<'_>) {
    match scene.root.head(CPUINFO, MOST_CPUINFO) {
        Ok(bytes) => {
            let features = features(&bytes).join(" ");
            scene.add(
                "features",
                ("file", CPUINFO),
                features,
                Weight::Info,
                "what CPU builds can make use of",
            );
            let zen = if is_zen(&bytes) { "yes" } else { "no" };
            let text = "whether it is an AMD processor with AVX-512, for which there is a build with zentorch";
            scene.add("zen", ("file", CPUINFO), zen, Weight::Info, text);
        }
        Err(fault) => scene.fault(CPUINFO, &fault),
    }
    let name = "VLLM_TARGET_DEVICE";
    if let Some(value) = scene.variable(name).map(|value| value.to_string_lossy().into_owned())
        && value.to_lowercase() == "cpu"
    {
        scene.add(
            "target",
            ("env", name),
            shown(value.as_bytes(), 16),
            Weight::Strong,
            "the CPU is asked for",
        );
    }
}

/// The features of the first processor that says any.
fn features(bytes: &[u8]) -> Vec<&'static str> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        matches!(key.trim_end(), "flags" | "Features").then_some(value)
    });
    let words: Vec<&str> = line.unwrap_or_default().split_ascii_whitespace().collect();
    FEATURES.into_iter().filter(|one| words.contains(one)).collect()
}

/// vLLM's rule, which looks for the two words anywhere.
fn is_zen(bytes: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
    has("AuthenticAMD") && has("avx512")
}

#[cfg(test)]
mod tests {
    use super::super::tests::Site;

    #[test]
    fn features_are_those_of_the_first_processor() {
        let site = Site::new();
        site.file(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 avx512f avx512_bf16 amx_tiles\n\n\
             processor\t: 1\nflags\t\t: fpu fma\n",
        );
        assert_eq!(
            site.look().lines("cpu"),
            [
                "cpu.features /proc/cpuinfo avx2 avx512f avx512_bf16 info",
                "cpu.zen /proc/cpuinfo yes info"
            ]
        );
    }

    #[test]
    fn arm_calls_them_otherwise() {
        let site = Site::new();
        site.file(
            "proc/cpuinfo",
            "processor\t: 0\nFeatures\t: fp asimd bf16 i8mm sve\nCPU implementer\t: 0x41\n",
        );
        assert_eq!(
            site.look().lines("cpu"),
            [
                "cpu.features /proc/cpuinfo asimd bf16 i8mm sve info",
                "cpu.zen /proc/cpuinfo no info"
            ]
        );
    }

    #[test]
    fn a_file_that_says_nothing_gives_no_feature() {
        for odd in [&b""[..], &vec![0xff; 1_000_000], b"flags\n:flags\nflags:"] {
            let site = Site::new();
            site.file("proc/cpuinfo", odd);
            assert_eq!(
                site.look().lines("cpu"),
                ["cpu.features /proc/cpuinfo  info", "cpu.zen /proc/cpuinfo no info"]
            );
        }
        assert_eq!(Site::new().look().lines("cpu"), [""; 0]);
    }

    #[test]
    fn the_target_is_read_in_any_case() {
        for (value, asked) in [
            ("cpu", true),
            ("CPU", true),
            ("cuda", false),
            ("", false),
            ("cpu ", false),
        ] {
            let lines = Site::new().look_with(&[("VLLM_TARGET_DEVICE", value)]).lines("cpu");
            assert_eq!(lines.len(), usize::from(asked), "{value:?}: {lines:?}");
        }
    }
}
