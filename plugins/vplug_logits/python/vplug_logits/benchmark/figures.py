"""What times come to: medians and minima, ratios within rounds, the distance from the limit of reading."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from vplug_logits.benchmark import quiet
from vplug_logits.benchmark.names import OVER, READ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_logits.benchmark.candidates import Candidate
    from vplug_logits.benchmark.timing import Times


def cells(candidates: Sequence[Candidate], times: Times) -> list[dict[str, Any]]:
    """One record for each candidate, number of threads and batch size that was timed.

    Of one thread the time of the processor is compared, of several that of the clock.

    Args:
        candidates: As they were measured.
        times: Theirs.

    Returns:
        name, path, way, threads, batch; cpu and wall (seconds: median, min); over: baseline -> median of the ratios
        within a round and ratio of the minima, how many times as fast as it; read: time of reading its codes over its
        own, likewise (a share of 1), or None.
    """
    return [_cell(candidates, times, key) for key in times.cpu]


def pair(values: Sequence[float]) -> dict[str, float]:
    """Median and minimum."""
    return {"median": statistics.median(values), "min": min(values)}


def ratio(slow: Sequence[float], quick: Sequence[float]) -> dict[str, float]:
    """How many times as fast: the median of the ratios round by round, and that of the minima."""
    within = [one / other for one, other in zip(slow, quick, strict=True)]
    return {"median": statistics.median(within), "min": min(slow) / min(quick)}


def _cell(candidates: Sequence[Candidate], times: Times, key: tuple[int, int, int]) -> dict[str, Any]:
    index, threads, batch = key
    mine = candidates[index]

    def kept(which: dict[tuple[int, int, int], list[float]], number: int) -> list[float]:
        return quiet.keep(which[number, threads, batch], times.noisy)

    compared = times.cpu if threads == 1 else times.wall
    others = {number: candidates[number] for number, at, size in times.cpu if (at, size) == (threads, batch)}
    over = {}
    for name in OVER:
        found = [number for number, one in others.items() if one.name == name]
        same = [number for number in found if candidates[number].path == mine.path]  # our own int8, on the same path
        if found:
            over[name] = ratio(kept(compared, (same or found)[0]), kept(compared, index))
    reading = [number for number, one in others.items() if one.kind == READ and one.codes == mine.codes]
    limit = ratio(kept(compared, reading[0]), kept(compared, index)) if reading and mine.kind != READ else None
    return {
        "name": mine.name,
        "path": mine.path,
        "kind": mine.kind,
        "way": mine.way,
        "threads": threads,
        "batch": batch,
        "cpu": pair(kept(times.cpu, index)),
        "wall": pair(kept(times.wall, index)),
        "over": over,
        "read": limit,
    }
