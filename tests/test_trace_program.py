"""A program under `vplug trace` is what it is without: accelerated or not, its signals, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from cli_lab import CommandLab, lab
from trace_lab import host, timeline_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["host", "lab"]

# Whether the core answers: the genuine code would call `read_text`.
WHO_ANSWERS = """
import importlib.metadata as m, sys
seen = set()
sys.setprofile(lambda frame, event, argument: seen.add(frame.f_code.co_name))
m.version('good')
m.distribution('good').version
sys.setprofile(None)
print('accelerated' if 'read_text' not in seen else 'genuine')
"""


@pytest.mark.parametrize(("outer", "inner"), [("trace", "run"), ("run", "trace"), ("trace", "")])
def test_run_and_trace_together_do_both(lab: CommandLab, host: Path, outer: str, inner: str) -> None:
    out = lab.root / "timeline.json"
    words = {"trace": ["trace", "--json", str(out), "--"], "run": ["run", "--"]}
    again = [*lab.command(), *words[inner]] if inner else []
    again = [word for word in again if word != "-S"]  # else the process in between would not be reached
    done = lab.run(host, *words[outer], *again, lab.command()[0], "-P", "-c", WHO_ANSWERS)
    assert done.stdout == ("accelerated\n" if inner else "genuine\n")
    *_, program = json.loads(out.read_text(encoding="utf-8"))["processes"]
    assert "importlib.metadata.version('good')" in [event["what"] for event in program["events"]]


# Says that it is there, and ends as the signal's handler, or the signal itself, has it.
WAITING = """
import importlib.metadata as m, os, signal, sys, time
kind = sys.argv[1]
if kind == 'answers':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
elif kind == 'refuses':
    signal.signal(signal.SIGTERM, lambda *_: open('asked', 'w').close())
m.version('good')
print(os.getpid(), flush=True)
time.sleep(60)
"""


def start(lab: CommandLab, host: Path, *words: str) -> subprocess.Popen[str]:
    """Start `vplug trace WORDS` with a folder of its own for temporary files."""
    (lab.root / "temporary").mkdir()
    return subprocess.Popen(
        [*lab.command(), "trace", *words],
        env=lab.environment(host, TMPDIR=str(lab.root / "temporary")),
        cwd=lab.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "kind", "status"),
    [
        (signal.SIGTERM, "plain", 128 + signal.SIGTERM),
        (signal.SIGHUP, "plain", 128 + signal.SIGHUP),
        (signal.SIGTERM, "answers", 5),
    ],
)
def test_a_signal_ends_the_program_and_is_followed_by_the_report(
    lab: CommandLab, host: Path, number: int, kind: str, status: int
) -> None:
    out = lab.root / "timeline.json"
    with start(lab, host, "--json", str(out), "--", lab.command()[0], "-P", "-c", WAITING, kind) as command:
        assert command.stdout is not None
        pid = int(command.stdout.readline())
        command.send_signal(number)
        _, errors = command.communicate(timeout=30)
    assert command.returncode == status, errors
    assert not is_running(pid)
    assert "version('good')" in errors
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["status"], found["processes"][0]["pid"]) == (status, pid)
    assert list((lab.root / "temporary").iterdir()) == []


def test_a_program_that_does_not_heed_sigterm_is_killed_by_a_second_one(lab: CommandLab, host: Path) -> None:
    with start(lab, host, "--", lab.command()[0], "-P", "-c", WAITING, "refuses") as command:
        assert command.stdout is not None
        pid = int(command.stdout.readline())
        command.send_signal(signal.SIGTERM)
        until((lab.root / "asked").exists)
        command.send_signal(signal.SIGTERM)  # at once: `timeout` sends it to us and to our group
        time.sleep(1.1)
        assert is_running(pid)
        command.send_signal(signal.SIGTERM)
        _, errors = command.communicate(timeout=30)
    assert command.returncode == 128 + signal.SIGKILL, errors
    assert not is_running(pid)
    assert "version('good')" in errors
    assert list((lab.root / "temporary").iterdir()) == []


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP"])
def test_signals_that_the_caller_ignores_stay_ignored(lab: CommandLab, host: Path, name: str) -> None:
    ask = "import signal; print([signal.getsignal(getattr(signal, 'SIG' + n)) for n in ('INT', 'TERM', 'HUP', 'PIPE')])"
    program = [lab.command()[0], "-P", "-c", ask]
    answers = [
        subprocess.run(
            ["/bin/sh", "-c", f"trap '' {name}; exec \"$@\"", "sh", *words, *program],
            env=lab.environment(host),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for words in ([], [*lab.command(), "trace", "--"])
    ]
    assert answers[0] == answers[1]
    assert "SIG_IGN" in answers[0]


def test_an_interrupt_is_the_programs_to_answer(lab: CommandLab, host: Path) -> None:
    code = "import signal, sys; signal.signal(2, lambda *_: sys.exit(4)); print(flush=True); signal.pause()"
    with subprocess.Popen(
        [*lab.command(), "trace", "--", lab.command()[0], "-P", "-c", code],
        env=lab.environment(host),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        assert command.stdout is not None
        command.stdout.readline()
        os.killpg(command.pid, signal.SIGINT)  # as the terminal does
        _, errors = command.communicate(timeout=30)
    assert command.returncode == 4
    assert errors.startswith("PROCESS")


def test_exec_begins_anew(lab: CommandLab, host: Path) -> None:
    code = """
import importlib.metadata as m, os, sys, time
m.version('good')
if sys.argv[1:]:
    while time.process_time() < 1:
        pass
    os.execv(sys.executable, [sys.executable, '-P', '-c', sys.argv[1]])
"""
    first, second = timeline_of(lab, host, code, code)
    assert first["pid"] == second["pid"]
    assert first["end"] <= second["start"]
    assert second["start"] > 0.7  # not where the CPU time of both would have it
    assert second["startup_seconds"] < 0.5


def test_a_forked_process_that_becomes_another_program_does_not_begin_before_its_fork(
    lab: CommandLab, host: Path
) -> None:
    code = """
import importlib.metadata as m, os, sys
if not os.fork():
    m.version('good')
    os.execv(sys.executable, [sys.executable, '-P', '-c', "import importlib.metadata as m; m.version('bad')"])
os.wait()
"""
    _, forked, second = timeline_of(lab, host, code)
    assert (forked["how"], second["how"], forked["pid"]) == ("forked", "started", second["pid"])
    assert forked["start"] < forked["end"] <= second["start"] < second["end"]
