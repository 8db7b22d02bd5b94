"""Private copies: whole or not there, gone with their process, and what a killed process left is swept up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from interpreters import clean_environment, shared_import_root
from lora_lab import adapter, config, content, weights
from sites import Link, build
from vplug_rs.lora import snapshots

HERE = Path(__file__).resolve().parent
START = """
    import os, sys, time
    from lora_lab import BASE, content
    from vplug_rs.lora import snapshots
    from vplug_rs.lora.filesystem import FilesystemResolver
    from vplug_rs.lora.refusal import Refusal
    from vplug_rs.lora.resolver import Request
    resolver = FilesystemResolver("lora")
    def path():
        return resolver.find(Request("a", BASE)).path
"""


class Bed:
    def __init__(self, where: Path) -> None:
        self.where, self.temporary = where, where / "temporary"
        self.temporary.mkdir()
        build(where / "lora", {"a": adapter()})

    def start(self, code: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(START) + textwrap.dedent(code)],
            env=clean_environment(PYTHONPATH=f"{HERE}:{shared_import_root()}", TMPDIR=str(self.temporary)),
            cwd=self.where,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str) -> str:
        program = self.start(code)
        out, err = program.communicate(timeout=60)
        assert (program.returncode, err) == (0, "")
        return out

    def homes(self) -> list[Path]:
        return sorted(self.temporary.iterdir())


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def killed(bed: Bed) -> Path:
    """What a process leaves that is killed while it has a copy."""
    program = bed.start("print(path(), flush=True)\ntime.sleep(60)")
    assert program.stdout is not None
    home = Path(program.stdout.readline().strip()).parent
    program.send_signal(signal.SIGKILL)
    program.communicate(timeout=60)
    assert content(next(home.iterdir())) == adapter()
    return home


def aged(path: Path) -> None:
    past = time.time() - 3600
    os.utime(path, (past, past))


def test_a_process_that_ends_takes_its_copies_with_it(bed: Bed) -> None:
    assert bed.run("print(os.path.isdir(path()))") == "True\n"
    assert bed.homes() == []


def test_what_a_killed_process_left_is_swept_up_by_the_next(bed: Bed) -> None:
    home = killed(bed)
    aged(home)
    assert bed.run("path(); print(len(os.listdir(os.environ['TMPDIR'])))") == "1\n"
    assert not home.exists()


def test_what_is_in_use_or_young_or_somebody_elses_stays(bed: Bed) -> None:
    young = killed(bed)
    program = bed.start("print(path(), flush=True)\ntime.sleep(60)")
    assert program.stdout is not None
    used = Path(program.stdout.readline().strip()).parent
    aged(used)
    build(
        bed.temporary, {"outside": adapter(), "vplug-lora-link": Link("outside"), "vplug-lora-file": b"", "other": {}}
    )
    build(bed.temporary / "vplug-lora-open", adapter())
    (bed.temporary / "vplug-lora-open").chmod(0o755)
    for name in ("outside", "vplug-lora-open", "other"):
        aged(bed.temporary / name)
    before = bed.homes()
    bed.run("path()")
    assert bed.homes() == before
    assert {young, used} <= set(before)
    program.kill()
    program.communicate(timeout=60)


def test_a_forked_child_has_copies_of_its_own(bed: Bed) -> None:
    code = """
        mine = path()
        with snapshots.turn:  # as a thread of the parent might hold it at that moment
            child = os.fork()
        if not child:
            theirs = path()
            print(os.path.dirname(theirs) != os.path.dirname(mine), content(theirs) == content(mine), flush=True)
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        print(os.path.isdir(mine), len(os.listdir(os.environ["TMPDIR"])))
    """
    assert bed.run(code) == "True True\nTrue 1\n"
    assert bed.homes() == []


def test_a_full_disk_is_told_and_leaves_nothing(bed: Bed) -> None:
    data = b"x" * (1 << 20)
    large = weights(header={"t": {"dtype": "U8", "shape": [1 << 20], "data_offsets": [0, 1 << 20]}}, data=data)
    build(bed.where / "lora", {"large": {"adapter_config.json": config(), "adapter_model.safetensors": large}})
    code = """
        import resource
        first = path()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
        try:
            resolver.find(Request("large", BASE))
        except Refusal as refusal:
            print(refusal.code, refusal.hint, os.listdir(os.path.dirname(first)) == [os.path.basename(first)])
    """
    assert bed.run(code) == "snapshot-failed Make room there, or set `TMPDIR` to a folder on a larger disk. True\n"


@pytest.mark.parametrize("size", [0, 1, 4096, (1 << 24) + 5])
@pytest.mark.parametrize("by_kernel", [True, False])
def test_a_copy_is_the_file_byte_for_byte(
    size: int, by_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_kernel:
        monkeypatch.delattr("os.copy_file_range")
    data = os.urandom(size)
    (tmp_path / "from").write_bytes(data)
    with (tmp_path / "from").open("rb") as file:
        file.seek(size)
        assert snapshots.copy(file.fileno(), size, str(tmp_path / "to")) == size
    assert (tmp_path / "to").read_bytes() == data


def test_a_copy_ends_where_the_file_ends_and_where_it_was_said_to_end(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"12345")
    with (tmp_path / "from").open("rb") as file:
        assert snapshots.copy(file.fileno(), 99, str(tmp_path / "short")) == 5
        assert snapshots.copy(file.fileno(), 3, str(tmp_path / "cut")) == 3
    assert [(tmp_path / name).read_bytes() for name in ("short", "cut")] == [b"12345", b"123"]


def test_a_copy_replaces_nothing(tmp_path: Path) -> None:
    build(tmp_path, {"from": b"1", "there": b"2", "link": Link("there")})
    with (tmp_path / "from").open("rb") as file:
        for name in ("there", "link"):
            with pytest.raises(FileExistsError):
                snapshots.copy(file.fileno(), 1, str(tmp_path / name))
    assert (tmp_path / "there").read_bytes() == b"2"
