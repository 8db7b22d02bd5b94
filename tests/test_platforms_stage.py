"""The stage that children answer from: events that JSON readers take, stdout kept for them, a sure end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as some

from vplug_rs.platforms.active import job_words
from vplug_rs.platforms.children import stage

FILE = job_words("nvml")[4]


def on_stage(code: str) -> subprocess.CompletedProcess[str]:
    """Run some Python on a stage of its own."""
    load = f"""
import importlib.machinery, os, sys, time, types
module = types.ModuleType("stage")
importlib.machinery.SourceFileLoader("stage", {FILE!r}).exec_module(module)
"""
    words = [sys.executable, "-I", "-S", "-B", "-c", load + code]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_line_reads_no_environment_and_no_site() -> None:
    assert job_words("nvml", "a", "b") == [
        sys.executable,
        "-I",
        "-S",
        "-B",
        os.path.abspath(stage.__file__),
        "nvml",
        "a",
        "b",
    ]


@given(some.text() | some.integers() | some.booleans())
def test_values_are_written_as_json(value: str | int) -> None:
    written = stage._value(value)
    assert written.isascii()
    assert "\n" not in written
    assert json.loads(written) == value


def test_stdout_is_for_events_alone() -> None:
    done = on_stage("""
one = module.Stage()
print("noise", flush=True)
os.write(1, b"more noise\\n")
os.system("echo noise of a child")
one.say(call="f", device=0, ok=True)
one.leave()
""")
    assert done.stdout == '{"call": "f", "device": 0, "ok": true}\n{"done": true}\n'
    assert done.stderr == "noise\nmore noise\nnoise of a child\n"


def test_the_end_asks_nobody() -> None:
    done = on_stage("""
import atexit, threading
atexit.register(print, "late")
threading.Thread(target=time.sleep, args=(60,)).start()
module.Stage().leave()
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"done": true}\n', "")


def test_a_crash_leaves_no_core_file() -> None:
    done = on_stage("import resource\nmodule.Stage().say(core=resource.getrlimit(resource.RLIMIT_CORE)[0])")
    assert json.loads(done.stdout) == {"core": 0}


def test_a_child_whose_asker_is_gone_ends_by_itself() -> None:
    done = on_stage("module.LIMIT = 1\nmodule.Stage()\ntime.sleep(60)")
    assert done.returncode == -signal.SIGALRM


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("x" * 2000), 500), (KeyError("a"), len("KeyError: 'a'"))], ids=["long", "short"]
)
def test_exceptions_are_told_in_short(error: Exception, said: int) -> None:
    assert len(stage.Stage.told(error)) == said


def test_an_exception_without_a_text_is_told() -> None:
    class Mute(Exception):  # noqa: N818  # what it is called is the point
        def __str__(self) -> str:
            raise RuntimeError

    assert stage.Stage.told(Mute()) == "Mute: (its text cannot be had)"


def test_a_module_that_fails_is_an_event() -> None:
    words = job_words("no_such_module")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    first, last = map(json.loads, done.stdout.splitlines())
    assert "no_such_module.py" in first["unusable"]
    assert last == {"done": True}
