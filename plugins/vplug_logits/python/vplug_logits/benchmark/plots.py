"""Time against batch, and the distance from the limit of reading, as PNG and SVG.  Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vplug_logits.benchmark.names import BFLOAT16, FLOAT32, INT4, INT8, MODE, TOP, TORCH_AO, TORCH_INT8
from vplug_logits.errors import ConfigError
from vplug_logits.evaluation.plots import require

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOURS = {
    "exact": "C0", "safe": "C1", TOP: "C8", "fast": "C2", "clusters": "C3", FLOAT32: "0.15", BFLOAT16: "0.45",
    TORCH_INT8: "C4", TORCH_AO: "C5", INT8: "C6", INT4: "C9",
}  # fmt: skip
FILES = ("bench.png", "bench.svg")


def write(document: Mapping[str, Any], folder: str) -> list[Path]:
    """Draw the heads of a document: one panel for each, of one thread.

    Args:
        document: With `heads`.
        folder: Where the files go; made if it is not there.

    Returns:
        The files.

    Raises:
        ConfigError: There is no matplotlib, or the folder cannot be written to.
    """
    require("--out")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heads = document["heads"]
    figure = Figure(figsize=(1.5 + 3.7 * len(heads), 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(heads), squeeze=False, sharex=True, sharey="row")
    for head, upper, lower in zip(heads, *panels, strict=True):
        _times(upper, head)
        _distance(lower, head)
    panels[0][0].set_ylabel("ms of a call")
    panels[1][0].set_ylabel("time over that of reading the codes")
    handles: dict[str, Any] = {}
    for axes in panels.flat:
        handles |= {label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside right upper", fontsize="small")
    files = [Path(folder) / name for name in FILES]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for file in files:
            metadata = {"Date": None} if file.suffix == ".svg" else None
            with rc_context({"svg.hashsalt": "vplug_logits"}):  # the same results give the same file
                figure.savefig(file, dpi=120, metadata=metadata)
    except OSError as error:
        raise ConfigError(f"out: {folder} cannot be written to: {error.strerror}.") from error
    return files


def _times(axes: Any, head: Mapping[str, Any]) -> None:
    for (name, path), cells in _series(head).items():
        batches = sorted(cells)
        times = [1e3 * cells[batch][_clock(head)]["median"] for batch in batches]
        axes.plot(batches, times, label=_label(name, path, head), **_style(name, path, head))
    axes.set_title(f"{head['vocabulary']:,} x {head['width']:,}\n{head['source']}", fontsize="medium")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(alpha=0.3, which="both")


def _distance(axes: Any, head: Mapping[str, Any]) -> None:
    for (name, path), cells in _series(head).items():
        if any(cell["read"] is None for cell in cells.values()):
            continue
        batches = sorted(cells)
        far = [1 / cells[batch]["read"]["median"] for batch in batches]
        axes.plot(batches, far, label=_label(name, path, head), **_style(name, path, head))
    axes.axhline(1, color="grey", linestyle=":", linewidth=1)
    axes.text(0.02, 1.03, "reading alone", transform=axes.get_yaxis_transform(), fontsize="small", color="grey")
    axes.set(xscale="log", yscale="log", xlabel="batch")
    axes.set_xticks(head["batches"], labels=[str(batch) for batch in head["batches"]])
    axes.xaxis.set_minor_locator(_no_ticks())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(alpha=0.3, which="both")


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _series(head: Mapping[str, Any]) -> dict[tuple[str, str], dict[int, Any]]:
    """(name, path) -> batch -> cell, with the fewest threads, of what is no reading."""
    found: dict[tuple[str, str], dict[int, Any]] = {}
    for cell in head["cells"]:
        if cell["threads"] == head["threads"][0] and cell["name"] in COLOURS:
            found.setdefault((cell["name"], cell["path"]), {})[cell["batch"]] = cell
    names, paths = list(COLOURS), ["torch", *_ours(head)]
    return dict(sorted(found.items(), key=lambda item: (names.index(item[0][0]), paths.index(item[0][1]))))


def _clock(head: Mapping[str, Any]) -> str:
    return "cpu" if head["threads"][0] == 1 else "wall"


def _ours(head: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(one["path"] for one in head["candidates"] if one["kind"] == MODE))


def _label(name: str, path: str, head: Mapping[str, Any]) -> str:
    ours = _ours(head)
    return f"{name}, {path}" if path in ours and len(ours) > 1 else name


def _style(name: str, path: str, head: Mapping[str, Any]) -> dict[str, Any]:
    """Modes are solid, baselines dashed; paths beside the best one are thin."""
    ours = _ours(head)
    narrow = path in ours[1:]
    baseline = name in {FLOAT32, BFLOAT16, TORCH_INT8, TORCH_AO, INT8, INT4}
    return {
        "color": COLOURS[name],
        "linestyle": "--" if baseline else "-",
        "linewidth": 0.8 if narrow else 1.8,
        "alpha": 0.6 if narrow else 1.0,
        "marker": "s" if baseline else "o",
        "markersize": 3 if narrow else 4.5,
    }
