"""vLLM's platform functions by name: thin, quiet, and without a trace in the process that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import test_platforms_outside
from sites import build, dist
from vplug_rs.platforms.classes import CLASSES, UNSPECIFIED, platform_of
from vplug_rs.testing import libraries, modules

if TYPE_CHECKING:
    from test_platforms_outside import PlatformBed

bed = test_platforms_outside.bed

FUNCTIONS = """
from vplug_rs.platforms import functions
def each(): return [getattr(functions, f"{name}_platform_plugin")() for name in ("tpu", "cuda", "rocm", "xpu", "cpu")]
"""


def ask(bed: PlatformBed, code: str, **environment: str) -> Any:
    return bed.ask(FUNCTIONS + code, "-S", **environment)


@pytest.fixture
def nvml(bed: PlatformBed) -> dict[str, str]:
    """The variables of a process that finds a scripted NVML."""
    if libraries.compiler() is None:
        pytest.skip("no C compiler here: install gcc or clang, for the scripted NVML")
    libraries.fake_nvml(str(bed.folder / "lib"))
    return {"LD_LIBRARY_PATH": str(bed.folder / "lib")}


def test_each_function_asks_its_own_platform(bed: PlatformBed, nvml: dict[str, str]) -> None:
    log = bed.folder / "calls.txt"
    nvml["FAKE_NVML_LOG"] = str(log)
    modules.fake_module(bed.site, "libtpu")
    said = ask(bed, "say(functions.tpu_platform_plugin(), functions.cpu_platform_plugin())", **nvml)
    assert said == [CLASSES["tpu"], None]
    assert not log.exists(), "nobody asked the driver for that"
    assert ask(bed, "say(functions.cuda_platform_plugin())", **nvml) == [CLASSES["cuda"]]
    assert log.exists()


def test_a_cpu_build_is_cpu(bed: PlatformBed) -> None:
    build(bed.site, dist("vllm", "0.33.0+cpu"))
    (found,) = ask(bed, "say(functions.cpu_platform_plugin())")
    assert platform_of(found) == "cpu"


def test_a_driver_that_does_not_answer_is_none_and_told_once(bed: PlatformBed, nvml: dict[str, str]) -> None:
    code = """
warnings.simplefilter("default")
for _ in range(2):
    found = functions.cuda_platform_plugin()
say(found, seen)
"""
    found, seen = ask(bed, code, **nvml, FAKE_NVML_HANG="nvmlInitWithFlags", VPLUG_PROBE_TIMEOUT="1")
    assert found is None
    assert len(seen) == 1
    assert seen[0].startswith("PluginWarning: whether the platform cuda is here is not known")


def test_the_resolver_answers_as_vllms(bed: PlatformBed, nvml: dict[str, str]) -> None:
    build(bed.site, dist("vllm", "0.33.0"))
    code = "say(functions.resolve_current_platform_cls_qualname(), seen)"
    assert ask(bed, code, **nvml) == [CLASSES["cuda"], []]
    assert ask(bed, code, **nvml, FAKE_NVML_COUNT="0") == [UNSPECIFIED, []]
    found, seen = ask(bed, code, **nvml, FAKE_NVML_RC_nvmlInitWithFlags="999")
    assert (found, len(seen)) == (UNSPECIFIED, 1)
    bed.offer("tt", "def run(): return 'tt.Platform'\n")
    assert ask(bed, code, **nvml) == ["tt.Platform", []]


def test_a_plugin_that_wins_leaves_the_drivers_alone(bed: PlatformBed, nvml: dict[str, str]) -> None:
    bed.offer("tt", "def run(): return 'tt.Platform'\n")
    nvml["FAKE_NVML_LOG"] = str(bed.folder / "calls.txt")
    assert ask(bed, "say(functions.resolve_current_platform_cls_qualname())", **nvml) == ["tt.Platform"]
    assert not (bed.folder / "calls.txt").exists()


def test_asking_leaves_no_trace_in_the_process(bed: PlatformBed, nvml: dict[str, str]) -> None:
    for kind in ("libtpu", "torch-cuda", "amdsmi", "zentorch"):
        modules.fake_module(bed.site, kind)
    code = """
before = dict(os.environ), threading.active_count(), sorted(os.listdir("/proc/self/fd"))
functions.resolve_current_platform_cls_qualname(), each()
after = dict(os.environ), threading.active_count(), sorted(os.listdir("/proc/self/fd"))
say(before == after, [name for name in ("torch", "libtpu", "amdsmi", "zentorch", "pynvml") if name in sys.modules],
    "nvidia-ml" in open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else False)
"""
    log = bed.folder / "imports.txt"
    said = ask(bed, code, **nvml, FAKE_MODULE_LOG=str(log), VLLM_TARGET_DEVICE="")
    assert said == [True, [], False]
    assert not log.exists()
