"""A document as Markdown: what was measured and how, a table for each head, whole steps, and a short form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vplug_logits.benchmark.names import BFLOAT16, FLOAT32, INT8, RANDOM, READ, TOP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SHORT = ("exact", "safe", TOP, "fast")
_SHORT_BATCHES = (1, 8, 32)


def markdown(document: Mapping[str, Any], *, plot: bool = False) -> str:
    """All parts that a document has.

    Args:
        document: As the command writes it.
        plot: Whether bench.svg lies beside it.
    """
    parts = [opening(document)]
    if plot and "heads" in document:
        parts.append("![time against batch, and the distance from reading alone](bench.svg)")
    for head in document.get("heads", ()):
        parts += _head(head)
    if "decode" in document:
        parts.append(_decode(document["decode"]))
    if "vllm" in document:
        parts.append(_vllm(document["vllm"]))
    if "gpu" in document:
        parts.append(_gpu(document["gpu"]))
    return "\n\n".join(parts) + "\n"


def short(document: Mapping[str, Any]) -> str:
    """The table of a README: one thread, the best path, over torch float32 / torch bfloat16 / int8 dense.

    Args:
        document: With `heads`.
    """
    heads = document["heads"]
    batches = [batch for batch in _SHORT_BATCHES if batch in heads[0]["batches"]]
    threads = heads[0]["threads"][0]
    heading = ["mode", *(f"{_shape(head)}, B = {batch}" for head in heads for batch in batches)]
    rows = []
    for name in _SHORT:
        cells = [f"`{name}`" if name != TOP else name]
        for head in heads:
            first = next(one["path"] for one in head["candidates"] if one["name"] == name)
            found = _found(head, name, first, threads)
            cells += [_over(found.get(batch), "median") for batch in batches]
        rows.append(cells)
    date, processor = document["machine"]["date"], document["machine"]["processor"]
    told = f"How many times as fast as {_baselines()}; {_threads(threads)}, {processor}, {date}."
    return f"{_table(heading, rows)}\n\n{told}"


def opening(document: Mapping[str, Any]) -> str:
    """What it was measured on, and how heads are."""
    measured = f"# How fast heads are\n\nMeasured {_machine(document['machine'])}."
    if "heads" not in document:
        return measured
    swept = (
        "before each call the caches are swept, as the layers of a model sweep them"
        if document["heads"][0]["swept"]
        else "caches are as the candidate before left them"
    )
    return (
        f"{measured}\n\n"
        f"All heads run in one process, in random order in each round; {swept}. Of one thread the time of the "
        "processor counts, of several that of the clock. Ratios are medians of the ratios within a round, over the "
        "quiet rounds if five were quiet. Weights are float32 but for the baselines in fewer bits; logits of all rows "
        "come out as float32 (torch bfloat16 and `_weight_int8pack_mm`: bfloat16). No candidate has a time unless its "
        "winners were those of the weights in float64, but for the few that its rounding explains."
    )


def _head(head: Mapping[str, Any]) -> list[str]:
    parts = [f"## {_shape(head)}: {_source(head)}", _state(head)]
    for threads in head["threads"]:
        measured = "processor time" if threads == 1 else "clock time"
        how = f"{_threads(threads)}, {measured}; how many times as fast as {_baselines()}"
        parts.append(f"**{how}: medians of ratios.**\n\n{_ratios(head, threads, 'median')}")
        if threads == head["threads"][0]:
            parts.append(f"**The same: ratios of minima.**\n\n{_ratios(head, threads, 'min')}")
        parts.append(f"**{_threads(threads)}: milliseconds, median (minimum).**\n\n{_times(head, threads)}")
    if len(head["threads"]) > 1:
        parts.append(_more_threads(head))
    return parts


def _state(head: Mapping[str, Any]) -> str:
    told = (
        f"{head['quiet']} of {head['rounds']} rounds were quiet; others used {head['others']['median']:.1f} processors."
    )
    faults = [one for one in head["candidates"] if one["fault"]]
    return told + "".join(
        f"\n\n**RED: {one['name']} ({one['path']}{', ' * bool(one['way'])}{one['way']}): {one['fault']}.**"
        for one in faults
    )


def _ratios(head: Mapping[str, Any], threads: int, kind: str) -> str:
    batches = head["batches"]
    heading = ["head", "path", "misses", *(f"B = {batch}" for batch in batches), f"of reading, B = {batches[0]}"]
    rows = []
    for name, path in _lines(head):
        found = _found(head, name, path, threads)
        over = [_over(found.get(batch), kind) for batch in batches]
        limit = found.get(batches[0], {}).get("read")
        rows.append([name, path, _misses(head, name, path), *over, "-" if limit is None else _share(limit[kind])])
    return _table(heading, rows)


def _times(head: Mapping[str, Any], threads: int) -> str:
    batches, clock = head["batches"], "cpu" if threads == 1 else "wall"
    heading = ["head", "path", "MB", *(f"B = {batch}" for batch in batches), "ways"]
    rows = []
    for name, path in _lines(head, reading=True):
        found = _found(head, name, path, threads)
        ways = list(dict.fromkeys(one["way"] for one in found.values() if one["way"]))
        size = next(one["bytes"] for one in head["candidates"] if (one["name"], one["path"]) == (name, path))
        cells = [_milliseconds(found[batch][clock]) if batch in found else "-" for batch in batches]
        rows.append([name, path, f"{size / 1e6:,.1f}", *cells, ", ".join(ways) or "-"])
    return _table(heading, rows)


def _more_threads(head: Mapping[str, Any]) -> str:
    """Clock time of the fewest threads over that of each larger number."""
    fewest, *others = head["threads"]
    heading = [
        "head",
        "path",
        *(f"{threads} threads, B = {batch}" for threads in others for batch in head["batches"]),
    ]
    rows = []
    for name, path in _lines(head, reading=True):
        base, cells = _found(head, name, path, fewest), [name, path]
        for threads in others:
            more = _found(head, name, path, threads)
            for batch in head["batches"]:
                has = batch in base and batch in more
                cells.append(f"{base[batch]['wall']['median'] / more[batch]['wall']['median']:.2f}" if has else "-")
        rows.append(cells)
    told = f"Clock time with {_threads(fewest)} over that with more; what waits for memory gains no more than reading."
    return f"**{told}**\n\n{_table(heading, rows)}"


def _decode(steps: Sequence[Mapping[str, Any]]) -> str:
    heading = [
        "model", "dtype", "dense, ms", "ours, ms", "free head, ms", "dense / ours", "ceiling: dense / free",
        "head's share", "other tokens",
    ]  # fmt: skip
    rows = []
    for one in steps:
        if one["fault"]:
            rows.append([one["model"], one["dtype"], *["-"] * 6, f"RED: {one['fault']}"])
            continue
        cells = [_milliseconds(one["cpu"][name]) for name in ("dense", "ours", "free")]
        ratios = [f"{one[name]['median']:.2f} ({one[name]['min']:.2f})" for name in ("ratio", "ceiling")]
        share = _share(1 - 1 / one["ceiling"]["median"])
        dense = f", {one['dense_rows']} dense" if one["dense_rows"] else ""
        tokens = f"{one['misses']} of {one['steps']}{dense}"
        rows.append([one["model"], one["dtype"], *cells, *ratios, share, tokens])
    first = steps[0]
    return (
        "## Whole decode steps in transformers\n\n"
        f"Greedy, batch 1, one thread, with a KV cache; mode `{first['mode']}`. Processor time of a step, "
        f"median (minimum); the three kinds of step alternate in random order over {first['steps']} tokens, each with "
        "a cache of its own and the same token. A free head returns a tensor that is there already: no head can give "
        "more.\n\n"
        f"{_table(heading, rows)}"
    )


def _vllm(runs: Sequence[Mapping[str, Any]]) -> str:
    heading = ["model", "dtype", "head", "head, ms", "step, ms", "head's share", "dense step / this step"]
    rows = []
    for one in runs:
        for name, title in (("dense", "vLLM's own"), ("ours", f"mode `{one['mode']}`"), ("free", "free: the ceiling")):
            share = one["head"][name]["median"] / one["step"][name]["median"]
            over = "1" if name == "dense" else f"{one['over'][name]['median']:.2f} ({one['over'][name]['min']:.2f})"
            cells = [_milliseconds(one[part][name]) for part in ("head", "step")]
            rows.append([one["model"], one["dtype"], title, *cells, _share(share), over])
    first = runs[0]
    dense = ", ".join(f"{one['dense_rows']} in {one['dtype']}" for one in runs)
    return (
        "## Whole decode steps in vLLM\n\n"
        f"vLLM {first['vllm']} on a CPU, one request, greedy, one thread, eager. Processor time, median (minimum), of "
        "the call of the head and of the engine's whole step; the head changes at random from step to step, over "
        f"{first['steps']} steps with each. States of ours that were answered densely: {dense}.\n\n"
        f"{_table(heading, rows)}"
    )


def _gpu(heads: Sequence[Mapping[str, Any]]) -> str:
    launches = list(heads[0]["launches"])
    heading = ["head", "mode", "B", "misses", *launches, "step", "torch bfloat16", "torch bfloat16 / step"]
    rows = []
    for one in heads:
        dense = f", {one['dense']} dense" if one["dense"] else ""
        times = [*(one["launches"][name] for name in launches), one["step"], one["dense_head"]]
        cells = [_shape(one), one["mode"], str(one["batch"]), f"{one['misses']} of {one['batch']}{dense}"]
        over = f"{one['dense_head'] / one['step']:.2f}"
        rows.append([*cells, *(f"{1e6 * time:,.1f}" for time in times), over])
    return (
        f"## On a GPU: {heads[0]['gpu']}\n\n"
        "Weights and states in bfloat16; microseconds between CUDA events, medians: of each launch alone, of a whole "
        "step (a CUDA graph and the copies around it), and of torch's dense head, interleaved.\n\n"
        f"{_table(heading, rows)}"
    )


def _lines(head: Mapping[str, Any], *, reading: bool = False) -> list[tuple[str, str]]:
    found = [one for one in head["candidates"] if reading or one["kind"] != READ]
    return list(dict.fromkeys((one["name"], one["path"]) for one in found))


def _found(head: Mapping[str, Any], name: str, path: str, threads: int) -> dict[int, Any]:
    return {
        one["batch"]: one
        for one in head["cells"]
        if (one["name"], one["path"], one["threads"]) == (name, path, threads)
    }


def _misses(head: Mapping[str, Any], name: str, path: str) -> str:
    mine = [one for one in head["candidates"] if (one["name"], one["path"]) == (name, path)]
    right = [one for one in mine if not one["fault"]]
    if not right:
        return "RED"
    worst = max(right, key=lambda one: one["misses"])
    dense = f", {worst['dense']} dense" if worst["dense"] else ""
    return f"{worst['misses']} of {worst['checked']}{dense}"


def _over(cell: Mapping[str, Any] | None, kind: str) -> str:
    if cell is None:
        return "-"
    names = (FLOAT32, BFLOAT16, INT8)
    return " / ".join(_times_as_fast(cell["over"][name][kind]) if name in cell["over"] else "-" for name in names)


def _times_as_fast(value: float) -> str:
    return f"{value:.1f}" if value >= 1.95 else f"{value:.2f}"  # noqa: PLR2004  # two figures


def _milliseconds(pair: Mapping[str, float]) -> str:
    return f"{_number(1e3 * pair['median'])} ({_number(1e3 * pair['min'])})"


def _number(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.3f}"  # noqa: PLR2004  # three figures or thousandths


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _shape(head: Mapping[str, Any]) -> str:
    return f"{head['vocabulary']:,} x {head['width']:,}"


def _source(head: Mapping[str, Any]) -> str:
    return "random rows and states" if head["source"] == RANDOM else f"the head of {head['source']}, states of text"


def _machine(machine: Mapping[str, Any]) -> str:
    flags = " ".join(machine["flags"]) or "none of the flags that kernels look for"
    kernels = "no compiled kernels" if machine["kernels"] is None else "compiled kernels"
    return (
        f"{machine['date']} on {machine['processors']} cores of {machine['processor']} ({flags}; "
        f"{machine['cache'] >> 20} MiB of cache), torch {machine['torch']} (which uses {machine['torch_uses']}), "
        f"Python {machine['python']}, {kernels}"
    )


def _baselines() -> str:
    return f"{FLOAT32} / {BFLOAT16} / our own {INT8}"


def _threads(number: int) -> str:
    return "one thread" if number == 1 else f"{number} threads"


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---", *["--:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
