"""What `vplug trace` sees of distributions: their properties and class methods, summed, with nothing changed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from cli_lab import CommandLab, lab
from interpreters import each_minor, need
from trace_lab import calls_of, host, timeline_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["host", "lab"]


@pytest.fixture
def many(lab: CommandLab) -> Path:
    """A site of fifty distributions."""
    site = lab.site("many")
    for number in range(50):
        lab.plugin(site, f"plug{number}", module=False)
    return site


def event_of(process: dict[str, Any], what: str) -> dict[str, Any]:
    (found,) = [event for event in process["events"] if event["what"] == f"importlib.metadata.{what}"]
    return found  # type: ignore[no-any-return]


def test_reads_from_one_line_are_one_event_that_counts_them(lab: CommandLab, many: Path) -> None:
    code = """
import importlib.metadata as m, time
found = list(m.distributions())
began = time.perf_counter()
points = [point for one in found for point in one.entry_points]
taken = time.perf_counter() - began
for number in range(50):
    name = m.Distribution.from_name(f'plug{number}').version
print(len(points), taken)
"""
    (process,) = timeline_of(lab, many, code)
    reads = event_of(process, "Distribution.entry_points")
    assert reads["count"] >= 50
    assert 0 < reads["seconds"] <= reads["end"] - reads["start"]
    assert reads["caller"] == "<string>:5 in <listcomp>" or reads["caller"] == "<string>:5 in <module>"
    assert event_of(process, "Distribution.version")["count"] == 50
    assert event_of(process, "Distribution.from_name(…)")["count"] == 50
    assert len(process["events"]) <= 6
    summed = sum(event["seconds"] for event in process["events"])
    assert process["metadata_seconds"] == pytest.approx(summed, rel=0.02)


def test_a_single_call_shows_its_arguments(lab: CommandLab, many: Path) -> None:
    code = """
import importlib.metadata as m
m.Distribution.from_name('plug1').read_text('entry_points.txt')
list(m.Distribution.discover(name='plug2'))
m.Distribution.discover(name='never read')
try:
    m.Distribution.from_name('absent')
except m.PackageNotFoundError:
    pass
"""
    (process,) = timeline_of(lab, many, code)
    assert calls_of(process) == [
        "Distribution.from_name('plug1')",
        "Distribution.read_text('entry_points.txt')",
        "Distribution.discover(name='plug2')",
        "Distribution.from_name('absent')",
    ]
    assert process["events"][-1]["error"] == "PackageNotFoundError"


def test_a_pause_parts_the_reads_of_one_line(lab: CommandLab, many: Path) -> None:
    code = """
import importlib.metadata as m, time
found = m.distribution('plug1')
for pause in (0, 0, 0.3, 0):
    time.sleep(pause)
    found.version
"""
    (process,) = timeline_of(lab, many, code)
    reads = [event for event in process["events"] if event["what"].endswith("Distribution.version")]
    assert [event["count"] for event in reads] == [2, 2]


def test_the_reads_of_a_plugin_are_not_those_of_its_host(lab: CommandLab, host: Path) -> None:
    (host / "reader.py").write_text(
        "import importlib.metadata as m\ndef read(): return m.distribution('good').version\n"
    )
    (host / "good_mod.py").write_text("import reader\nreader.read()\ndef run(): pass\n")
    code = """
import importlib.metadata as m, reader
reader.read()
(point,) = m.entry_points(name='good')
point.load()
reader.read()
"""
    (process,) = timeline_of(lab, host, code)
    reads = [event for event in process["events"] if event["what"].endswith("Distribution.version")]
    assert [event["count"] for event in reads] == [1, 1, 1]


def test_a_killed_process_keeps_its_reads_but_for_a_few_milliseconds(lab: CommandLab, many: Path) -> None:
    code = """
import importlib.metadata as m, os, signal, time
found = m.distribution('plug1')
limit = time.monotonic() + 0.3
while time.monotonic() < limit:
    found.version
os.kill(os.getpid(), signal.SIGKILL)
"""
    (process,) = timeline_of(lab, many, code, status=128 + 9)
    reads = event_of(process, "Distribution.version")
    assert reads["count"] > 50
    assert reads["end"] - reads["start"] > 0.2


def test_a_forked_child_has_its_own_reads(lab: CommandLab, many: Path) -> None:
    code = """
import importlib.metadata as m, os
found = m.distribution('plug1')
for number in range(10):
    if number == 7 and not os.fork():
        for _ in range(5):
            found.version
        os._exit(0)
    found.version
os.wait()
"""
    parent, child = timeline_of(lab, many, code)
    assert event_of(parent, "Distribution.version")["count"] == 10
    assert 1 <= event_of(child, "Distribution.version")["count"] <= 5


ANSWERS = """
import importlib.metadata as m, inspect, sys
before = [name for name in sys.modules if not name.startswith(('vplug_rs', 'sitecustomize', 'atexit'))]
class Own(m.Distribution):
    def __init__(self): pass
    def read_text(self, name):
        return {'METADATA': 'Name: own\\nVersion: 9\\n\\n', 'entry_points.txt': '[g]\\nx = y:z\\n'}.get(name)
    def locate_file(self, path): return path
    @property
    def version(self): return 'own ' + super().version
own, good = Own(), m.Distribution.from_name('good')
for one in (own, good):
    print(one.version, one.name, [point.value for point in one.entry_points], one.requires, one.files)
    print(one.metadata.keys(), getattr(one, 'origin', 'no origin'), one.read_text('METADATA'), vars(one).keys())
for name in ('entry_points', 'files', 'metadata', 'name', 'requires', 'version', 'discover', 'from_name', 'read_text'):
    kind = type(vars(m.Distribution)[name]).__name__
    print(name, kind, inspect.getdoc(getattr(m.Distribution, name)))
print(inspect.signature(m.Distribution.from_name), inspect.signature(m.Distribution.discover))
print([one.name for one in m.Distribution.discover(name='good')], [one.name for one in Own.discover(name='bad')])
for name in ('absent', '', None):
    try:
        Own.from_name(name)
    except Exception as error:
        print(type(error), error)
for name, value in (('version', '1'), ('files', [])):
    try:
        setattr(good, name, value)
    except AttributeError as error:
        print(error)
print(before)
"""


@each_minor()
def test_distributions_answer_as_without_a_trace(minor: int, lab: CommandLab, host: Path) -> None:
    program = [need(minor).executable, "-P", "-c", ANSWERS]
    (host / "good-1.0.dist-info" / "RECORD").write_text("good_mod.py,,\n")
    plain, traced = (
        subprocess.run(
            words, env=lab.environment(host), cwd=lab.root, capture_output=True, text=True, timeout=60, check=False
        )
        for words in (program, [*lab.command(), "trace", "--", *program])
    )
    assert plain.returncode == traced.returncode == 0, plain.stderr + traced.stderr
    assert plain.stdout == traced.stdout
    assert "Distribution.version" in traced.stderr
