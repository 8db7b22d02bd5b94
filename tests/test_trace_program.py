"""A program under `vplug trace` is what it is without: accelerated or not, its signals, its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli_lab import CommandLab, lab
from trace_lab import host

if TYPE_CHECKING:
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
