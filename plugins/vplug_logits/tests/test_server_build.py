from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from models import tiny_folder
from vplug_logits import artefact, cache, server_build
from vplug_logits.config import Config
from vplug_logits.errors import ArtefactError
from vplug_logits.server_build import BackgroundBuild, Building, Failed, Ready, Words

PACKAGE = Path(__file__).parent.parent / "python"
SAFE = Config.of("safe")
WAIT = 100.0  # for a machine that is busy; nothing takes so long


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache of this test; children find the package as this process does."""
    monkeypatch.setenv("VPLUG_LOGITS_CACHE", str(tmp_path / "kept"))
    monkeypatch.setenv("PYTHONPATH", str(PACKAGE))
    return tmp_path / "kept"


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_over(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder in which no model is: children get as far as the lock, and fail when they load it."""
    (tmp_path / "no-model").mkdir()
    return str(tmp_path / "no-model")


def test_two_servers_at_once_build_once_and_a_third_learns_why_it_cannot(
    tmp_path: Path, kept: Path, folder: str
) -> None:
    model = tiny_folder(tmp_path / "tiny")
    one, other = (BackgroundBuild(model, SAFE, "bfloat16") for _ in range(2))
    third = BackgroundBuild("no/such-model", SAFE, "bfloat16")
    until(lambda: isinstance(one.poll(), Ready) or isinstance(other.poll(), Ready))
    first = os.stat(one.path)
    until(lambda: isinstance(one.poll(), Ready) and isinstance(other.poll(), Ready))
    assert one.poll() == other.poll() == Ready(cache.place(model, SAFE, dtype="bfloat16"))
    assert os.path.samestat(first, os.stat(one.path)) and first.st_mtime_ns == os.stat(one.path).st_mtime_ns
    assert artefact.read(one.path).metadata.source == "tiny" and first.st_mode & 0o777 == 0o600
    until(lambda: third.poll() != Building())
    failed = third.poll()
    assert isinstance(failed, Failed) and failed.reason.startswith("no/such-model: is no folder")
    assert "\n" not in failed.reason and failed.reason.endswith(f"(its words: {third.log})")
    assert set(os.listdir(kept)) == {os.path.basename(one.path), os.path.basename(third.log)}
    for build in (one, other, third):
        build.close()


def test_a_child_is_meek(folder: str, kept: Path) -> None:
    with cache.locked(cache.place(folder, SAFE, dtype="bfloat16")):  # it waits here
        build = BackgroundBuild(folder, SAFE, "bfloat16")
        until(lambda: os.getpriority(os.PRIO_PROCESS, build.pid) == 10)
        environment = Path(f"/proc/{build.pid}/environ").read_text().split("\0")
        assert {"VPLUG_LOGITS=0", "OMP_NUM_THREADS=1", "CUDA_VISIBLE_DEVICES=", "HF_HUB_OFFLINE=1"} <= set(environment)
        assert os.readlink(f"/proc/{build.pid}/fd/0") == "/dev/null"
        assert build.poll() == Building()
        build.close()
    assert isinstance(build.poll(), Failed)


def test_a_child_that_waits_has_not_imported_torch(folder: str) -> None:
    with cache.locked(cache.place(folder, SAFE, dtype="bfloat16")):
        build = BackgroundBuild(folder, SAFE, "bfloat16")
        lock = f"{build.path}.lock"
        until(lambda: any(os.path.realpath(fd) == lock for fd in _files(build.pid)))
        assert "libtorch" not in Path(f"/proc/{build.pid}/maps").read_text()
        build.close()


def _files(pid: int) -> list[str]:
    return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]


def test_a_killed_child_is_told_and_leaves_no_file(folder: str, kept: Path) -> None:
    build = BackgroundBuild(folder, SAFE, "bfloat16")
    until(lambda: os.path.exists(f"{build.path}.lock"))
    os.kill(build.pid, signal.SIGKILL)
    until(lambda: build.poll() != Building())
    assert build.poll() == Failed("the building process was ended by signal 9 and said nothing")
    assert not os.path.exists(build.path) and not os.path.exists(build.log)
    with cache.locked(build.path):
        pass  # the next one gets it
    assert not os.listdir(kept)
    build.close()


PARENT = """
import sys, time
from vplug_logits.config import Config
from vplug_logits.server_build import BackgroundBuild
print(BackgroundBuild(sys.argv[1], Config.of("safe"), "bfloat16").pid, flush=True)
time.sleep(600)
"""


def test_a_child_dies_with_its_parent(folder: str) -> None:
    with cache.locked(cache.place(folder, SAFE, dtype="bfloat16")):  # else it ends by itself
        with subprocess.Popen([sys.executable, "-c", PARENT, folder], stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            until(lambda: os.getpriority(os.PRIO_PROCESS, child) == 10)
            assert not is_over(child)
            parent.kill()
        until(lambda: is_over(child))


def test_a_child_whose_parent_died_before_it_began_ends(folder: str) -> None:
    path = cache.place(folder, SAFE, dtype="bfloat16")
    words = ["build", folder, "--dtype", "bfloat16", "--out", path, "--child-of", "999999999"]
    with cache.locked(path):
        done = subprocess.run([sys.executable, "-m", "vplug_logits", *words], timeout=WAIT, check=False)
    assert done.returncode == 1


def test_a_cache_that_others_can_write_starts_no_child(folder: str, kept: Path) -> None:
    kept.mkdir()
    kept.chmod(0o777)
    with pytest.raises(ArtefactError, match="can be written by others"):
        BackgroundBuild(folder, SAFE, "bfloat16")


# What a child says


def test_a_child_that_says_nothing_leaves_no_file(tmp_path: Path) -> None:
    words = Words(str(tmp_path / "log"))
    words.follow(io.BytesIO(b""))
    assert words.last == "" and not os.listdir(tmp_path)


def test_what_a_child_says_is_kept_with_its_last_line(tmp_path: Path) -> None:
    words = Words(str(tmp_path / "log"))
    words.follow(io.BytesIO(b"warning\nerror: \xff it broke\n\n"))
    assert words.last == "error: \ufffd it broke"
    assert (tmp_path / "log").read_bytes() == b"warning\nerror: \xff it broke\n\n"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("line", [b"x" * 100_000, b"y" * 99 + b"\n"])
def test_what_a_child_says_is_kept_with_its_beginning_and_end_and_no_more(tmp_path: Path, line: bytes) -> None:
    words = Words(str(tmp_path / "log"))
    words.follow(io.BytesIO(b"first\n" + line * 3000 + b"\nlast\n"))
    raw = (tmp_path / "log").read_bytes()
    assert raw.startswith(b"first\n" + line[:1]) and raw.endswith(b"\nlast\n") and raw.count(b"...\n") == 1
    assert len(raw) <= server_build.LOG_BYTES + 4
    assert words.last == "last"


def test_a_log_that_cannot_be_written_loses_the_file_and_not_the_last_line(tmp_path: Path) -> None:
    words = Words(str(tmp_path / "none" / "log"))
    words.follow(io.BytesIO(b"error: it broke\n"))
    assert words.last == "error: it broke"
