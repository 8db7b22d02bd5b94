"""The stand-ins for vendors' libraries: made once, scripted by the environment, and tripwires that trip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vplug_rs.errors import VplugError
from vplug_rs.testing import libraries

needs_compiler = pytest.mark.skipif(libraries.compiler() is None, reason="no C compiler: no library can be made")


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run some Python with an environment of its own."""
    words = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)


@needs_compiler
def test_a_library_is_made_once_for_a_folder(tmp_path: Path) -> None:
    path = libraries.fake_nvml(str(tmp_path / "new" / "folder"))
    assert path == str(tmp_path / "new" / "folder" / "libnvidia-ml.so.1")
    assert os.listdir(tmp_path / "new" / "folder") == ["libnvidia-ml.so.1"]
    inode = os.stat(path).st_ino
    assert libraries.fake_nvml(str(tmp_path / "new" / "folder")) == path
    assert os.stat(path).st_ino == inode, "the second call makes nothing"
    os.unlink(path)
    assert os.path.exists(libraries.fake_nvml(str(tmp_path / "new" / "folder")))


@needs_compiler
@pytest.mark.parametrize(
    ("variant", "inits", "by_name"),
    [
        ("full", ["nvmlInitWithFlags", "nvmlInit_v2", "nvmlInit"], True),
        ("no-soname", ["nvmlInitWithFlags", "nvmlInit_v2", "nvmlInit"], False),
        ("no-flags", ["nvmlInit_v2", "nvmlInit"], True),
        ("oldest", ["nvmlInit"], True),
        ("no-init", [], True),
    ],
)
def test_variants_have_what_they_say(tmp_path: Path, variant: str, inits: list[str], by_name: bool) -> None:
    path = libraries.fake_nvml(str(tmp_path), variant)
    code = f"""
import ctypes
library = ctypes.CDLL({path!r})
print([name for name in ("nvmlInitWithFlags", "nvmlInit_v2", "nvmlInit") if hasattr(library, name)])
try:
    print(hasattr(ctypes.CDLL("libnvidia-ml.so.1"), "nvmlShutdown"))
except OSError:
    print(False)
"""
    # a library that tells its name is found by it once it is loaded
    done = python(code)
    assert done.stdout.splitlines()[0] == str(inits)
    if by_name:
        assert done.stdout.splitlines()[1] == "True"


@needs_compiler
def test_the_script_is_read_at_each_call(tmp_path: Path) -> None:
    path = libraries.fake_nvml(str(tmp_path))
    code = f"""
import ctypes, os
library = ctypes.CDLL({path!r})
count = ctypes.c_uint(77)
print(library.nvmlDeviceGetCount_v2(ctypes.byref(count)), count.value)
print(library.nvmlInitWithFlags(0), library.nvmlDeviceGetCount_v2(ctypes.byref(count)), count.value)
os.environ["FAKE_NVML_COUNT"] = "5"
print(library.nvmlDeviceGetCount_v2(ctypes.byref(count)), count.value)
handle = ctypes.c_void_p()
print([library.nvmlDeviceGetHandleByIndex_v2(n, ctypes.byref(handle)) for n in (0, 1, 10)])
print(library.nvmlShutdown(), library.nvmlShutdown())
print(os.getpid())
"""
    log = tmp_path / "log"
    script = {"FAKE_NVML_COUNT": "3", "FAKE_NVML_LOST": "1,3", "FAKE_NVML_LOG": str(log)}
    lines = python(code, **script).stdout.splitlines()
    assert lines[:5] == ["1 77", "0 0 3", "0 5", "[0, 15, 0]", "0 1"]
    logged = [line.split() for line in log.read_text("ascii").splitlines()]
    assert {process for process, _ in logged} == {lines[5]}
    assert [function for _, function in logged][:3] == [
        "nvmlDeviceGetCount_v2",
        "nvmlInitWithFlags",
        "nvmlDeviceGetCount_v2",
    ]


@needs_compiler
def test_tripwires_note_who_loads_and_calls(tmp_path: Path) -> None:
    log = tmp_path / 'the "log"'
    libraries.tripwires(str(tmp_path / "lib"), str(log))
    assert not log.exists()
    code = """
import ctypes
for name in ("libcuda.so.1", "libcuda.so", "libamdhip64.so", "libze_loader.so.1", "libtpu.so"):
    library = ctypes.CDLL(name)
library = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
print(library.cuInit(0), library.cuDeviceGetCount(ctypes.byref(count)), count.value)
"""
    done = python(code, LD_LIBRARY_PATH=str(tmp_path / "lib"), FAKE_CUDA_COUNT="4")
    assert done.stdout == "0 0 4\n", done.stderr
    noted = [line.split(" ", 1)[1] for line in log.read_text("ascii").splitlines()]
    assert noted == [
        *(f"{name} loaded" for name in ("libcuda", "libamdhip64", "libze_loader", "libtpu")),
        "libcuda cuInit",
        "libcuda cuDeviceGetCount",
    ]


def test_without_a_compiler_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert libraries.compiler() is None
    with pytest.raises(VplugError, match=r"`libnvidia-ml.so.1` cannot be made: this machine has no C compiler"):
        libraries.fake_nvml(str(tmp_path))


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho no headers here >&2\nexit 1\n", "utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(VplugError, match="no headers here"):
        libraries.fake_nvml(str(tmp_path))


def test_an_unknown_variant_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(VplugError, match="`newest` is no variant") as caught:
        libraries.fake_nvml(str(tmp_path), "newest")
    assert caught.value.hint is not None
    assert "no-flags" in caught.value.hint
