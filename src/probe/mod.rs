//! Which accelerators are here, as far as files and the environment tell: evidence for and against, in one pass.
//!
//! Nothing here opens a device node, a library or a file that a driver answers by asking its device. What cannot be
//! looked at becomes evidence of its own: there is no error, and everything that is read or listed has a bound.

mod cpu;
mod cuda;
mod hpu;
mod ids;
mod neuron;
mod npu;
mod pci;
mod rocm;
mod root;
mod scene;
mod shelf;
mod tpu;
mod xpu;

use std::ffi::{OsStr, OsString};

use root::Root;
use scene::Scene;

/// The variables that count: all that a caller need hand in.
pub const VARIABLES: [&str; 10] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "JAX_PLATFORMS",
    "LD_LIBRARY_PATH",
    "ONEAPI_DEVICE_SELECTOR",
    "ROCR_VISIBLE_DEVICES",
    "TPU_VISIBLE_CHIPS",
    "VLLM_TARGET_DEVICE",
    "VLLM_TPU_USING_PATHWAYS",
    "ZE_AFFINITY_MASK",
];

/// What a piece of evidence weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A device was seen.
    Strong,
    /// Something that often comes with one.
    Weak,
    /// It speaks against using one.
    Against,
    /// Neither.
    Info,
}

impl Weight {
    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Strong => "strong",
            Self::Weak => "weak",
            Self::Against => "against",
            Self::Info => "info",
        }
    }
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The platform's name.
    pub platform: &'static str,
    /// Its stable name, `platform.what`.
    pub id: String,
    /// `file`, `pci`, `env` or `lib`.
    pub kind: &'static str,
    /// What was looked at, as the host names it.
    pub subject: String,
    /// What was found there.
    pub result: String,
    /// What it weighs.
    pub weight: Weight,
    /// What it means, in a short sentence.
    pub text: String,
}

/// One device that files tell of; what they do not tell is None.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The platform's name.
    pub platform: &'static str,
    /// Its place in the list.
    pub index: u32,
    /// As the table of PCI ids says.
    pub name: Option<String>,
    /// Its PCI address.
    pub pci: Option<String>,
    /// Its own memory.
    pub memory_bytes: Option<u64>,
    /// Where that number is from.
    pub memory_source: Option<&'static str>,
    /// AMD's target, as `gfx942`.
    pub capability: Option<String>,
    /// The driver that is bound to it.
    pub driver: Option<String>,
    /// Whether it shares the host's memory.
    pub integrated: Option<bool>,
}

/// All that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By platform, in the order of looking.
    pub evidence: Vec<Evidence>,
    /// By platform.
    pub devices: Vec<Device>,
    /// What is no evidence by itself, by name.
    pub facts: Vec<(&'static str, String)>,
}

/// Looks once at everything below `root`.
///
/// `environment` are names and values; of two with one name the last one counts, and only [`VARIABLES`] are looked at.
#[must_use]
pub fn passive(root: &OsStr, environment: &[(String, OsString)]) -> Report {
    let mut scene = Scene::new(Root::new(root), environment);
    for (platform, look) in PLATFORMS {
        scene.begin(platform);
        look(&mut scene);
    }
    scene.report()
}

type Look = fn(&mut Scene<'_>);

const PLATFORMS: [(&str, Look); 8] = [
    ("cuda", cuda::look),
    ("rocm", rocm::look),
    ("xpu", xpu::look),
    ("tpu", tpu::look),
    ("cpu", cpu::look),
    ("neuron", neuron::look),
    ("hpu", hpu::look),
    ("npu", npu::look),
];

#[cfg(test)]
mod tests;
