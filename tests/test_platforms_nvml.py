"""NVML asked in a child, by both backends, of a scripted library: every case ends in time, with what is known."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from vplug_rs.platforms import amdsmi, isolated, nvml
from vplug_rs.platforms.active import MOST_NOTES, Answer
from vplug_rs.platforms.model import Device
from vplug_rs.testing import libraries
from vplug_rs.testing.modules import fake_module

pytestmark = pytest.mark.every_python  # once is enough: it goes by drivers and files, not by the interpreter

SECONDS = 20.0
BOTH = ["pynvml", "native"]
DEVICE_CALLS = [
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability",
]
VERSION_CALLS = ["nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion"]


def pynvml_file() -> str:
    """Give nvidia-ml-py's module; skip where it is not installed."""
    for folder in sys.path:
        if os.path.isfile(path := os.path.join(folder, "pynvml.py")):
            return path
    pytest.skip("nvidia-ml-py is not installed: it is in requirements-dev.txt")


class Machine:
    """A machine with an NVML, or without one."""

    def __init__(self, folder: Path, variant: str | None = "full", /, **script: object) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.environment = {f"FAKE_NVML_{name}": str(value) for name, value in script.items()}
        self.environment["LD_LIBRARY_PATH"] = str(self.libraries(variant)) if variant else str(folder)

    def libraries(self, variant: str) -> Path:
        """Give the folder of one variant, which all tests share."""
        if libraries.compiler() is None:
            pytest.skip("no C compiler: the scripted NVML cannot be made")
        root = self.folder.parent / "nvml"
        return Path(libraries.fake_nvml(str(root / variant), variant)).parent

    def job(self, backend: str, pynvml: str | None = None, **options: Any) -> isolated.Job:
        """Give what asks it; each call is noted in a log of this backend."""
        environment = {**self.environment, "FAKE_NVML_LOG": f"{self.log}-{backend}"}
        return nvml.job(backend, pynvml if pynvml is not None else pynvml_file(), environment, **options)

    def answers(self, *backends: str, seconds: float = SECONDS, **options: Any) -> list[Answer]:
        """Ask by several backends at the same time, within a second of the deadline."""
        jobs = [self.job(backend, **options) for backend in backends]
        began = time.monotonic()
        ends = isolated.run(jobs, seconds)
        assert time.monotonic() - began < seconds + 1
        assert not any(end.abandoned for end in ends)
        return [nvml.read(end) for end in ends]

    def calls(self, backend: str) -> list[str]:
        """Give the functions that were called, all of them by one child."""
        log = Path(f"{self.log}-{backend}")
        lines = [line.split() for line in log.read_text("ascii").splitlines()] if log.exists() else []
        assert str(os.getpid()) not in {process for process, _ in lines}
        assert len({process for process, _ in lines}) <= 1
        return [function for _, function in lines]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder beside that of the libraries."""
    return tmp_path_factory.mktemp("case")


@pytest.mark.parametrize("count", [0, 2, 8])
def test_devices_are_counted_and_described_by_both_alike(folder: Path, count: int) -> None:
    machine = Machine(folder, COUNT=count, NAME="NVIDIA H100", DRIVER="570.124.06", CUDA=12080, MEMORY=85520809984)
    by_pynvml, by_native = machine.answers(*BOTH)
    assert (by_pynvml.backend, by_native.backend) == ("pynvml", "native")
    assert (
        by_pynvml.devices
        == by_native.devices
        == [
            Device(
                index,
                name="NVIDIA H100",
                uuid=f"GPU-00000000-0000-0000-0000-{index + 1:012x}",
                pci=f"0000:{0x18 + index:02x}:00.0",
                memory_bytes=85520809984,
                memory_source="nvml",
                capability="9.0",
                driver="570.124.06",
            )
            for index in range(count)
        ]
    )
    expected = ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2", *DEVICE_CALLS * count, *VERSION_CALLS, "nvmlShutdown"]
    assert machine.calls("pynvml") == machine.calls("native") == expected
    for answer in (by_pynvml, by_native):
        assert (answer.outcome, answer.count, answer.code) == ("answered", count, None)
        assert (answer.driver, answer.cuda, answer.notes) == ("570.124.06", "12.8", [])
        assert answer.text == f"NVML counts {count} devices."
        assert 0 < answer.ms < SECONDS * 1000


@pytest.mark.parametrize("backend", BOTH)
def test_no_library_is_an_error_with_the_loader_s_words(folder: Path, backend: str) -> None:
    (answer,) = Machine(folder, None).answers(backend)
    assert (answer.outcome, answer.code, answer.call, answer.backend) == ("error", 12, "dlopen", backend)
    assert answer.text == "NVML gave error 12 (LibraryNotFound) at dlopen."
    assert "libnvidia-ml.so.1" in answer.notes[0]


@pytest.mark.parametrize("code", [4, 9, 12, 15, 17, 18, 23, 999, 12345])
def test_an_error_of_init_is_the_answer(folder: Path, code: int) -> None:
    machine = Machine(folder, RC_nvmlInitWithFlags=code)
    for answer in machine.answers(*BOTH):
        assert (answer.outcome, answer.code, answer.call) == ("error", code, "nvmlInitWithFlags")
        name = f" ({nvml.ERRORS[code]})" if code in nvml.ERRORS else ""
        assert answer.text == f"NVML gave error {code}{name} at nvmlInitWithFlags."
        assert (answer.count, answer.devices, answer.notes) == (None, [], [])
    # in particular no text is asked of the library, and nothing is ended that was not begun
    assert machine.calls("pynvml") == machine.calls("native") == ["nvmlInitWithFlags"]


def test_an_error_of_the_count_is_the_answer_and_the_library_is_ended(folder: Path) -> None:
    machine = Machine(folder, RC_nvmlDeviceGetCount_v2=999)
    for answer in machine.answers(*BOTH):
        assert (answer.outcome, answer.code, answer.call) == ("error", 999, "nvmlDeviceGetCount_v2")
        assert (answer.count, answer.devices, answer.notes) == (None, [], [])
    expected = ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlShutdown"]
    assert machine.calls("pynvml") == machine.calls("native") == expected


def test_an_error_of_the_shutdown_is_a_note(folder: Path) -> None:
    for answer in Machine(folder, COUNT=1, RC_nvmlShutdown=999).answers(*BOTH):
        assert (answer.outcome, answer.count) == ("answered", 1)
        assert answer.notes == ["NVML gave error 999 (Unknown) at nvmlShutdown"]


@pytest.mark.parametrize(("lost", "gone"), [("0", {0}), ("1", {1}), ("2", {2}), ("all", {0, 1, 2})])
def test_a_lost_device_fails_no_list(folder: Path, lost: str, gone: set[int]) -> None:
    machine = Machine(folder, COUNT=3, LOST=lost)
    for answer in machine.answers(*BOTH):
        assert (answer.outcome, answer.count, len(answer.devices)) == ("answered", 3, 3)
        for device in answer.devices:
            assert device.status == ("unknown" if device.index in gone else "present")
            assert (device.name is None) == (device.index in gone)
            note = "NVML gave error 15 (GpuIsLost) at nvmlDeviceGetHandleByIndex_v2"
            assert device.note == (note if device.index in gone else None)
    assert machine.calls("pynvml") == machine.calls("native")


def test_a_device_that_is_lost_later_is_unknown(folder: Path) -> None:
    for answer in Machine(folder, RC_nvmlDeviceGetName=15).answers(*BOTH):
        (device,) = answer.devices
        assert (device.status, device.name, device.capability) == ("unknown", None, "9.0")


FIELDS = {
    "nvmlDeviceGetName": "name",
    "nvmlDeviceGetUUID": "uuid",
    "nvmlDeviceGetPciInfo_v3": "pci",
    "nvmlDeviceGetMemoryInfo": "memory_bytes",
    "nvmlDeviceGetCudaComputeCapability": "capability",
}


@pytest.mark.parametrize("function", FIELDS)
def test_a_failing_field_fails_no_device(folder: Path, function: str) -> None:
    machine = Machine(folder, **{f"RC_{function}": 3})
    for answer in machine.answers(*BOTH):
        (device,) = answer.devices
        assert (answer.outcome, device.status) == ("answered", "present")
        assert device.note == f"NVML gave error 3 (NotSupported) at {function}"
        empty = {name for name in FIELDS.values() if getattr(device, name) is None}
        assert empty == {FIELDS[function]}
    assert machine.calls("pynvml") == machine.calls("native")


def test_versions_that_fail_are_notes(folder: Path) -> None:
    script = {f"RC_{function}": 999 for function in VERSION_CALLS}
    for answer in Machine(folder, **script).answers(*BOTH):
        assert (answer.outcome, answer.driver, answer.cuda) == ("answered", None, None)
        assert answer.notes == [f"NVML gave error 999 (Unknown) at {function}" for function in VERSION_CALLS]


def host_memory() -> int:
    """Give what /proc/meminfo says, in bytes."""
    return int(Path("/proc/meminfo").read_text("ascii").split()[1]) * 1024


@pytest.mark.parametrize(
    ("name", "integrated", "shared"),
    [("NVIDIA GB10", False, True), ("NVIDIA X", True, True), ("NVIDIA X", False, False)],
)
def test_shared_memory_is_the_host_s(folder: Path, name: str, integrated: bool, shared: bool) -> None:
    machine = Machine(folder, NAME=name, RC_nvmlDeviceGetMemoryInfo=3)
    for answer in machine.answers(*BOTH, integrated=integrated):
        (device,) = answer.devices
        source = (host_memory(), "meminfo", True) if shared else (None, None, None)
        assert (device.memory_bytes, device.memory_source, device.integrated) == source
        assert device.status == "present"


def test_names_in_any_script_arrive(folder: Path) -> None:
    for answer in Machine(folder, NAME='Grüße "\\\U0001f600\x01').answers(*BOTH):
        assert answer.devices[0].name == 'Grüße "\\\U0001f600\x01'
    machine = Machine(folder)
    machine.environment["FAKE_NVML_NAME"] = os.fsdecode(b"caf\xe9")
    by_pynvml, by_native = machine.answers(*BOTH)
    assert by_native.devices[0].name == "caf\ufffd"
    assert by_pynvml.devices[0].status == "present", "whatever pynvml makes of it"


@pytest.mark.parametrize(("variant", "init"), [("no-flags", "nvmlInit_v2"), ("oldest", "nvmlInit")])
def test_our_own_binding_takes_over_at_an_old_driver(folder: Path, variant: str, init: str) -> None:
    machine = Machine(folder, variant, COUNT=1)
    by_auto, by_pynvml = machine.answers("auto", "pynvml")
    assert (by_auto.outcome, by_auto.count, by_auto.backend) == ("answered", 1, "native")
    assert by_auto.notes == [
        "libnvidia-ml.so.1 has no nvmlInitWithFlags, so the driver is old; our own binding takes over"
    ]
    assert machine.calls("auto")[0] == init
    assert (by_pynvml.outcome, by_pynvml.code, by_pynvml.call) == ("error", 13, "nvmlInitWithFlags")


def test_a_library_without_any_init_gives_its_code(folder: Path) -> None:
    by_auto, by_native = Machine(folder, "no-init").answers("auto", "native")
    for answer in (by_auto, by_native):
        assert (answer.outcome, answer.code, answer.call) == ("error", 13, "nvmlInit")


LATE = """{all}
class NVMLError(Exception): pass
def nvmlInitWithFlags(flags): pass
def nvmlDeviceGetCount(): return _nvmlGetFunctionPointer("nvmlDeviceGetCount_v2")()
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "pynvml is not installed"),
        ("import no_such_module", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def f(:", "SyntaxError"),
        ("def nvmlInit(): pass", "is not nvidia-ml-py's"),
        ("{all}\nNVMLError = None", "is not nvidia-ml-py's"),
        ("{all}\nclass NVMLError(Exception): pass", "nvmlInitWithFlags raised TypeError"),
        (LATE, "nvmlDeviceGetCount_v2 raised NameError"),
    ],
    ids=["missing", "import", "exit", "syntax", "other", "no error", "raises", "raises later"],
)
def test_our_own_binding_takes_over_where_pynvml_cannot(folder: Path, text: str | None, reason: str) -> None:
    names = "".join(f"def {name}(): pass\n" for name in dir_of_pynvml())
    path = folder / "pynvml.py"
    if text is not None:
        path.write_text(text.replace("{all}", names), "utf-8")
    by_auto, by_pynvml = Machine(folder).answers("auto", "pynvml", pynvml=str(path) if text is not None else "")
    assert (by_auto.outcome, by_auto.backend, by_auto.count) == ("answered", "native", 1)
    assert reason in by_auto.notes[0]
    assert by_auto.notes[0].endswith("; our own binding takes over")
    assert (by_pynvml.outcome, by_pynvml.count) == ("unknown", None)
    assert reason in by_pynvml.text
    assert not list(folder.glob("__pycache__")), "no bytecode is left"


def dir_of_pynvml() -> list[str]:
    """Give the public names that the child asks for."""
    from vplug_rs.platforms.children import nvml as child

    return list(child.PUBLIC)


def test_a_device_that_raises_fails_no_list(folder: Path) -> None:
    fake_module(folder, "pynvml")
    odd = "\ngenuine = nvmlDeviceGetHandleByIndex\nnvmlDeviceGetHandleByIndex = lambda index: genuine(10 // index)\n"
    with open(folder / "pynvml.py", "a", encoding="utf-8") as stream:
        stream.write(odd)
    (answer,) = Machine(folder, COUNT=3).answers("pynvml", pynvml=str(folder / "pynvml.py"))
    assert (answer.outcome, answer.count) == ("answered", 3)
    assert [device.status for device in answer.devices] == ["unknown", "present", "present"]
    assert "ZeroDivisionError" in str(answer.devices[0].note)
    assert all(device.name for device in answer.devices[1:])


def test_pynvml_is_taken_by_its_path_whatever_shadows_it(folder: Path) -> None:
    shadow = folder / "pynvml"
    shadow.mkdir()
    (shadow / "__init__.py").write_text("raise RuntimeError('the shadow')", "utf-8")
    machine = Machine(folder)
    machine.environment["PYTHONPATH"] = str(folder)
    (answer,) = machine.answers("auto")
    assert (answer.backend, answer.count, answer.notes) == ("pynvml", 1, [])


def test_a_library_that_prints_does_not_disturb(folder: Path) -> None:
    path = folder / "pynvml.py"
    noise = "import os\nprint('{\"count\": 7}', flush=True)\nos.write(1, b'noise\\n')\n"
    path.write_text(noise + Path(pynvml_file()).read_text("utf-8"), "utf-8")
    (answer,) = Machine(folder, COUNT=1).answers("pynvml", pynvml=str(path))
    assert (answer.outcome, answer.count, answer.notes) == ("answered", 1, [])


UNKNOWN_HANGS = ["dlopen", "nvmlInitWithFlags", "nvmlDeviceGetCount_v2"]


@pytest.mark.parametrize("function", UNKNOWN_HANGS)
def test_a_hang_is_unknown_in_time(folder: Path, function: str) -> None:
    for answer in Machine(folder, HANG=function).answers(*BOTH, seconds=1.0):
        assert (answer.outcome, answer.count, answer.code, answer.call) == ("unknown", None, None, function)
        assert answer.text == (
            f"The process that asks NVML did not answer within 1 s and was killed; its last call was {function}."
        )


@pytest.mark.parametrize("function", ["nvmlDeviceGetName", "nvmlShutdown"])
def test_a_hang_after_the_count_leaves_what_is_known(folder: Path, function: str) -> None:
    for answer in Machine(folder, HANG=function, COUNT=2).answers(*BOTH, seconds=1.0):
        assert (answer.outcome, answer.count, answer.call) == ("answered", 2, function)
        assert "did not answer within 1 s" in answer.notes[0]
        names = [device.name for device in answer.devices]
        if function == "nvmlShutdown":
            assert names == ["NVIDIA Fake 100"] * 2
        else:
            assert names == [None, None]
            assert [device.status for device in answer.devices] == ["present", "unknown"]
            assert answer.devices[1].note == "it was not asked"


@pytest.mark.parametrize("function", UNKNOWN_HANGS)
def test_a_crash_is_unknown(folder: Path, function: str) -> None:
    for answer in Machine(folder, CRASH=function).answers(*BOTH):
        assert (answer.outcome, answer.count, answer.call) == ("unknown", None, function)
        assert answer.text == f"The process that asks NVML was ended by SIGSEGV; its last call was {function}."


def test_a_crash_after_the_count_leaves_what_is_known(folder: Path) -> None:
    for answer in Machine(folder, CRASH="nvmlDeviceGetMemoryInfo", COUNT=2).answers(*BOTH):
        assert (answer.outcome, answer.count) == ("answered", 2)
        assert "ended by SIGSEGV; its last call was nvmlDeviceGetMemoryInfo of device 0" in answer.notes[0]
        assert (answer.devices[0].name, answer.devices[0].memory_bytes) == ("NVIDIA Fake 100", None)
        assert not list(folder.glob("core*"))


def test_a_slow_driver_has_the_time_it_needs(folder: Path) -> None:
    for answer in Machine(folder, SLEEP_MS="nvmlInitWithFlags:500").answers(*BOTH, seconds=5):
        assert (answer.outcome, answer.count) == ("answered", 1)
        assert answer.ms > 500


def test_a_number_of_devices_that_cannot_be_is_none(folder: Path) -> None:
    for answer in Machine(folder, COUNT=4_000_000_000, SLEEP_MS=0).answers(*BOTH):
        assert (answer.outcome, answer.count, answer.devices) == ("unknown", None, [])
        assert answer.text == "NVML gave no number of devices that can be one."


def test_nothing_can_be_asked_without_an_interpreter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    (answer,) = Machine(folder).answers("auto", pynvml="")
    assert (answer.outcome, answer.call) == ("unknown", "")
    assert "`sys.executable` is empty" in answer.text


def test_a_backend_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="`cuda` is no backend"):
        nvml.job("cuda", None)


def child(code: str) -> Answer:
    """Read what some other program says in the place of ours."""
    job = nvml.job("native", None)
    job.words = [sys.executable, "-I", "-S", "-c", f"import os, sys, time\n{code}"]
    began = time.monotonic()
    (end,) = isolated.run([job], 1.0)
    assert time.monotonic() - began < 2
    return nvml.read(end)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('hello')", "no answer"),
        ("sys.stdout.write('{\"count\": 1')", "is not complete"),
        ("while True: os.write(1, b'x' * 65536)", "more than 1000 KB"),
        ("sys.exit('no module named x')", "its last words were 'no module named x'"),
        ("os.close(1); os.close(2); time.sleep(60)", "did not answer within 1 s"),
        ("pass", "ended with exit status 0"),
        ('print(\'{"count": -1, "done": true}\')', "no number of devices"),
    ],
    ids=["garbage", "half", "flood", "stderr", "silent", "nothing", "negative"],
)
def test_a_child_that_is_not_ours_is_unknown(code: str, said: str) -> None:
    answer = child(code)
    assert (answer.outcome, answer.count, answer.devices) == ("unknown", None, [])
    assert said in answer.text


def read(*events: dict[str, Any], how: str = "exited", code: int | None = 0) -> Answer:
    """Read events as if a child had said them."""
    return nvml.read(isolated.End(events, how, code=code, detail="It ended.", seconds=0.25))


def test_a_complete_answer_counts_without_an_exit_status() -> None:
    answer = read({"count": 2}, {"done": True}, code=None)
    assert (answer.outcome, answer.count, answer.notes, answer.ms) == ("answered", 2, [], 250)


def test_values_of_the_wrong_kind_are_left_out() -> None:
    answer = read(
        {"call": 7, "backend": None},
        {"count": "8"},
        {"count": True},
        {"error": "9"},
        {"count": 1},
        {"device": "0", "name": "elsewhere"},
        {"device": 0, "name": 3, "uuid": ["x"], "pci": "odd", "memory": "big", "capability": {}, "integrated": "yes"},
        {"device": 0, "failed": "15", "note": 5},
        {"device": -1, "name": "x"},
        {"device": 10**30, "name": "x"},
        {"cuda": "12080", "driver": 5, "unusable": 1, "note": {}},
        {"done": 1},
        {"done": True},
    )
    assert (answer.outcome, answer.count, answer.backend, answer.call) == ("answered", 1, "pynvml", "")
    assert (answer.driver, answer.cuda, answer.notes) == (None, None, [])
    assert answer.devices == [Device(0, pci="odd")]


def test_the_first_error_is_the_answer() -> None:
    answer = read({"call": "a"}, {"call": "a", "error": 9}, {"call": "b"}, {"error": 3}, {"count": 4})
    assert (answer.outcome, answer.code, answer.call, answer.count) == ("error", 9, "a", None)


def test_what_is_said_a_thousand_times_is_kept_in_part() -> None:
    notes = [{"note": "x"}] * 1000
    answer = read({"count": 1}, *notes, *({"device": 0, **note} for note in notes), {"done": True})
    assert len(answer.notes) == MOST_NOTES
    assert str(answer.devices[0].note).count(";") == MOST_NOTES - 1


values: some.SearchStrategy[Any] = (
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5) | some.just([])
)
keys = some.sampled_from(
    [
        "backend",
        "call",
        "count",
        "error",
        "device",
        "failed",
        "name",
        "uuid",
        "pci",
        "memory",
        "source",
        "capability",
        "driver",
        "cuda",
        "note",
        "unusable",
        "done",
        "integrated",
    ]
)


@given(some.lists(some.dictionaries(keys, values, max_size=5), max_size=8), some.sampled_from(["exited", "garbage"]))
def test_no_event_makes_reading_fail(events: list[dict[str, Any]], how: str) -> None:
    for module in (nvml, amdsmi):
        answer = module.read(isolated.End(events, how))
        assert answer.outcome in {"answered", "error", "unknown"}
        assert (answer.outcome == "answered") == (answer.count is not None)
        assert len(answer.devices) == (answer.count or 0)
        assert (answer.outcome == "error") == (answer.code is not None)
        assert answer.text.endswith(".")
        json.dumps(answer.as_dict())


def second_opinion(folder: Path, **script: int) -> Answer:
    """Ask the tripwire that stands in for the CUDA driver."""
    if libraries.compiler() is None:
        pytest.skip("no C compiler: no stand-in for libcuda can be made")
    libraries.tripwires(str(folder), str(folder / "log"))
    environment = {"LD_LIBRARY_PATH": str(folder), **{f"FAKE_CUDA_{name}": str(v) for name, v in script.items()}}
    (end,) = isolated.run([nvml.second_opinion_job(environment)], 1.0 if "HANG" in script else SECONDS)
    return nvml.read_second_opinion(end)


def test_the_cuda_driver_gives_a_second_opinion(folder: Path) -> None:
    answer = second_opinion(folder, COUNT=2)
    assert (answer.outcome, answer.count, answer.devices, answer.backend) == ("answered", 2, [], "libcuda")
    assert answer.text == "The CUDA driver counts 2 devices."
    said = [line.split()[1:] for line in (folder / "log").read_text("ascii").splitlines()]
    assert said == [["libcuda", "loaded"], ["libcuda", "cuInit"], ["libcuda", "cuDeviceGetCount"]]
    refused = second_opinion(folder, RC=100)
    assert (refused.outcome, refused.code, refused.call) == ("error", 100, "cuInit")
    assert refused.text == "The CUDA driver gave error 100 (NoDevice) at cuInit."
    hung = second_opinion(folder, HANG=1)
    assert (hung.outcome, hung.call) == ("unknown", "cuInit")


def test_without_the_cuda_driver_there_is_no_opinion(folder: Path) -> None:
    (end,) = isolated.run([nvml.second_opinion_job({"LD_LIBRARY_PATH": str(folder)})], SECONDS)
    answer = nvml.read_second_opinion(end)
    if answer.outcome == "answered":
        pytest.skip("this machine has a CUDA driver where the system's loader finds it")
    assert answer.text.startswith("The CUDA driver was not asked: libcuda.so.1: cannot open")
