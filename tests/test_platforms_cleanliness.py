"""What a process carries: driver libraries, frameworks, threads, descriptors; seen, named, and compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from vplug_rs.platforms import cleanliness
from vplug_rs.platforms.cleanliness import Cleanliness, difference, look

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="mappings, threads and descriptors are read from /proc")


def in_a_fresh_process(program: str, tmp_path: Path, **more: str) -> Any:
    """Run a program that ends with `answer(data)`, and give the data."""
    head = """
    import json, os, sys
    from vplug_rs.platforms.cleanliness import look, difference
    def answer(data): print(json.dumps(data))
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(head) + textwrap.dedent(program)],
        cwd=tmp_path,
        env=os.environ | more,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@LINUX
def test_a_fresh_process_is_clean(tmp_path: Path) -> None:
    seen = in_a_fresh_process("answer(look().as_dict() | {'text': look().text})", tmp_path)
    assert seen["clean"] is True
    assert (seen["libraries"], seen["modules"], seen["cuda_initialised"]) == ([], [], False)
    assert (seen["threads"], seen["children"], seen["note"]) == (1, [], None)
    assert len(seen["descriptors"]) >= 1
    assert seen["text"] == "clean: no driver library is mapped, no framework is imported, CUDA is not initialised"


@LINUX
def test_to_look_changes_nothing(tmp_path: Path) -> None:
    program = """
    before = look()
    for _ in range(3): look()
    answer(difference(before, look()))
    """
    assert in_a_fresh_process(program, tmp_path) == []


@LINUX
@pytest.mark.parametrize("name", ["libnvidia-ml.so.1", "libcuda.so.1", "libcudart-d0da41ae.so.11.0", "libtpu.so"])
def test_a_mapped_driver_library_is_named(name: str, tmp_path: Path) -> None:
    """A file of that name is mapped as a library would be; what is in it does not matter."""
    (tmp_path / name).write_bytes(b"\x7fELF" + bytes(4092))
    program = f"""
    import mmap
    before = look()
    with open({name!r}, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    after = look()
    answer([after.clean, after.libraries, difference(before, after), after.text])
    """
    clean, libraries, told, text = in_a_fresh_process(program, tmp_path)
    assert clean is False
    assert libraries == [str(tmp_path / name)]
    assert told[0] == f"`{tmp_path / name}` is mapped"
    assert text == f"not clean: `{tmp_path / name}` is mapped"


@LINUX
def test_a_file_that_only_sounds_like_one_is_not(tmp_path: Path) -> None:
    for name in ("mylibcuda.so", "libc.so.6", "cuda.py"):
        (tmp_path / name).write_bytes(bytes(4096))
    program = """
    import mmap
    kept = [mmap.mmap(os.open(name, os.O_RDONLY), 0, prot=mmap.PROT_READ) for name in os.listdir(".")]
    answer(look().libraries)
    """
    assert in_a_fresh_process(program, tmp_path) == []


def test_imported_frameworks_are_named_and_cuda_is_asked_only_there(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "cuda.py").write_text("initialised = False\ndef is_initialized(): return initialised\n")
    (tmp_path / "amdsmi.py").write_text("")
    program = """
    sys.path.insert(0, os.curdir)
    states = [look()]
    import torch.cuda, amdsmi
    states.append(look())
    torch.cuda.initialised = True
    states.append(look())
    answer([[s.modules, s.cuda_initialised, s.clean] for s in states]
           + [difference(states[0], states[1]), difference(states[1], states[2]), states[2].text])
    """
    first, second, third, imported, initialised, text = in_a_fresh_process(program, tmp_path)
    assert first[:2] == [[], False]
    assert second == [["torch", "amdsmi"], False, False]
    assert third == [["torch", "amdsmi"], True, False]
    assert imported[:2] == ["`torch` is imported", "`amdsmi` is imported"]
    assert initialised == ["CUDA is initialised"]
    assert text == "not clean: `torch` is imported, `amdsmi` is imported, CUDA is initialised"


def test_a_torch_that_is_half_imported_has_initialised_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.cuda", types.ModuleType("torch.cuda"))
    assert look().cuda_initialised is False


@LINUX
def test_threads_descriptors_and_children_are_compared(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stay = threading.Event()
    before = look()
    thread = threading.Thread(target=stay.wait)
    thread.start()
    file = (tmp_path / "file").open()
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    try:
        during = look()
        told = difference(before, during)
        assert before.threads is not None
        assert f"there are {before.threads + 1} threads, and there were {before.threads}" in told
        assert f"descriptor {file.fileno()} -> {tmp_path / 'file'} is open" in told
        assert f"process {child.pid} was started and not waited for" in told
    finally:
        child.kill()
        child.wait()
        number = file.fileno()
        file.close()
        stay.set()
        thread.join()
    # the system's list of threads may hold one for a moment after it was joined
    after, patience = look(), time.monotonic() + 10
    while difference(before, after) and time.monotonic() < patience:
        time.sleep(0.01)
        after = look()
    assert difference(before, after) == []
    assert difference(during, look()) == [f"descriptor {number} -> {tmp_path / 'file'} is closed"]


@LINUX
def test_a_child_that_nobody_waited_for_is_seen_though_it_has_ended() -> None:
    before = look()
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert difference(before, look()) == [f"process {child.pid} was started and not waited for"]
    child.wait()
    assert difference(before, look()) == []


def test_variables_are_compared_and_their_values_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPLUG_TEST_OLD", "secret-1")
    monkeypatch.setenv("VPLUG_TEST_GONE", "secret-2")
    before = look()
    monkeypatch.setenv("VPLUG_TEST_OLD", "secret-3")
    monkeypatch.setenv("VPLUG_TEST_NEW", "secret-4")
    monkeypatch.delenv("VPLUG_TEST_GONE")
    after = look()
    assert difference(before, after) == [
        "variable VPLUG_TEST_NEW was set",
        "variable VPLUG_TEST_GONE was deleted",
        "variable VPLUG_TEST_OLD was changed",
    ]
    assert "secret" not in repr(after) + json.dumps(after.as_dict())


def test_what_is_not_known_is_not_called_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "aix")
    seen = look()
    assert (seen.libraries, seen.threads, seen.descriptors, seen.children) == (None, None, None, None)
    assert seen.note == "aix has no /proc: libraries, threads, descriptors and children are not known"
    if not seen.modules:
        assert seen.clean is None
        assert seen.text.startswith("mapped libraries cannot be seen here")
    assert difference(seen, look()) == []


@LINUX
def test_a_proc_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cleanliness, "_PROC", str(tmp_path / "proc"))
    seen = look()
    assert seen.libraries is None
    assert seen.note is not None
    assert f"`{tmp_path / 'proc' / 'maps'}` cannot be read: No such file or directory" in seen.note


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="a process has no libary"):
        Cleanliness(libary=[])
