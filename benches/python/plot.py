"""The picture of the start-up benchmark: the real environment as bars, all sizes as lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

import beds
from candidates import INSTALLED, OURS, PLAIN, STANDARD

OURS_COLOUR, OTHER, STANDARD_COLOUR, PLAIN_COLOUR = "#c2410c", "#94a3b8", "#1e3a5f", "#64748b"
_LINES = {OURS: OURS_COLOUR, STANDARD: STANDARD_COLOUR, PLAIN: PLAIN_COLOUR}


def _bars(axes: Any, result: dict[str, Any]) -> None:
    rows = {n: r["process"]["cpu"]["median"] for n, r in result["candidates"].items() if n != INSTALLED}
    names = sorted(rows, key=lambda name: -rows[name])
    bars = axes.barh(names, [rows[n] for n in names], color=[_LINES.get(n, OTHER) for n in names], height=0.7)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    axes.set_title(f"Asking once, real environment of {result['distributions']} distributions", fontsize=10, loc="left")
    axes.set_xlabel("ms of processor time over `python -c pass`")
    axes.margins(x=0.12)


def _apart(values: dict[str, float], gap: float) -> dict[str, float]:
    """Places for labels on a logarithmic axis: at their values, but at least the factor `gap` apart."""
    places: dict[str, float] = {}
    least = 0.0
    for name in sorted(values, key=lambda name: values[name]):
        places[name] = max(values[name], least)
        least = places[name] * gap
    return places


def _lines(axes: Any, results: list[dict[str, Any]]) -> None:
    synthetic = [result for result in results if result["bed"] != beds.REAL]
    sizes = [result["distributions"] for result in synthetic]
    last: dict[str, float] = {}
    for name in synthetic[0]["candidates"]:
        if name == INSTALLED:
            continue
        times = [result["candidates"][name]["first"]["median"] for result in synthetic]
        last[name] = times[-1]
        width = 2 if name in _LINES else 1
        axes.plot(sizes, times, color=_LINES.get(name, OTHER), linewidth=width, marker="o", markersize=3)
    places = _apart(last, 1.32)
    for name, place in places.items():
        axes.text(sizes[-1] * 1.12, place, name, fontsize=7, color=_LINES.get(name, PLAIN_COLOUR), va="center")
    axes.set(xscale="log", yscale="log", xlabel="distributions", ylabel="ms")
    axes.set_title("First call in a fresh process, import apart", fontsize=10, loc="left")
    axes.set_xlim(right=sizes[-1] * 8)
    axes.set_ylim(top=max(places.values()) * 1.5)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()


def draw(startup: dict[str, Any], path: Path) -> None:
    """Write the picture.

    Args:
        startup: the result of startup.py.
        path: a PNG file.
    """
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    real = [result for result in startup["sizes"] if result["bed"] == beds.REAL]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    _bars(left, (real or startup["sizes"])[0])
    _lines(right, startup["sizes"])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    version = startup["sizes"][0]["python"]
    machine = startup["machine"]
    figure.suptitle(
        f"Python {version}, {machine['processors']} cores of {machine['processor']}", fontsize=8, color="#475569"
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
