"""Misses against bytes, and misses by domain, as PNG and SVG.  Needs matplotlib: `pip install vplug_logits[plots]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vplug_logits.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKS = {"mode": "o", "baseline": "s"}
COLOURS = {
    "exact": "C0", "safe": "C1", "fast": "C2", "clusters": "C3", "dense": "C4",
    "dense-bf16": "C5", "int8": "C6", "int4": "C7", "cosine-clusters": "C8",
    "1 bit": "C2", "2 bit": "C1", "4 bit": "C9",
}  # fmt: skip
"""Of methods and curves; a mode has that of the curve it lies on."""
RIGHT = 50  # percent of the bytes from which a label stands left of its point


def require(option: str = "--plots") -> None:
    """Say what is missing before hours are spent.

    Args:
        option: What asks for plots.

    Raises:
        ConfigError: There is no matplotlib.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"plots: matplotlib is not installed; `pip install 'vplug_logits[plots]'`, or leave out {option}."
        ) from error


def write(document: Mapping[str, Any], folder: str) -> list[Path]:
    """Draw a document of `report`.

    Args:
        document: The results.
        folder: Where the files go; made if it is not there.

    Returns:
        The files: `misses.png`, `misses.svg`, `domains.png`, `domains.svg`.

    Raises:
        ConfigError: There is no matplotlib, or the folder cannot be written to.
    """
    require()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figures = {"misses": Figure(figsize=(8, 5), layout="constrained"), "domains": Figure((8, 4), layout="constrained")}
    _misses(figures["misses"].add_subplot(), document)
    _by_domain(figures["domains"].add_subplot(), document)
    files = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            FigureCanvasAgg(figure)
            for kind in ("png", "svg"):
                files.append(Path(folder) / f"{name}.{kind}")
                with rc_context({"svg.hashsalt": "vplug_logits"}):  # the same results give the same file
                    figure.savefig(files[-1], dpi=120, metadata={"Date": None} if kind == "svg" else None)
    except OSError as error:
        raise ConfigError(f"plots: {folder} cannot be written to: {error.strerror}.") from error
    return files


def _misses(axes: Any, document: Mapping[str, Any]) -> None:
    dense, count = document["dense_bytes"], document["states"]
    floor = 100 / count / 2  # 0 cannot stand on a log scale: it is drawn at half a miss
    for curve in document["curves"]:
        shares = [100 * point["bytes"] / dense for point in curve["points"]]
        rates = [max(100 * point["misses"], floor) for point in curve["points"]]
        name = curve["name"]
        axes.plot(shares, rates, ".-", linewidth=1, alpha=0.6, color=COLOURS.get(name), label=name)
    for method in document["methods"]:
        share, rate = 100 * method["bytes"] / dense, max(100 * (method["all"]["miss_rate"] or 0.0), floor)
        axes.plot(share, rate, MARKS[method["kind"]], color=COLOURS.get(method["name"]), markersize=9, zorder=3)
        side = {"xytext": (-6, 7), "ha": "right"} if share > RIGHT else {"xytext": (6, 7)}
        axes.annotate(method["name"], (share, rate), textcoords="offset points", fontsize="small", **side)
    axes.axhline(floor, color="grey", linestyle=":", linewidth=1)
    axes.text(0.01, floor * 1.1, f"no miss in {count:,}", transform=axes.get_yaxis_transform(), fontsize="small",
              color="grey")  # fmt: skip
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="bytes of a step, % of a dense 16-bit head",
        ylabel="top-1 misses, % of states",
        title=f"{document['model']}: misses against bytes",
    )
    ticks = [5, 10, 20, 50, 100]
    axes.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    if document["curves"]:
        axes.legend(title="circles: modes, squares: baselines\nlines: rows or clusters varied", fontsize="small",
                    title_fontsize="small")  # fmt: skip


def _by_domain(axes: Any, document: Mapping[str, Any]) -> None:
    domains = list(document["sources"])
    shown = [method for method in document["methods"] if method["all"]["misses"]]
    none = [method["name"] for method in document["methods"] if not method["all"]["misses"]]
    width = 0.8 / max(1, len(shown))
    for index, method in enumerate(shown):
        rates = [100 * (method["domains"][domain]["miss_rate"] or 0.0) for domain in domains]
        places = [at + index * width for at in range(len(domains))]
        axes.bar(places, rates, width, color=COLOURS.get(method["name"]), label=method["name"])
    centre = width * (len(shown) - 1) / 2
    axes.set_xticks([at + centre for at in range(len(domains))], labels=domains)
    axes.set(ylabel="top-1 misses, % of states", title=f"{document['model']}: misses by domain")
    axes.set_xlabel(f"no miss at all: {', '.join(none)}" if none else "")
    axes.grid(axis="y", alpha=0.3)
    if shown:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.figure.legend(loc="outside right center", fontsize="small")
