"""probe(): one pass, drivers in processes of their own, a judgement on each platform, and no trace."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import vplug_rs
from interpreters import clean_environment, shared_import_root
from sites import Fifo, Link, Node, Unreadable, build, dist
from vplug_rs import env, platforms
from vplug_rs.platforms import hints, passive, probing
from vplug_rs.platforms.model import ABSENT, MASKED, PRESENT, STRONG, UNKNOWN, Probe
from vplug_rs.testing import roots
from vplug_rs.testing.modules import LOG, fake_distribution, fake_module

ORDER = ["tpu", "cuda", "rocm", "xpu", "cpu", "neuron", "hpu", "npu", "apple"]
CUDA = "vllm.platforms.cuda.CudaPlatform"
NVRM = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26 01:58:39 UTC 2025\n"


@pytest.fixture
def gpu_root(tmp_path: Path) -> Path:
    """A root with one NVIDIA GPU on the bus, its node and its driver."""
    tree: dict[str, Node] = {
        "dev": {"nvidia0": "", "nvidiactl": ""},
        "proc": {"driver": {"nvidia": {"version": NVRM}}},
        "sys": {"bus": {"pci": {"devices": {"0000:01:00.0": {
            "vendor": "0x10de\n", "device": "0x2330\n", "class": "0x030200\n", "uevent": "DRIVER=nvidia\n",
        }}}}},
    }  # fmt: skip
    return build(tmp_path / "root", tree)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A path with a scripted pynvml."""
    fake_module(tmp_path / "site", "pynvml")
    return tmp_path / "site"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """An environment in which the loader finds something by NVML's name; pynvml's stand-in never calls it."""
    real = ctypes.util.find_library("m")
    if real is None:
        pytest.skip("no C library was found that could stand for NVML's")
    for folder in ("/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib/aarch64-linux-gnu", "/usr/lib", "/lib"):
        if os.path.exists(os.path.join(folder, real)):
            build(tmp_path / "lib", {"libnvidia-ml.so.1": Link(os.path.join(folder, real))})
            return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path / "lib")}
    pytest.skip(f"{real} is in none of the usual folders")


def by_name(probes: list[Probe]) -> dict[str, Probe]:
    return {probe.platform: probe for probe in probes}


def ids(probe: Probe) -> list[str]:
    return [one.id for one in probe.evidence]


def ask(root: Path, site: Path, variables: dict[str, str], timeout: float = 20, **more: object) -> Probe:
    """The probe of CUDA, with drivers asked."""
    options: dict[str, object] = {"active": True, "path": [str(site)]} | more
    return by_name(probing.probe(str(root), environment=variables, timeout=timeout, **options))["cuda"]  # type: ignore[arg-type]


# ------------------------------------------------------------------ files alone


def test_all_platforms_are_told_in_vllms_order(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    probes = probing.probe(str(tmp_path / "root"), environment={}, path=[])
    assert [probe.platform for probe in probes] == ORDER
    assert {probe.status for probe in probes} == {ABSENT}
    assert {probe.backend for probe in probes} == {"passive"}
    assert all(probe.qualname is None and probe.reason and probe.ms > 0 for probe in probes)
    assert {probe.reason for probe in probes if probe.platform != "cpu"} == {"nothing of it was seen"}


def test_this_machine_can_be_asked_too() -> None:
    probes = platforms.probe(timeout=0)
    assert [probe.platform for probe in probes] == ORDER


def test_another_root_is_not_asked_by_itself(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    probe = ask(gpu_root, site, variables, active=None)
    assert (probe.status, probe.backend) == (PRESENT, "passive")
    assert probe.reason == "seen, not confirmed: NVML was not asked"
    assert [device.pci for device in probe.devices] == ["0000:01:00.0"]


def test_a_time_of_nought_asks_nobody(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    assert ask(gpu_root, site, variables, timeout=0).backend == "passive"


def test_the_variable_says_how_long(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    options = {"environment": variables | {env.PROBE_TIMEOUT: "0"}, "path": [str(site)], "active": True}
    probe = by_name(probing.probe(str(gpu_root), **options))["cuda"]  # type: ignore[arg-type]
    assert probe.backend == "passive"


@pytest.mark.parametrize("root", ["missing", "file", "closed", "pipe"])
def test_a_root_that_is_none_is_told_and_not_raised(root: str, tmp_path: Path) -> None:
    build(tmp_path, {"file": "x", "closed": Unreadable({"dev": {}}), "pipe": Fifo()})
    probes = by_name(probing.probe(str(tmp_path / root), environment={}, path=[]))
    assert probes["cuda"].status == ABSENT
    if root != "closed":
        assert probes["cuda"].reason.startswith("nothing of it was seen: ")
    elif os.geteuid():  # a privileged user looks into it
        assert "cuda.unreadable" in ids(probes["cuda"])
    (tmp_path / "closed").chmod(0o700)


def test_a_root_that_can_be_no_path_is_told_and_not_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for root in ("", "a\0b", "/\ud800", "/" + "x" * 5000, "/x" * 3000):
        probe = by_name(probing.probe(root, environment={}, path=[]))["cuda"]
        assert (probe.status, probe.reason[:24]) == (ABSENT, "nothing of it was seen: "), root
    assert by_name(probing.probe(tmp_path, environment={}, path=[]))["cuda"].reason == "nothing of it was seen"
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert by_name(probing.probe("dev", environment={}, path=[""]))["cuda"].status == ABSENT


def test_odd_variables_do_no_harm(tmp_path: Path) -> None:
    odd = {
        "LD_LIBRARY_PATH": "/\udcff\udcfe:/x", "CUDA_VISIBLE_DEVICES": "\ud800", "ÄÖÜ": "1", "\udcff": "2", "": "",
        "JAX_PLATFORMS": "x" * 100_000,
    }  # fmt: skip
    probes = by_name(probing.probe(str(tmp_path), environment=odd, path=[None, b"x", 7]))
    assert probes["tpu"].status == ABSENT
    assert probes["cuda"].status == ABSENT


def test_rows_of_the_core_become_records_by_platform(gpu_root: Path) -> None:
    seen = passive.look(str(gpu_root), {})
    assert [one.id for one in seen.evidence("cuda")] == ["cuda.pci", "cuda.node", "cuda.control", "cuda.driver"]
    assert [device.driver for device in seen.devices("cuda")]
    assert seen.facts["cuda.kernel"] == "570.124.06"
    assert seen.evidence("rocm") == [] and seen.devices("rocm") == [] and seen.ms > 0


def test_modules_on_the_path_count_and_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    for kind in ("libtpu-exits", "torch-hip", "amdsmi-noisy", "zentorch-oserror", "pynvml-shadow"):
        fake_module(tmp_path / "site", kind)
    fake_distribution(tmp_path / "site", "vllm", "0.33.0+cpu")
    cpuinfo = "vendor_id : AuthenticAMD\nflags : avx512f\n"
    root = build(tmp_path / "root", {"proc": {"cpuinfo": cpuinfo}, "dev": {"kfd": "", "dxg": ""}})
    probes = by_name(probing.probe(str(root), environment=dict(os.environ), path=[str(tmp_path / "site")]))
    assert probes["tpu"].qualname == "vllm.platforms.tpu.TpuPlatform"
    assert probes["cpu"].qualname == "vllm.platforms.zen_cpu.ZenCpuPlatform"
    assert not (tmp_path / "log").exists()


# ------------------------------------------------------------------ drivers asked


def test_nvml_confirms_and_tells_of_the_devices(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    probe = ask(gpu_root, site, variables | {"FAKE_NVML_COUNT": "2"})
    assert (probe.status, probe.qualname) == (PRESENT, CUDA), probe
    assert (probe.reason, probe.backend, probe.isolated) == ("NVML counts 2 GPUs", "pynvml", True)
    first, second = probe.devices
    assert (first.pci, first.capability, first.driver) == ("0000:01:00.0", "9.0", "570.124.06")
    assert (first.memory_bytes, first.memory_source) == (80 << 30, "nvml")
    assert second.pci == "0000:02:00.0"
    assert {"cuda.pci", "cuda.nvml", "cuda.pynvml"} <= set(ids(probe))
    assert probe.ms > 1


def test_without_any_sign_no_process_is_started(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir()
    monkeypatch.setitem(sys.modules, "vplug_rs.platforms.isolated", None)  # importing it would raise
    assert ask(tmp_path / "root", site, {}).backend == "passive"


def test_a_vllm_for_cpus_asks_no_driver(
    gpu_root: Path, site: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_distribution(site, "vllm", "0.33.0+cpu")
    monkeypatch.setitem(sys.modules, "vplug_rs.platforms.isolated", None)
    probe = ask(gpu_root, site, variables)
    assert (probe.status, probe.backend) == (ABSENT, "passive")


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ({"FAKE_NVML_RC_nvmlInitWithFlags": "18"}, ABSENT),
        ({"FAKE_NVML_RC_nvmlInitWithFlags": "9"}, ABSENT),
        ({"FAKE_NVML_RC_nvmlDeviceGetCount_v2": "999"}, UNKNOWN),
        ({"FAKE_NVML_COUNT": "0"}, ABSENT),
        ({"FAKE_NVML_CRASH": "nvmlDeviceGetCount_v2"}, UNKNOWN),
        ({"FAKE_NVML_RC_nvmlShutdown": "999"}, PRESENT),
        ({"FAKE_NVML_COUNT": "3", "FAKE_NVML_LOST": "1"}, PRESENT),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, MASKED),
    ],
)
def test_what_nvml_does_decides(
    script: dict[str, str], status: str, gpu_root: Path, site: Path, variables: dict[str, str]
) -> None:
    probe = ask(gpu_root, site, variables | script)
    assert probe.status == status, probe
    assert (probe.qualname == CUDA) is (status in {PRESENT, MASKED})
    assert probe.strong


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_a_driver_that_hangs_is_unknown_in_time(
    function: str, gpu_root: Path, site: Path, variables: dict[str, str]
) -> None:
    began = time.monotonic()
    probe = ask(gpu_root, site, variables | {"FAKE_NVML_HANG": function}, timeout=1.5)
    assert time.monotonic() - began < 2.5
    assert (probe.status, probe.qualname) == (UNKNOWN, None)
    assert function in probe.reason
    assert "VPLUG_PROBE_TIMEOUT" in str(probe.hint)


def test_a_time_too_short_to_be_told_is_nought(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    probe = ask(gpu_root, site, variables, timeout=1e-9)
    assert probe.status == UNKNOWN
    assert "0.001 s are too short to start a process at all" in probe.reason


def test_a_hang_after_the_count_takes_no_gpu_away(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    probe = ask(gpu_root, site, variables | {"FAKE_NVML_HANG": "nvmlShutdown"}, timeout=1.5)
    assert probe.status == PRESENT
    assert "cuda.note" in ids(probe)


def test_both_ways_of_asking_are_compared(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    probe = ask(gpu_root, site, variables, both=True)
    assert (probe.status, probe.backend) == (PRESENT, "pynvml")
    # the library behind it is none, so that the native way fails
    (compared,) = [one for one in probe.evidence if one.id == "cuda.backends"]
    assert compared.subject == "native" and compared.text.startswith("another answer than pynvml")


def test_no_interpreter_to_start_is_unknown(
    gpu_root: Path, site: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    probe = ask(gpu_root, site, variables)
    assert (probe.status, probe.qualname) == (UNKNOWN, None)
    assert "sys.executable" in probe.reason


def test_amdsmi_is_asked_by_name_only(tmp_path: Path, variables: dict[str, str]) -> None:
    fake_module(tmp_path / "site", "amdsmi")
    (tmp_path / "root").mkdir()
    options = {
        "environment": variables | {LOG: str(tmp_path / "log")},
        "path": [str(tmp_path / "site")],
        "active": True,
    }
    silent = by_name(probing.probe(str(tmp_path / "root"), **options))["rocm"]  # type: ignore[arg-type]
    assert silent.status == ABSENT and not (tmp_path / "log").exists()
    asked = by_name(probing.probe(str(tmp_path / "root"), ask={"amdsmi"}, **options))["rocm"]  # type: ignore[arg-type]
    assert (asked.status, asked.backend, asked.isolated) == (PRESENT, "amdsmi", True)
    assert "rocm.amdsmi" in ids(asked) and asked.devices[0].capability == "gfx942"
    assert (tmp_path / "log").read_text() == "amdsmi\n"


@pytest.mark.parametrize("name", ["amdsmi/__init__.py", "amdsmi.py"])
def test_amdsmi_is_asked_and_no_file_beside_it(name: str, tmp_path: Path) -> None:
    build(tmp_path / "site", {"__init__.py": "import os; os.abort()", "amdsmi": {}})
    text = fake_module(tmp_path / "other", "amdsmi")
    (tmp_path / "site" / name).write_text(Path(text, "__init__.py").read_text("utf-8"), "utf-8")
    (tmp_path / "root").mkdir()
    found = by_name(
        probing.probe(
            str(tmp_path / "root"), environment={}, path=[str(tmp_path / "site")], active=True, ask={"amdsmi"}
        )
    )["rocm"]
    assert (found.status, found.backend) == (PRESENT, "amdsmi"), found


def test_an_amdsmi_that_prints_and_raises_does_no_harm(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fake_module(tmp_path / "site", "amdsmi-noisy")
    (tmp_path / "root").mkdir()
    found = by_name(
        probing.probe(
            str(tmp_path / "root"), environment={}, path=[str(tmp_path / "site")], active=True, ask={"amdsmi"}
        )
    )["rocm"]
    assert found.status == ABSENT and "KeyError" in found.evidence[0].text
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------ no trace


def test_a_forked_child_can_ask_and_so_can_its_parent_afterwards(
    gpu_root: Path, site: Path, variables: dict[str, str]
) -> None:
    assert ask(gpu_root, site, variables).status == PRESENT
    pid = os.fork()
    if not pid:
        try:
            os._exit(7 if ask(gpu_root, site, variables).status == PRESENT else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert ask(gpu_root, site, variables).status == PRESENT


def test_a_probe_leaves_no_trace(gpu_root: Path, site: Path, variables: dict[str, str]) -> None:
    program = """
        import os, sys, threading
        def state():
            with open("/proc/self/maps" if os.path.exists("/proc/self/maps") else os.devnull) as stream:
                maps = stream.read()
            libraries = [n for n in ("nvidia-ml", "libcuda", "amd_smi", "libhsa", "libze") if n in maps]
            descriptors = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
            return dict(os.environ), descriptors, threading.active_count(), list(sys.path), sys.meta_path[:], libraries
        from vplug_rs.platforms import probing
        before, modules = state(), set(sys.modules)
        probes = probing.probe(ROOT, path=[SITE], active=True)
        assert state() == before, (state(), before)
        new = {name.partition(".")[0] for name in set(sys.modules) - modules}
        assert new <= sys.stdlib_module_names | {"vplug_rs"}, new
        pid = os.fork()
        if not pid:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        print(next(probe.status for probe in probes if probe.platform == "cuda"))
    """
    program = f"ROOT, SITE = {str(gpu_root)!r}, {str(site)!r}\n" + textwrap.dedent(program)
    package = os.path.dirname(os.path.dirname(vplug_rs.__file__))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=variables | {"PYTHONPATH": package, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("present\n", "", 0)


def test_files_alone_load_no_machinery_of_processes(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    program = f"""
        import sys
        from vplug_rs import platforms
        assert "vplug_rs.platforms.probing" not in sys.modules
        platforms.probe({str(tmp_path / "root")!r}, active=True)
        heavy = {{"subprocess", "json", "typing", "re", "dataclasses", "pathlib", "vplug_rs.platforms.nvml"}}
        print(sorted(heavy & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-S", "-c", textwrap.dedent(program)],
        env={"PYTHONPATH": os.path.dirname(os.path.dirname(vplug_rs.__file__))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


# ------------------------------------------------------------------ names and numbers


def test_the_packages_names_are_there_when_they_are_used() -> None:
    assert platforms.probe is probing.probe
    assert platforms.Probe is Probe
    assert set(platforms.__all__) <= set(dir(platforms))
    for name in platforms.__all__:
        assert getattr(platforms, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        platforms.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("text", "seconds", "unknown"),
    [
        (None, 10.0, None),
        ("", 10.0, None),
        (" ", 10.0, None),
        ("0", 0.0, None),
        ("2.5", 2.5, None),
        (" 3 ", 3.0, None),
        ("1e2", 100.0, None),
        ("-1", 10.0, "-1"),
        ("nan", 10.0, "nan"),
        ("inf", 10.0, "inf"),
        ("ten", 10.0, "ten"),
        ("5s", 10.0, "5s"),
    ],
)
def test_a_number_of_seconds_is_read_or_the_default_counts(
    text: str | None, seconds: float, unknown: str | None
) -> None:
    environment = {} if text is None else {env.PROBE_TIMEOUT: text}
    assert env.seconds(env.PROBE_TIMEOUT, 10.0, environment) == seconds
    assert env.unknown_seconds(env.PROBE_TIMEOUT, environment) == unknown


def test_seconds_are_read_from_this_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(env.PROBE_TIMEOUT, "4")
    assert env.seconds(env.PROBE_TIMEOUT, 10.0) == 4
    monkeypatch.setenv(env.PROBE_TIMEOUT, "four")
    assert (env.seconds(env.PROBE_TIMEOUT, 10.0), env.unknown_seconds(env.PROBE_TIMEOUT)) == (10.0, "four")


def test_a_device_that_is_seen_is_strong_evidence(gpu_root: Path) -> None:
    probe = by_name(probing.probe(str(gpu_root), environment={}, path=[]))["cuda"]
    assert [one.id for one in probe.weighs(STRONG)] == ["cuda.pci", "cuda.node"]


def test_under_wsl_a_second_opinion_is_asked_for_and_its_absence_is_no_answer(
    tmp_path: Path, site: Path, variables: dict[str, str]
) -> None:
    root = build(tmp_path / "wsl", {"dev": {"dxg": ""}})
    script = variables | {"FAKE_NVML_RC_nvmlInitWithFlags": "9"}
    if ctypes.util.find_library("cuda"):
        pytest.skip("this machine has a CUDA driver, which would be asked")
    probe = ask(root, site, script)
    assert probe.status == UNKNOWN and probe.reason.endswith("and libcuda cannot be loaded"), probe
    assert [one.id for one in probe.evidence if one.kind == "call"] == ["cuda.nvml", "cuda.second-opinion"]


FROZEN = """
import sys
sys.frozen, sys.executable = True, sys.argv.pop(1)
import json
from vplug_rs import platforms
from vplug_rs.platforms import outside
root, path = sys.argv[1:]
def told(probe):
    texts = [row.text for row in probe.evidence if row.kind == "call"]
    return [probe.status, probe.reason, probe.hint, probe.backend, probe.isolated, texts]
def ask(**options):
    found = platforms.probe(root, environment={}, path=[path], active=True, ask={"amdsmi"}, **options)
    return {probe.platform: told(probe) for probe in found}
plugins = outside.ask_isolated(path=[path]).probes
print(json.dumps([ask(), ask(both=True), ask(timeout=0), [told(probe) for probe in plugins]]))
"""


def test_a_frozen_program_is_not_started_once_more_and_what_it_would_ask_is_unknown(tmp_path: Path) -> None:
    application = tmp_path / "application"
    application.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", "utf-8")
    application.chmod(0o755)
    site = tmp_path / "site"
    for kind in ("pynvml", "amdsmi"):
        fake_module(site, kind)
    build(site, dist("acme", "1.0", "[vllm.platform_plugins]\nnpu = acme:run\n"))
    root = roots.build("nvidia-and-rocm", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-W", "error", "-c", FROZEN, str(application), root, str(site)],
        env=clean_environment(PYTHONPATH=str(shared_import_root())),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    asked, twice, files, (plugin,) = json.loads(done.stdout)
    frozen = "this program is frozen, and `sys.executable` is the program and no interpreter"
    for found in (asked, twice):
        status, reason, hint, backend, isolated, _ = found["cuda"]
        assert (status, backend, isolated) == (UNKNOWN, "passive", False)
        assert reason == f"The process that asks NVML: {frozen}"
        assert hint == hints.advise("frozen")
        # the kernel knows AMD's GPU; only its library was to be asked
        status, _, _, backend, isolated, calls = found["rocm"]
        assert (status, backend, isolated) == (PRESENT, "passive", False)
        assert calls == [f"The process that asks AMD's SMI: {frozen}"]
    assert files["cuda"][0] == PRESENT, "files alone decide where nobody is to be asked"
    status, reason, hint, _, isolated, _ = plugin
    assert (status, isolated, hint) == (UNKNOWN, False, hints.advise("frozen"))
    assert frozen in reason
    assert not (tmp_path / "started").exists()
