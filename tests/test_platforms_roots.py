"""What files alone make of each fake root: the status of every platform that left a trace, its class, the next step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vplug_rs.platforms import hints, probing
from vplug_rs.platforms.model import ABSENT, MASKED, PRESENT, UNKNOWN
from vplug_rs.testing import roots

CLASSES = {
    "cuda": "vllm.platforms.cuda.CudaPlatform",
    "rocm": "vllm.platforms.rocm.RocmPlatform",
    "xpu": "vllm.platforms.xpu.XPUPlatform",
    "tpu": "vllm.platforms.tpu.TpuPlatform",
    "cpu": "vllm.platforms.cpu.CpuPlatform",
}
PATHWAYS = "tpu_inference.platforms.tpu_platform.TpuPlatform"

# root -> platform -> (status, the name of its hint or None)
HERE, HERE_STEP = (PRESENT, None), (PRESENT, "amdsmi-missing")
EXPECTED: dict[str, dict[str, tuple[str, str | None]]] = {
    "accel-directory": {"cuda": HERE},
    "accel-empty": {},
    "amd-npu-accel": {},
    "arm-sve": {},
    "ascend": {"npu": (PRESENT, "out-of-tree")},
    "cpu-target": {"cuda": HERE, "cpu": HERE},
    "davinci-lookalike": {},
    "driver-mismatch": {"cuda": (UNKNOWN, "driver-mismatch")},
    "empty": {},
    "gaudi": {"hpu": (PRESENT, "out-of-tree")},
    "gb10": {"cuda": HERE},
    "gh200": {"cuda": HERE},
    "laptop": {"xpu": (ABSENT, None)},
    "links-outside": {},
    "masked": {"cuda": (MASKED, "masked")},
    "mig-two-instances": {"cuda": HERE},
    "mig-without-instance": {"cuda": HERE},
    "neuron": {"neuron": (PRESENT, "out-of-tree")},
    "neuron-lookalikes": {},
    "no-proc": {"cuda": HERE},
    "nvidia-and-amd-igpu": {"cuda": HERE, "rocm": HERE_STEP},
    "nvidia-and-rocm": {"cuda": HERE, "rocm": HERE_STEP},
    "nvidia-container": {"cuda": (PRESENT, "container-without-runtime")},
    "nvidia-container-runtime": {"cuda": HERE},
    "nvidia-driver-not-loaded": {"cuda": (PRESENT, "driver-not-loaded")},
    "nvidia-h100x8": {"cuda": HERE},
    "nvidia-handed-on": {"cuda": (ABSENT, "no-gpu-given")},
    "nvidia-nodes-absent": {"cuda": HERE},
    "nvidia-nodes-denied": {"cuda": (UNKNOWN, "no-permission")},
    "nvidia-nouveau": {"cuda": (PRESENT, "nouveau")},
    "pipes-and-sockets": {},
    "rocm-binary-properties": {"rocm": HERE_STEP},
    "rocm-cpu-nodes-only": {"rocm": (ABSENT, "kfd-without-gpu")},
    "rocm-igpu": {"rocm": HERE_STEP},
    "rocm-long-properties": {"rocm": HERE_STEP},
    "rocm-mi300x": {"rocm": HERE_STEP},
    "rocm-no-sysfs": {"rocm": (ABSENT, "kfd-without-gpu")},
    "rocm-render-absent": {"rocm": (PRESENT, "render-node")},
    "rocm-render-denied": {"rocm": (PRESENT, "render-node")},
    "rocm-unreadable-properties": {"rocm": HERE_STEP},
    "tegra-firmware": {"cuda": HERE},
    "tegra-release-file": {"cuda": HERE},
    "tegra-soc-family": {"cuda": HERE},
    "tpu-gvnic-only": {},
    "tpu-pathways": {"tpu": HERE},
    "tpu-v5e": {"tpu": HERE},
    "tpu-vfio": {"tpu": HERE},
    "vfio-bluefield": {},
    "vfio-gvnic": {},
    "vgpu": {"cuda": HERE},
    "wsl-with-libraries": {"cuda": (UNKNOWN, "wsl-not-asked"), "rocm": (ABSENT, None), "xpu": (ABSENT, None)},
    "wsl-without-libraries": {"cuda": (UNKNOWN, "wsl-not-asked"), "rocm": (ABSENT, None), "xpu": (ABSENT, None)},
    "xpu-denied": {"xpu": (PRESENT, "render-node")},
    "xpu-discrete": {"xpu": HERE},
    "xpu-igpu": {"xpu": (ABSENT, None)},
    "xpu-igpu-xe": {"xpu": (ABSENT, None)},
    "xpu-max": {"xpu": HERE},
    "zen-avx512": {},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_files_alone_make_of_a_root(name: str, tmp_path: Path) -> None:
    if roots.needs_user(name) and not os.geteuid():
        pytest.skip("a privileged user may open and read everything")
    root = roots.build(name, str(tmp_path))
    probes = probing.probe(root, environment=roots.environment(name), path=[])
    # `cpu` always tells why it does not count
    told = {
        probe.platform: probe
        for probe in probes
        if probe.reason != "nothing of it was seen" and (probe.platform != "cpu" or probe.status != ABSENT)
    }
    assert set(told) == set(EXPECTED[name])
    for platform, (status, hint) in EXPECTED[name].items():
        probe = told[platform]
        assert probe.status == status, probe
        qualname = PATHWAYS if name == "tpu-pathways" else CLASSES.get(platform)
        assert probe.qualname == (qualname if status in {PRESENT, MASKED} else None)
        if hint is None:
            assert probe.hint is None, probe.hint
        else:
            beginning = hints.HINTS[hint][1].partition("{")[0]
            assert probe.hint is not None and probe.hint.startswith(beginning), probe.hint
