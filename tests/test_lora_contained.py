"""Containment of the file-system resolver: hundreds of hostile names, files and races, and no open outside the folder.

What is opened is seen twice: by an audit hook in the process, and by strace where there is one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from interpreters import clean_environment, shared_import_root
from lora_contained import END, START
from lora_lab import adapter, config, weights
from sites import Fifo, Link, build
from test_lora_adapter import INVALID, KEYS
from test_lora_filesystem import NODES
from test_lora_names import CASES
from test_lora_safetensors import DAMAGED
from vplug_rs.lora.refusal import CODES

HERE = Path(__file__).resolve().parent
CONFIG, SAFETENSORS = "adapter_config.json", "adapter_model.safetensors"
OUTSIDE = {CONFIG: config(note="outside"), SAFETENSORS: weights(data=b"outside." * 4)}
CALLS = "open,openat,openat2,creat,stat,lstat,newfstatat,statx,readlink,readlinkat,access,faccessat,faccessat2,execve"
# (request, what is swapped, for what); each pair is there twice under names of its own
RACES = [
    (f"{name}/a", f"{name}{path}", f"{name}.{other}")
    for name, path, other in [
        ("r0", "", "link"), ("r1", "/a", "link"), ("r2", "/a/" + CONFIG, "config"),
        ("r3", "/a/" + SAFETENSORS, "weights"),
        ("r4", "/a/" + CONFIG, "pipe"), ("r5", "/a/" + SAFETENSORS, "folder"), ("r6", "/a", "file"),
        ("r7", "/a/" + SAFETENSORS, "zero"), ("r8", "/a/" + CONFIG, "self"), ("r9", "/a", "absolute"),
    ]
]  # fmt: skip


def swaps(outside: Path) -> dict[str, Any]:
    return {
        "r0.link": Link("../outside"),
        "r1.link": Link("../../outside/a"),
        "r2.config": Link(f"../../../outside/{CONFIG}"),
        "r3.weights": Link(f"../../../outside/{SAFETENSORS}"),
        "r4.pipe": Fifo(),
        "r5.folder": OUTSIDE,
        "r6.file": b"{}",
        "r7.zero": Link("/dev/zero"),
        "r8.self": Link("/proc/self/environ"),
        "r9.absolute": Link(str(outside / "a")),
    }


class Bed:
    """A folder with hostile content, and beside it what must not be reached."""

    def __init__(self, where: Path) -> None:
        self.folder, self.outside, self.temporary = where / "lora", where / "outside", where / "temporary"
        self.temporary.mkdir()
        build(self.outside, {**OUTSIDE, "a": OUTSIDE, "secret": OUTSIDE, "u": {"a": OUTSIDE}})
        build(self.folder, {"good": adapter(), **swaps(self.outside)})
        names: list[Any] = [
            name for _, name in CASES if not isinstance(name, (bytes, tuple)) and name != "a" * 10_000_000
        ]
        # what would reach the outside if one thing were forgotten, relative to the folder and to the working directory
        names += [f"{start}outside{end}" for start in ("../", "good/../../", "./../", "x/../../") for end in ("", "/a")]
        names += [str(self.outside), f"/{self.outside}", "a", "secret", "u/a", CONFIG]
        trees = {
            f"config{index}": {CONFIG: data, SAFETENSORS: weights()} for index, data in enumerate(INVALID.values())
        }
        trees |= {f"key{index}": adapter(**changes) for index, changes in enumerate(KEYS)}
        trees |= {
            f"weights{index}": {CONFIG: config(), SAFETENSORS: data} for index, data in enumerate(DAMAGED.values())
        }
        build(self.folder, trees)
        names += trees
        for index, (_, name, tree) in enumerate(NODES):
            if "Socket" not in repr(tree):  # their names would be too long
                build(self.folder / f"node{index}", tree)
                names.append(f"node{index}/{name}")
        for name, _, _ in RACES:
            build(self.folder / name, adapter())
        self.job = where / "job.json"
        self.names = names
        job = {"folder": str(self.folder), "names": names, "races": RACES, "rounds": 20}
        self.job.write_text(json.dumps(job), "utf-8")

    def run(self, *before: str) -> dict[str, Any]:
        """Runs the program in the folder outside, where a name that is taken as it is would be found."""
        done = subprocess.run(
            [*before, sys.executable, "-B", "-W", "error", str(HERE / "lora_contained.py"), str(self.job)],
            env=clean_environment(PYTHONPATH=f"{HERE}:{shared_import_root()}", TMPDIR=str(self.temporary)),
            cwd=self.outside,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def holds(self, path: str) -> bool:
        """Whether a path lies in the folder or among the copies, without the help of `..`."""
        inside = (str(self.folder), str(self.temporary))
        return ".." not in path.split("/") and any(path == one or path.startswith(one + "/") for one in inside)


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def check(found: dict[str, Any], bed: Bed) -> None:
    """Every hostile request is refused with a code; what a race lets through is the adapter itself."""
    assert len(found["names"]) == len(bed.names) >= 200
    served = [name for name, code in zip(bed.names, found["names"], strict=True) if code not in CODES]
    assert served == []
    raced = Counter(code for codes in found["races"].values() for code in codes)
    assert set(raced) | set(found["chance"]) <= {*CODES, "inside"}
    assert len(found["races"]) == len(RACES)
    assert all(len(codes) >= 4 for codes in found["races"].values()), "a race was not run at every open"
    # early enough a swap is seen, late enough it is too late
    assert all({*codes} - {"inside"} and "inside" in codes for codes in found["races"].values()), found["races"]
    assert sum(raced.values()) + len(found["chance"]) >= 200
    assert list(bed.temporary.iterdir()) == [], "copies outlive their process"


def test_nothing_outside_is_opened_by_what_the_process_itself_tells(bed: Bed) -> None:
    found = bed.run()
    check(found, bed)
    assert len(found["opened"]) > 500
    strange = []
    for event, path, flags in found["opened"]:
        if path in {START, END} or (os.path.isabs(path) and bed.holds(path)):
            continue
        # one part, relative to a descriptor, and no link is followed
        if event == "open" and "/" not in path and path not in {"", ".", ".."} and flags & os.O_NOFOLLOW:
            continue
        strange.append((event, path, flags))
    assert strange == []


def traced(text: str) -> list[str]:
    """The lines of a trace between the two markers, those of unfinished calls joined."""
    lines: list[str] = []
    waiting: dict[str, str] = {}
    for line in text.splitlines():
        process, _, rest = line.partition(" ")
        rest = rest.strip()
        if rest.endswith("<unfinished ...>"):
            waiting[process] = rest.removesuffix("<unfinished ...>")
        elif rest.startswith(("+++", "---")):  # the end of a process, a signal
            continue
        elif (resumed := re.match(r"<\.\.\. \w+ resumed>", rest)) is not None:
            lines.append(waiting.pop(process) + rest[resumed.end() :])
        else:
            lines.append(rest)
    start = next(index for index, line in enumerate(lines) if START in line)
    end = next(index for index, line in enumerate(lines) if END in line)
    return lines[start + 1 : end]


def test_the_reader_of_traces_sees_paths_and_results() -> None:
    text = f"""7  openat(AT_FDCWD</x>, "{START}", O_RDONLY) = -1 ENOENT (No such file or directory)
8  openat(3</lora>, "a", O_RDONLY <unfinished ...>
7  newfstatat(3</lora>, "b", 0x7ff, 0) = 0
8  <... openat resumed>) = 4</outside/a>
7  openat(AT_FDCWD</x>, "{END}", O_RDONLY) = -1 ENOENT (No such file or directory)
"""
    lines = traced(text)
    assert [named(line) for line in lines] == ["/lora/b", "/lora/a"]
    assert [given(line) for line in lines] == [None, "/outside/a"]


def named(line: str) -> str:
    """The path that a call names."""
    match = re.match(r'\w+\((?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"', line)
    if match is None:  # what is asked of a descriptor alone
        by_descriptor = re.match(r'\w+\(\d+<([^>]*)>(?:, "")?', line)
        assert by_descriptor is not None, line
        return by_descriptor[1]
    return os.path.join(match[1] or "?", match[2]).rstrip("/")


def given(line: str) -> str | None:
    """The file that an opened descriptor stands for."""
    match = re.search(r"= \d+<([^>]*)>$", line)
    return match[1] if match else None


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_nothing_outside_is_opened_by_what_the_kernel_tells(bed: Bed, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    words = ["strace", "-f", "-y", "-s", "4096", "-e", f"trace={CALLS}", "-o", str(trace)]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not trace processes")
    check(bed.run(*words), bed)
    lines = traced(trace.read_text("utf-8", "replace"))
    assert len(lines) > 1000
    assert [line for line in lines if not bed.holds(named(line))] == []
    results = [path for path in map(given, lines) if path is not None]
    assert len(results) > 500
    assert [path for path in results if not bed.holds(path.removesuffix(" (deleted)"))] == []
