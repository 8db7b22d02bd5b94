"""Where `vplug trace` takes a start-up to end, and what it says of what comes later."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli_lab import CommandLab, lab
from trace_lab import host, timeline_of
from vplug_rs.tracing.page import page
from vplug_rs.tracing.timeline import Event, Process

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["host", "lab"]


def test_a_late_call_does_not_stretch_the_start_up(lab: CommandLab, host: Path) -> None:
    out, html = lab.root / "timeline.json", lab.root / "timeline.html"
    code = "import importlib.metadata as m, time; m.version('good'); time.sleep(2.5); m.version('bad')"
    files = ["--json", str(out), "--html", str(html)]
    done = lab.run(host, "trace", *files, "--", lab.command()[0], "-P", "-c", code)
    (process,) = json.loads(out.read_text(encoding="utf-8"))["processes"]
    late = process["events"][-1]
    assert late["what"] == "importlib.metadata.version('bad')"
    assert process["startup_seconds"] < 1
    assert (process["later_events"], process["later_seconds"]) == (1, pytest.approx(late["seconds"]))
    early = sum(event["seconds"] for event in process["events"][:-1])
    assert process["metadata_seconds"] == pytest.approx(early, rel=0.01)
    assert process["share"] == pytest.approx(early / process["startup_seconds"], rel=0.01)
    row = dict(zip(*(line.split() for line in done.stderr.splitlines()[:2]), strict=False))
    assert float(row["MS"]) > 2500 > float(row["START-UP"])
    assert float(row["LATER"]) == pytest.approx(late["seconds"] * 1e3, abs=0.06)
    text = html.read_text(encoding="utf-8")
    told = f"1 of {len(process['events'])} calls of process {process['pid']}"
    assert f"Not drawn, for they come after the start-up: {told}" in text
    assert "2500 ms" not in text  # the scale ends with the start-up


def test_a_process_that_imports_is_starting_up(lab: CommandLab, host: Path) -> None:
    for number in range(150):
        (host / f"heavy{number}.py").write_text("import time\ntime.sleep(0.01)\n", encoding="utf-8")
    code = """
import importlib.metadata as m
m.version('good')
for number in range(150):
    __import__(f'heavy{number}')
m.version('bad')
"""
    (process,) = timeline_of(lab, host, code)
    assert process["startup_seconds"] > 1.5
    assert process["later_events"] == 0


def process_of(*events: tuple[float, float], fresh: int = 0) -> Process:
    process = Process(1000.0, "started", 42, 1, ["program"], "3.11.7")
    process.events = [
        Event("metadata", 1000 + start, 1000 + end, 1, "version('p')", "file.py:1 in f", None, fresh)
        for start, end in events
    ]
    return process


@pytest.mark.parametrize(
    ("events", "startup", "later"),
    [
        ([], 0, 0),
        ([(0.1, 0.2), (1.1, 1.3)], 1.3, 0),  # less than a second
        ([(0.1, 0.2), (1.3, 1.4)], 0.2, 1),
        ([(0.1, 6.0), (8.9, 9.0)], 9.0, 0),  # less than half of six seconds
        ([(0.1, 6.0), (9.1, 9.2), (9.3, 9.4)], 6.0, 2),
        ([(5.0, 5.1)], 5.1, 0),  # other work came first
        ([(11.0, 11.1)], 0, 1),  # it waited
        ([(0.1, 5.0), (0.2, 0.3), (5.5, 5.6)], 5.6, 0),  # nested
    ],
)
def test_the_first_quiet_time_ends_the_start_up(events: list[tuple[float, float]], startup: float, later: int) -> None:
    process = process_of(*events)
    assert process.startup == pytest.approx(startup)
    assert len(process.later) == later
    assert len(process.early) == len(events) - later


def test_a_page_of_later_calls_alone_is_drawn() -> None:
    process = process_of((20.0, 20.5))
    process.end = 1030.0
    text = page(["program"], [process], 0, 30.0)
    assert "0% of its first 0 ms, and 500 ms later" in text
    assert text.count('fill="var(--metadata)"') == 1
