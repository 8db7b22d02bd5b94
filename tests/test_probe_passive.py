"""The passive stage through the binding: every root, this machine, odd input, and no trace of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vplug_rs import _core
from vplug_rs.testing import roots

ORDER = ["cuda", "rocm", "xpu", "tpu", "cpu", "neuron", "hpu", "npu"]
KINDS = {"file", "pci", "env", "lib"}


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], str]:
    """Give a function that makes a root."""

    def made(name: str) -> str:
        if roots.needs_user(name) and may_read_everything(tmp_path):
            pytest.skip(f"{name} is about what a user may not open, and this user may open everything")
        return roots.build(name, tmp_path)

    return made


def may_read_everything(folder: Path) -> bool:
    """Whether permissions mean nothing to this user."""
    closed = folder / "closed"
    closed.touch(mode=0)
    return os.access(closed, os.R_OK, effective_ids=os.access in os.supports_effective_ids)


def ids(evidence: list[Any]) -> dict[str, list[str]]:
    """Ids by platform, in order."""
    found: dict[str, list[str]] = {}
    for platform, name, *_ in evidence:
        found.setdefault(platform, []).append(name)
    return found


@pytest.mark.parametrize("name", roots.names())
def test_each_root_gives_its_evidence_in_order(name: str, make: Callable[[str], str]) -> None:
    evidence, devices, facts = _core.probe_passive(make(name), roots.environment(name))
    assert ids(evidence) == roots.expected(name)
    assert list(ids(evidence)) == [one for one in ORDER if one in ids(evidence)]
    for platform, one, kind, subject, _, weight, text in evidence:
        assert one.startswith(f"{platform}.")
        assert kind in KINDS
        assert weight in {"strong", "weak", "against", "info"}
        assert subject
        assert text
        assert "/tmp/" not in subject, "subjects are the host's own paths"
    for platform in ORDER:
        own = [device[1] for device in devices if device[0] == platform]
        assert own == list(range(len(own)))
    assert all(isinstance(value, str) for value in facts.values())


def test_devices_are_counted_and_named(make: Callable[[str], str]) -> None:
    counts = {
        "nvidia-h100x8": {"cuda": ["H100 SXM5 80GB"] * 8},
        "rocm-mi300x": {"rocm": ["Instinct MI300X"] * 2},
        "nvidia-and-amd-igpu": {"cuda": ["GeForce RTX 4090"], "rocm": ["Raphael"]},
        "xpu-discrete": {"xpu": ["Arc A770"]},
        "tpu-v5e": {"tpu": ["TPU v5e"] * 4},
        "tpu-vfio": {"tpu": ["TPU v6e"] * 2},
        "neuron": {"neuron": ["Trainium"] * 2},
        "gaudi": {"hpu": ["Gaudi2"] * 2},
        "ascend": {"npu": [None, None]},
        "rocm-cpu-nodes-only": {},
        "tpu-gvnic-only": {},
    }
    for name, wanted in counts.items():
        found: dict[str, list[str | None]] = {}
        for device in _core.probe_passive(make(name), {})[1]:
            found.setdefault(device[0], []).append(device[2])
        assert found == wanted, name


def test_weights_tell_a_device_from_a_hint(make: Callable[[str], str]) -> None:
    strong = {
        "rocm-mi300x": True, "rocm-igpu": False, "xpu-discrete": True, "xpu-igpu": False, "xpu-igpu-xe": False,
        "nvidia-handed-on": False, "nvidia-driver-not-loaded": True, "wsl-with-libraries": False, "ascend": True,
        "tegra-firmware": True, "unknown-accelerators": True, "laptop": False,
    }  # fmt: skip
    for name, wanted in strong.items():
        evidence = _core.probe_passive(make(name), {})[0]
        assert any(one[5] == "strong" for one in evidence) == wanted, name
    unknown = _core.probe_passive(os.path.join(os.path.dirname(make("empty")), "unknown-accelerators"), {})[0]
    assert {one[0]: one[5] for one in unknown} == {
        "rocm": "strong", "tpu": "weak", "neuron": "weak", "hpu": "weak", "npu": "weak",
    }  # fmt: skip


def test_both_sides_of_a_mismatch_are_told(make: Callable[[str], str]) -> None:
    facts = _core.probe_passive(make("driver-mismatch"), {})[2]
    assert facts["cuda.kernel"] == "570.124.06"
    assert facts["cuda.library"] == "570.195.03"
    assert facts["cuda.library_path"] == "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"


def test_instances_are_counted(make: Callable[[str], str]) -> None:
    for name, wanted in (("mig-two-instances", "2 instances"), ("mig-without-instance", "0 instances")):
        evidence = _core.probe_passive(make(name), {})[0]
        assert [one[4] for one in evidence if one[1] == "cuda.mig"] == [wanted]


def test_nothing_is_asked_of_a_root_that_is_none(tmp_path: Path) -> None:
    assert _core.probe_passive(str(tmp_path / "absent"), {}) == ([], [], {"root": "it does not exist"})


def test_this_machine_gives_an_answer() -> None:
    evidence, _, facts = _core.probe_passive("/", os.environ)
    assert "root" not in facts
    if sys.platform == "linux":
        assert "cpu.features" in ids(evidence)["cpu"]
        assert facts["kernel_release"] == os.uname().release


def test_a_mapping_and_pairs_are_the_same(make: Callable[[str], str]) -> None:
    root = make("masked")
    given = {"CUDA_VISIBLE_DEVICES": "1,2", "OTHER": "x"}
    mapped = _core.probe_passive(root, given)
    assert mapped == _core.probe_passive(root, list(given.items()))
    assert mapped == _core.probe_passive(root, [("CUDA_VISIBLE_DEVICES", "0"), *given.items()])
    assert [one[4] for one in mapped[0] if one[1] == "cuda.mask"] == ["1,2"]


def test_a_value_that_is_no_text_is_shown_somehow(make: Callable[[str], str]) -> None:
    evidence = _core.probe_passive(make("empty"), {"CUDA_VISIBLE_DEVICES": os.fsdecode(b"\xff1")})[0]
    assert [one[4] for one in evidence] == ["\ufffd1"]


@pytest.mark.parametrize("wrong", [None, 5, [("a",)], ["ab"], {"CUDA_VISIBLE_DEVICES": 1}])
def test_another_environment_is_refused(wrong: Any, make: Callable[[str], str]) -> None:
    with pytest.raises(TypeError):
        _core.probe_passive(make("empty"), wrong)


def test_pipes_do_not_hold_it_up_and_are_not_opened(make: Callable[[str], str]) -> None:
    root = make("pipes-and-sockets")
    # a writer that waits for a reader would be let go if one of them were opened
    opened = threading.Event()

    def write() -> None:
        with open(os.path.join(root, "proc/driver/nvidia/version"), "wb"):
            opened.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    start = time.perf_counter()
    for _ in range(20):
        _core.probe_passive(root, {})
    assert time.perf_counter() - start < 2
    assert not opened.is_set()
    with open(os.path.join(root, "proc/driver/nvidia/version"), "rb"):
        writer.join(10)
    assert opened.is_set()


def test_a_root_that_cannot_be_written_is_the_same(make: Callable[[str], str]) -> None:
    root = make("nvidia-container-runtime")
    before = _core.probe_passive(root, {})
    folders = [folder for folder, _, _ in os.walk(root)]
    try:
        for folder in folders:
            os.chmod(folder, 0o555)
        assert _core.probe_passive(root, {}) == before
    finally:
        for folder in folders:
            os.chmod(folder, 0o755)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of open files and threads there only")
def test_it_leaves_no_trace(make: Callable[[str], str]) -> None:
    made = [make(name) for name in ("nvidia-h100x8", "rocm-mi300x", "pipes-and-sockets", "links-outside", "tpu-vfio")]

    def state() -> tuple[Any, ...]:
        with open("/proc/self/maps") as file:
            libraries = {line.split(maxsplit=5)[5].strip() for line in file if "/" in line}
        descriptors = len(os.listdir("/proc/self/fd"))
        return descriptors, len(os.listdir("/proc/self/task")), libraries, dict(os.environ), set(sys.modules)

    before = state()
    for _ in range(50):
        for root in [*made, "/"]:
            _core.probe_passive(root, os.environ)
    assert state() == before


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here to watch system calls")
def test_no_device_node_no_library_and_no_gpus_file_is_opened(make: Callable[[str], str], tmp_path: Path) -> None:
    root = make("nvidia-h100x8")
    gpu = os.path.join(root, "proc/driver/nvidia/gpus/0000:18:00.0")
    os.makedirs(gpu)
    Path(gpu, "information").write_text("Model: H100\n")
    log = tmp_path / "log"
    code = (
        "import os, sys; from vplug_rs import _core; os.access('/begin', 0)\n"
        "for root in sys.argv[1:]: _core.probe_passive(root, {'LD_LIBRARY_PATH': root + '/usr/lib/x86_64-linux-gnu'})\n"
        "os.access('/end', 0)"
    )
    watched = ["strace", "-f", "-o", str(log), "-e", "trace=%file", sys.executable, "-c", code, root, "/"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(watched, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and "ptrace" in done.stderr:
        pytest.skip(f"strace may not watch here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    calls = re.split(r'.*"/(?:begin|end)".*\n', log.read_text())
    assert len(calls) == 3, "the two marks are in the log"
    opened = re.findall(r'open(?:at2?)?\((?:AT_FDCWD|\d+), "([^"]*)"', calls[1])
    assert any(path.endswith("/proc/driver/nvidia/version") for path in opened)
    assert any(path == "/proc/cpuinfo" for path in opened)
    inside = [path.removeprefix(root) for path in opened]
    assert not [path for path in inside if path.startswith("/dev/") or ".so" in path or "/gpus" in path], inside
