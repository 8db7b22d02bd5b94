"""Counters from one process to another: private, whole, and gone with the run."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vplug_logits.adapters.vllm import figures

ROOT = Path(figures.__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a run, and the environment says so."""
    monkeypatch.setenv(figures.FOLDER, str(tmp_path))
    return str(tmp_path)


def child(program: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != figures.FOLDER}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_what_was_written_last_is_read_by_process(folder: str) -> None:
    writer = figures.Writer()
    writer.write({"steps": 1, "much": "x" * 5000})
    writer.write({"steps": 2})
    assert figures.read(folder) == {os.getpid(): {"steps": 2}}


def test_the_file_is_for_this_user_alone(folder: str) -> None:
    before = os.umask(0)
    try:
        figures.Writer().write({})
    finally:
        os.umask(before)
    (name,) = os.listdir(folder)
    assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600


def test_half_a_file_and_strange_ones_are_not_read(folder: str) -> None:
    figures.Writer().write({"steps": 3})
    (name,) = os.listdir(folder)
    path = Path(folder, name)
    whole = path.read_bytes()
    for damaged in (whole[:5], whole[:-1], whole[:-1] + b"!", b""):
        path.write_bytes(damaged)
        assert figures.read(folder) == {}
    Path(folder, "notes.txt").write_text("x", "utf-8")
    path.write_bytes(whole)
    assert figures.read(folder) == {os.getpid(): {"steps": 3}}


def test_a_process_that_has_ended_is_left_out(folder: str) -> None:
    program = "from vplug_logits.adapters.vllm import figures; figures.Writer().write({'steps': 1})"
    child(program, **{figures.FOLDER: folder})
    assert len(os.listdir(folder)) == 1
    assert figures.read(folder) == {}


def test_a_forked_child_writes_a_file_of_its_own(folder: str) -> None:
    program = (
        "import os\nfrom vplug_logits.adapters.vllm import figures\n"
        "writer = figures.Writer()\nwriter.write({'who': 'parent'})\npid = os.fork()\n"
        "if not pid:\n    writer.write({'who': 'child'}); os._exit(0)\nos.waitpid(pid, 0)\n"
        "folder = os.environ[figures.FOLDER]\n"
        "print(figures.read(folder)[os.getpid()]['who'], len(os.listdir(folder)))"
    )
    assert child(program, **{figures.FOLDER: folder}) == "parent 2"


def test_the_folder_is_private_handed_to_children_and_removed_at_the_end() -> None:
    program = (
        "import json, os, subprocess, sys\nfrom vplug_logits.adapters.vllm import figures\n"
        "folder = figures.prepare()\n"
        "inner = 'from vplug_logits.adapters.vllm import figures; print(figures.prepare())'\n"
        "seen = subprocess.run([sys.executable, '-c', inner], capture_output=True, text=True).stdout.strip()\n"
        "print(json.dumps([folder, seen, os.stat(folder).st_mode & 0o777, os.path.isdir(folder), figures.prepare()]))"
    )
    made, seen, mode, was_there, again = json.loads(child(program))
    assert made == seen == again
    assert mode == 0o700
    assert was_there
    assert not os.path.exists(made)


def test_a_reader_beside_a_writer_sees_whole_figures_only(folder: str) -> None:
    writer, stop, seen = figures.Writer(), threading.Event(), []
    writer.write({"a": 0, "b": "0"})

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            writer.write({"a": number, "b": str(number) * (1 + number % 700)})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(300):
            found = figures.read(folder).get(os.getpid())
            if found is not None:  # five tries may all have met the writer
                seen.append(found["b"] == str(found["a"]) * (1 + found["a"] % 700) or found["a"] == 0)
    finally:
        stop.set()
        thread.join()
    assert len(seen) > 100
    assert all(seen)


def test_without_a_folder_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(figures.FOLDER, raising=False)
    figures.Writer().write({"steps": 1})
