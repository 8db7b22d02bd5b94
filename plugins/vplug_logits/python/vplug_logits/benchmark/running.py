"""From heads to the document: candidates, the gate, times, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.benchmark import figures, machine
from vplug_logits.benchmark.candidates import Candidate, paths, table
from vplug_logits.benchmark.gate import Gate, Verdict
from vplug_logits.benchmark.names import RANDOM, READ
from vplug_logits.benchmark.timing import Plan, measure
from vplug_logits.config import AUTO
from vplug_logits.errors import ConfigError
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vplug_logits.benchmark.beds import Bed
    from vplug_logits.config import BackendName

SCHEMA = 1
"""The version of the JSON document; it is raised when a field changes its meaning or goes away."""


def document(earlier: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The beginning of a document: what it is measured on; parts are added under names of their own.

    Args:
        earlier: A document whose parts are kept.

    Raises:
        ConfigError: The kernels are a debug build, or the earlier document is none, or of another machine or other
            versions.
    """
    machine.require_release()
    here = machine.described()
    if earlier is None:
        return {"schema": SCHEMA, "machine": here}
    if not isinstance(earlier, dict) or not isinstance(earlier.get("machine"), dict):
        raise ConfigError("json: the file has other things than results of bench; name another one.")
    if earlier.get("schema") != SCHEMA or {**earlier["machine"], "date": here["date"]} != here:
        raise ConfigError("json: the file has results of another machine or of other versions; name another one.")
    return {**earlier, "machine": here}


def heads(
    beds: Sequence[Callable[[], Bed]],
    plan: Plan,
    *,
    backend: BackendName = AUTO,
    clusters: bool = False,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Measure heads one after the other; each is made when its turn comes, and let go.

    Args:
        beds: Makers of heads.
        plan: How.
        backend: Which of ours, by name.
        clusters: Mode `clusters` too, of heads that are a model's.
        progress: Called with the name of each step.
    """
    return [head(make(), plan, backend=backend, clusters=clusters, progress=progress) for make in beds]


def head(
    bed: Bed, plan: Plan, *, backend: BackendName = AUTO, clusters: bool = False, progress: Progress = silent
) -> dict[str, Any]:
    """Measure one head.

    Returns:
        vocabulary, width, source; threads, batches, swept, rounds: the plan; how many rounds were quiet, and the
        processors that others used; candidates (what each got right, and why it was not
        timed) and cells (`figures.cells`).
    """
    every = table(bed, paths(backend), clusters=clusters and bed.source != RANDOM)
    return of_candidates(bed, every, plan, progress=progress)


def of_candidates(
    bed: Bed, candidates: Sequence[Candidate], plan: Plan, *, progress: Progress = silent
) -> dict[str, Any]:
    """Measure given candidates of one head; none of them has a time before its winners are known to be right."""
    with torch.no_grad():
        gate, verdicts = Gate(bed, plan.batches), []
        for number, candidate in enumerate(candidates):
            verdicts.append(Verdict(0, 0) if candidate.kind == READ else gate.judge(candidate))
            progress("check", number + 1, len(candidates))
        del gate
    right = [one for one, verdict in zip(candidates, verdicts, strict=True) if not verdict.fault]
    times = measure(right, bed.states, plan, progress=progress)
    return {
        "vocabulary": bed.vocabulary,
        "width": bed.width,
        "source": bed.source,
        "threads": list(plan.threads),
        "batches": list(plan.batches),
        "swept": plan.sweep,
        "rounds": plan.rounds,
        "quiet": times.noisy.count(False),
        "others": figures.pair(times.others),
        "candidates": [_told(*each) for each in zip(candidates, verdicts, strict=True)],
        "cells": figures.cells(right, times),
    }


def _told(candidate: Candidate, verdict: Verdict) -> dict[str, Any]:
    return {
        "name": candidate.name,
        "path": candidate.path,
        "kind": candidate.kind,
        "way": candidate.way,
        "bytes": candidate.bytes,
        "checked": verdict.checked,
        "misses": verdict.misses,
        "dense": verdict.dense,
        "fault": verdict.fault,
    }
