"""vLLM's built-in platforms and their classes, and which platform a plugin's words speak of: data."""

from __future__ import annotations

CLASSES = {
    "tpu": "vllm.platforms.tpu.TpuPlatform",
    "cuda": "vllm.platforms.cuda.CudaPlatform",
    "rocm": "vllm.platforms.rocm.RocmPlatform",
    "xpu": "vllm.platforms.xpu.XPUPlatform",
    "cpu": "vllm.platforms.cpu.CpuPlatform",
}
"""The class of each, in the order in which vLLM asks."""

UNSPECIFIED = "vllm.platforms.interface.UnspecifiedPlatform"
"""What counts in vLLM where there is no platform."""

OUT_OF_TREE = ("neuron", "hpu", "npu", "apple")
"""Platforms that can be seen, and that vLLM has by plugins only."""

ZEN = "vllm.platforms.zen_cpu.ZenCpuPlatform"
PATHWAYS = "tpu_inference.platforms.tpu_platform.TpuPlatform"
_OTHERS = {ZEN: "cpu", PATHWAYS: "tpu"}
KNOWN = (*CLASSES.values(), *_OTHERS)
"""All classes of built-in platforms."""

_WORDS = {
    "cuda": ("cuda", "nvidia"),
    "rocm": ("rocm", "hip", "amd"),
    "xpu": ("xpu", "ipex", "intel"),
    "tpu": ("tpu", "libtpu"),
    "neuron": ("neuron", "neuronx", "trainium", "inferentia"),
    "hpu": ("hpu", "gaudi", "habana"),
    "npu": ("npu", "ascend", "davinci", "cann"),
    "apple": ("metal", "mps", "apple", "mlx"),
}


def platform_of(qualname: str) -> str | None:
    """The built-in platform that a class belongs to, or None."""
    return next((name for name, known in CLASSES.items() if known == qualname), _OTHERS.get(qualname))


def spoken_of(*texts: str) -> str | None:
    """The platform that names speak of, the first text counting most; None where they speak of none that is known."""
    for text in texts:
        words = "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()
        words += [word.removesuffix("platform") for word in words]
        for platform, known in _WORDS.items():
            if any(word in known for word in words):
                return platform
    return None
