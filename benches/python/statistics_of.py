"""Medians and minima of what was measured, and the plain-text table of one bed."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from candidates import STANDARD
from processes import Cost

LEAST = 0.001  # milliseconds; keeps a ratio finite where noise makes a difference nought or less

Pair = dict[str, float]


def pair(values: Sequence[float]) -> Pair:
    """Median and minimum."""
    return {"median": statistics.median(values), "min": min(values)}


def processes(costs: Sequence[Cost]) -> dict[str, Pair]:
    """Wall and processor time of whole processes."""
    return {"wall": pair([c.wall for c in costs]), "cpu": pair([c.processor for c in costs])}


def over(costs: Sequence[Cost], base: Sequence[Cost]) -> dict[str, Pair]:
    """The same minus `pass`: the median of differences round by round, and minimum minus minimum."""
    result: dict[str, Pair] = {}
    for name, values, floor in (
        ("wall", [c.wall for c in costs], [b.wall for b in base]),
        ("cpu", [c.processor for c in costs], [b.processor for b in base]),
    ):
        differences = [v - f for v, f in zip(values, floor, strict=True)]
        result[name] = {"median": statistics.median(differences), "min": min(values) - min(floor)}
    return result


def ratio(rival: Pair, ours: Pair) -> Pair:
    """How many times more the rival takes, for medians and for minima."""
    return {kind: rival[kind] / max(ours[kind], LEAST) for kind in ("median", "min")}


def machine() -> dict[str, Any]:
    """What the figures were seen on."""
    info = Path("/proc/cpuinfo")
    models = [x for x in info.read_text().splitlines() if x.startswith("model name")] if info.exists() else []
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": models[0].split(":", 1)[1].strip() if models else platform.processor(),
        "processors": os.cpu_count(),
    }


def text(result: dict[str, Any]) -> str:
    """One bed as a table for the terminal; ratios are importlib.metadata's cost over the candidate's."""
    head = (
        f"\nPython {result['python']}, {result['bed']} ({result['distributions']} distributions), "
        f"{result['rounds']} rounds, {result['quiet']} quiet, pass {result['pass']['cpu']['median']:.1f} ms cpu\n"
        f"{'ms, median (min)':26}{'found':>6}{'process cpu':>18}{'/':>14}"
        f"{'first call':>18}{'/':>14}{'later':>18}{'/':>15}"
    )
    lines = [head]
    rows = result["candidates"]
    for name, row in rows.items():
        cells = [f"{name:26}{row['found']:6}"]
        for kind in ("process", "first", "later"):
            own = row[kind]["cpu"] if kind == "process" else row[kind]
            rival = rows[STANDARD][kind]["cpu"] if kind == "process" else rows[STANDARD][kind]
            times = ratio(rival, own)
            cells.append(f"{own['median']:9.3f} ({own['min']:.3f})".rjust(18))
            cells.append(f"{times['median']:.1f} ({times['min']:.1f})x".rjust(15))
        lines.append("".join(cells))
    return "\n".join(lines)
