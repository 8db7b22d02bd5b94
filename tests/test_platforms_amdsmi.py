"""AMD's SMI asked in a child: a scripted module in its place, its noise and its odd exceptions."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING

import pytest

from vplug_rs.platforms import amdsmi, isolated

if TYPE_CHECKING:
    from pathlib import Path

    from vplug_rs.platforms.active import Answer

MODULE = """
import os
print("amdsmi says hello", flush=True)
os.write(1, b"and so does its library\\n")
class AmdSmiLibraryException(Exception):
    def __init__(self, code): super().__init__(code); self.code = code
    def get_error_code(self): return self.code
def amdsmi_init(): pass
def amdsmi_get_processor_handles(): return ["a", "b"]
def amdsmi_get_gpu_asic_info(handle):
    return {"market_name": "AMD Instinct MI300X", "target_graphics_version": "gfx942"}
def amdsmi_get_gpu_device_uuid(handle): return f"uuid-{handle}"
def amdsmi_get_gpu_device_bdf(handle): return "0000:05:00.0"
def amdsmi_get_gpu_vram_info(handle): return {"vram_size": 196592}
def amdsmi_get_gpu_driver_info(handle): return {"driver_version": "6.12.12"}
def amdsmi_shut_down(): pass
"""


def ask(folder: Path, extra: str = "", *, where: str = "amdsmi", seconds: float = 20.0) -> Answer:
    """Ask a module with some of its functions replaced."""
    (folder / "amdsmi").mkdir(exist_ok=True)
    (folder / "amdsmi" / "__init__.py").write_text(MODULE + textwrap.dedent(extra), "utf-8")
    (end,) = isolated.run([amdsmi.job(str(folder / where), dict(os.environ))], seconds)
    return amdsmi.read(end)


@pytest.mark.parametrize("where", ["amdsmi", "amdsmi/__init__.py"])
def test_devices_are_described_whatever_is_printed(tmp_path: Path, where: str) -> None:
    answer = ask(tmp_path, where=where)
    assert (answer.outcome, answer.count, answer.backend) == ("answered", 2, "amdsmi")
    assert (answer.notes, answer.text) == ([], "AMD's SMI counts 2 devices.")
    first = answer.devices[0]
    assert (first.name, first.capability, first.uuid) == ("AMD Instinct MI300X", "gfx942", "uuid-a")
    assert (first.pci, first.driver) == ("0000:05:00.0", "6.12.12")
    assert (first.memory_bytes, first.memory_source) == (196592 * 1024 * 1024, "amdsmi")


def test_a_module_in_one_file_will_do(tmp_path: Path) -> None:
    (tmp_path / "amdsmi.py").write_text(MODULE, "utf-8")
    (end,) = isolated.run([amdsmi.job(str(tmp_path / "amdsmi.py"))], 20)
    assert amdsmi.read(end).count == 2


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("raise KeyError('libamd_smi.so')", "amdsmi cannot be imported: KeyError: 'libamd_smi.so'"),
        ("raise SystemExit(1)", "amdsmi cannot be imported: SystemExit: 1"),
        ("import no_such_module", "amdsmi cannot be imported: ModuleNotFoundError"),
        ("del amdsmi_init", "AttributeError"),
        ("amdsmi_get_processor_handles = lambda: None", "TypeError"),
        ("os._exit(3)", "ended with exit status 3"),
        ("os.kill(os.getpid(), 11)", "ended by SIGSEGV; its last call was import amdsmi"),
    ],
    ids=["key error", "exit", "import", "no function", "no list", "ends", "crashes"],
)
def test_what_cannot_be_asked_is_unknown(tmp_path: Path, extra: str, said: str) -> None:
    answer = ask(tmp_path, extra)
    assert (answer.outcome, answer.count, answer.devices) == ("unknown", None, [])
    assert said in answer.text


def test_a_hang_is_unknown_in_time(tmp_path: Path) -> None:
    answer = ask(tmp_path, "def amdsmi_init(): __import__('time').sleep(60)", seconds=1.0)
    assert (answer.outcome, answer.call) == ("unknown", "amdsmi_init")


@pytest.mark.parametrize("function", ["amdsmi_init", "amdsmi_get_processor_handles"])
def test_an_error_of_the_library_is_the_answer(tmp_path: Path, function: str) -> None:
    answer = ask(tmp_path, f"def {function}(): raise AmdSmiLibraryException(34)")
    assert (answer.outcome, answer.code, answer.call) == ("error", 34, function)
    assert answer.text == f"AMD's SMI gave error 34 (DriverNotLoaded) at {function}."


def test_no_device_is_an_answer(tmp_path: Path) -> None:
    answer = ask(tmp_path, "def amdsmi_get_processor_handles(): return []")
    assert (answer.outcome, answer.count, answer.devices) == ("answered", 0, [])


def test_a_failing_field_fails_no_device(tmp_path: Path) -> None:
    extra = """
    def amdsmi_get_gpu_vram_info(handle): raise AmdSmiLibraryException(2)
    def amdsmi_get_gpu_asic_info(handle): return {"market_name": "N/A"}
    def amdsmi_shut_down(): raise OSError("busy")
    """
    answer = ask(tmp_path, extra)
    assert (answer.outcome, answer.count) == ("answered", 2)
    assert answer.notes == ["OSError: busy"]
    for device in answer.devices:
        assert (device.status, device.name, device.memory_bytes, device.pci) == ("present", None, None, "0000:05:00.0")
        assert device.note is not None
        assert "amdsmi_get_gpu_vram_info: AmdSmiLibraryException: 2" in device.note


def test_a_folder_without_it_is_told(tmp_path: Path) -> None:
    (end,) = isolated.run([amdsmi.job(str(tmp_path))], 20)
    answer = amdsmi.read(end)
    assert answer.outcome == "unknown"
    assert "amdsmi cannot be imported" in answer.text
