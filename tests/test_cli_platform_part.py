"""The platform part of `vplug doctor`: what a reader sees for each kind of answer, and what the exit status says."""

from __future__ import annotations

import textwrap

from vplug_rs.cli import platform_part, platform_text
from vplug_rs.platforms import model
from vplug_rs.platforms.answers import PlatformError
from vplug_rs.platforms.cleanliness import Cleanliness
from vplug_rs.platforms.model import Device, Evidence, Probe, Resolution

CLEAN = Cleanliness(libraries=[])
PROCESS = "process    clean: no driver library is mapped, no framework is imported, CUDA is not initialised"
CUDA, ROCM = "vllm.platforms.cuda.CudaPlatform", "vllm.platforms.rocm.RocmPlatform"


def pci(address: str, found: str = "10de:2330 class 030200") -> Evidence:
    return Evidence("cuda.pci", "pci", address, found, model.STRONG, "an NVIDIA GPU is present")


def node(number: int) -> Evidence:
    return Evidence("cuda.node", "file", f"/dev/nvidia{number}", "", model.STRONG, "the node of an NVIDIA GPU")


def said(resolution: Resolution, **more: object) -> str:
    arguments: dict[str, object] = {"process": CLEAN, "variables": ()} | more
    return "\n".join(platform_part.lines(resolution, **arguments))  # type: ignore[arg-type]  # each test gives its own


def text(golden: str) -> str:
    return textwrap.dedent(golden).strip("\n").replace("PROCESS", PROCESS)


def test_two_gpus() -> None:
    cuda = Probe(
        "cuda",
        model.PRESENT,
        qualname=CUDA,
        reason="NVML counts 2 GPUs",
        devices=[
            Device(n, name="NVIDIA H200", pci=f"0000:{n}8:00.0", memory_bytes=141 * 10**9, driver="570.124.06")
            for n in (1, 2)
        ],
        evidence=[
            pci("0000:18:00.0"),
            pci("0000:28:00.0"),
            node(0),
            node(1),
            Evidence("cuda.control", "file", "/dev/nvidiactl", "", model.WEAK, "the driver's control node"),
            Evidence("cuda.nvml", "call", "nvmlDeviceGetCount_v2", "2", model.STRONG, "NVML counts 2 GPUs"),
        ],
        backend="pynvml",
        isolated=True,
    )
    others = [Probe(name, model.ABSENT, reason="nothing of it was seen") for name in ("tpu", "rocm")]
    cpu = Probe("cpu", model.ABSENT, reason="this vLLM is no CPU build")
    resolution = Resolution(
        model.BUILTIN,
        qualname=CUDA,
        platform="cuda",
        probes=[*others, cuda, cpu],
        rejected=[(probe.platform, probe.reason) for probe in [*others, cpu]],
    )
    assert said(resolution, variables=[("CUDA_VISIBLE_DEVICES", "0,1")]) == text("""
        platform   cuda   vllm.platforms.cuda.CudaPlatform   (the only one that is here: NVML counts 2 GPUs)
          yes   PCI 10de:2330 class 030200 at 0000:18:00.0 and 1 more  an NVIDIA GPU is present
          yes   /dev/nvidia0 and 1 more                                the node of an NVIDIA GPU
          yes   nvmlDeviceGetCount_v2: 2                               NVML counts 2 GPUs
        devices    2 cuda devices, driver 570.124.06
          cuda  1  NVIDIA H200  0000:18:00.0  131.3 GiB
          cuda  2  NVIDIA H200  0000:28:00.0  131.3 GiB
        rejected   tpu, rocm: nothing of it was seen
                   cpu: this vLLM is no CPU build
        variables  CUDA_VISIBLE_DEVICES=0,1
        PROCESS
    """)


def test_nothing_was_seen() -> None:
    names = ("tpu", "cuda", "rocm")
    probes = [Probe(name, model.ABSENT, reason="nothing of it was seen") for name in names]
    resolution = Resolution(model.NONE, probes=probes, rejected=[(name, "nothing of it was seen") for name in names])
    assert said(resolution) == text("""
        platform   none   (vLLM would say: Failed to infer device type)
        rejected   tpu, cuda, rocm: nothing of it was seen
        PROCESS
    """)


def mismatch(status: str, code: str, reason: str, hint: str | None) -> Resolution:
    evidence = [pci("0000:18:00.0"), Evidence("cuda.nvml", "call", "nvmlInitWithFlags", code, model.AGAINST, reason)]
    cuda = Probe("cuda", status, reason=reason, evidence=evidence, backend="pynvml", isolated=True, hint=hint)
    return Resolution(model.NONE, probes=[cuda], rejected=[("cuda", reason)], warnings=[f"cuda: {reason}"])


def test_a_broken_driver_says_what_to_do() -> None:
    reason = "user-space library 570.195.03, kernel module 570.124.06"
    hint = "reload the nvidia modules or reboot; in a container, recreate it"
    assert said(mismatch(model.ABSENT, "error 18", reason, hint)) == text("""
        platform   none   (vLLM would say: Failed to infer device type)
          yes   PCI 10de:2330 class 030200 at 0000:18:00.0  an NVIDIA GPU is present
          no    nvmlInitWithFlags: error 18                 user-space library 570.195.03, kernel module 570.124.06
        rejected   cuda: user-space library 570.195.03, kernel module 570.124.06
        PROCESS
        warning    cuda: user-space library 570.195.03, kernel module 570.124.06
        fix        reload the nvidia modules or reboot; in a container, recreate it
    """)


def test_a_driver_that_does_not_answer_is_not_called_absent() -> None:
    first = said(mismatch(model.UNKNOWN, "time-out", "NVML did not answer in 10 s", None)).splitlines()[0]
    assert first == "platform   unknown   (cuda: NVML did not answer in 10 s)"


def test_a_conflict_shows_the_evidence_of_both_and_its_own_fix() -> None:
    cuda = Probe("cuda", model.PRESENT, qualname=CUDA, evidence=[pci("0000:18:00.0")], hint="not this one")
    kfd = Evidence("rocm.kfd", "file", "/sys/class/kfd/kfd/topology/nodes/1", "gfx942", model.STRONG, "an AMD GPU")
    rocm = Probe("rocm", model.PRESENT, qualname=ROCM, evidence=[kfd])
    error = PlatformError("Only one platform plugin can be activated, but got: ['cuda', 'rocm']", hint="set it")
    error.exit_status = 2
    resolution = Resolution(model.NONE, probes=[cuda, rocm, Probe("tpu", model.ABSENT)])
    assert said(resolution, conflict=error) == text("""
        platform   undecided   (Only one platform plugin can be activated, but got: ['cuda', 'rocm'])
          cuda    yes   PCI 10de:2330 class 030200 at 0000:18:00.0   an NVIDIA GPU is present
          rocm    yes   /sys/class/kfd/kfd/topology/nodes/1: gfx942  an AMD GPU
        PROCESS
        fix        set it
    """)


def test_a_plugin_is_named_with_its_distribution_though_it_is_called_like_a_builtin_one() -> None:
    builtin = Probe("cuda", model.PRESENT, qualname=CUDA, evidence=[pci("0000:18:00.0")])
    plugin = Probe("cuda", model.PRESENT, source="acme-chip 1.2", qualname="acme.Chip", backend="plugin")
    resolution = Resolution(
        model.OOT,
        qualname="acme.Chip",
        platform="cuda",
        probes=[builtin, plugin],
        rejected=[("cuda", "a plugin comes first")],
        warnings=["it claims acme, and nothing of that was seen"],
    )
    assert said(resolution) == text("""
        platform   cuda   acme.Chip   (a plugin of acme-chip 1.2 comes before built-in platforms)
        rejected   cuda: a plugin comes first
        PROCESS
        warning    it claims acme, and nothing of that was seen
    """)


def test_a_masked_platform_says_which_devices_are_hidden() -> None:
    devices = [
        Device(0, name="NVIDIA H200", visible=False),
        Device(1, status=model.UNKNOWN, note="NVML error 15", visible=False),
        Device(2, name="NVIDIA GB10", memory_bytes=128 << 30, integrated=True, capability="12.1", visible=True),
    ]
    cuda = Probe("cuda", model.MASKED, qualname=CUDA, devices=devices, evidence=[node(0)], hint="unset it")
    resolution = Resolution(model.OVERRIDE, qualname=CUDA, platform="cuda", probes=[cuda])
    assert said(resolution, variables=[("CUDA_VISIBLE_DEVICES", ""), ("VPLUG_PLATFORM", "cuda")]) == text("""
        platform   cuda   vllm.platforms.cuda.CudaPlatform   (it was named explicitly)
          yes   /dev/nvidia0  the node of an NVIDIA GPU
        devices    3 cuda devices
          cuda  0  NVIDIA H200                                        hidden by the environment
          cuda  1                                                     lost; hidden by the environment; NVML error 15
          cuda  2  NVIDIA GB10  128.0 GiB shared with the host  12.1
        variables  CUDA_VISIBLE_DEVICES=""
                   VPLUG_PLATFORM=cuda
        PROCESS
        fix        unset it
    """)


def test_weak_evidence_is_shown_only_where_nothing_is_strong() -> None:
    weak = Evidence("rocm.control", "file", "/dev/kfd", "", model.WEAK, "the driver's control node")
    info = Evidence("rocm.mask", "env", "HIP_VISIBLE_DEVICES", "0", model.INFO, "a mask")
    probe = Probe("rocm", model.ABSENT, evidence=[weak, info])
    assert "  weak  /dev/kfd  the driver's control node" in said(Resolution(model.NONE, probes=[probe]))
    assert "info" not in said(Resolution(model.NONE, probes=[probe]))
    both = Probe("cuda", model.PRESENT, qualname=CUDA, evidence=[weak, node(0)])
    resolution = Resolution(model.BUILTIN, qualname=CUDA, platform="cuda", probes=[both])
    assert "weak" not in said(resolution)


def test_nothing_that_a_driver_says_breaks_the_lines() -> None:
    evil = Evidence("cuda.nvml", "call", "x\ny", "1\n2", model.STRONG, "a\nb")
    probe = Probe(
        "cuda", model.PRESENT, qualname=CUDA, reason="r\ns", evidence=[evil], devices=[Device(0, name="N\nM")]
    )
    resolution = Resolution(
        model.BUILTIN, qualname=CUDA, platform="cuda", probes=[probe], rejected=[("a", "b\nc")], warnings=["d\ne"]
    )
    told = platform_part.lines(resolution, CLEAN, [("X", "1\n2")])
    assert "\n" not in "".join(told)
    assert len(told) == 8
    assert "\n" not in "".join(platform_text.probe_lines(probe))


def test_only_known_variables_are_shown() -> None:
    environment = {"HOME": "/root", "VPLUG_PLATFORM": "", "CUDA_VISIBLE_DEVICES": "0"}
    assert platform_part.variables(environment) == [("CUDA_VISIBLE_DEVICES", "0"), ("VPLUG_PLATFORM", "")]
