"""How long the launches of a step take on this GPU, between CUDA events; `vplug-logits bench --gpu` asks."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.kernels.triton_step import TritonStep

LAUNCHES = ("transform", "scan", "rescore")


@dataclass(frozen=True, slots=True)
class Times:
    """Medians, in seconds.

    Attributes:
        launches: Of each launch, by its name in `LAUNCHES`.
        step: Of whole steps as callers have them: a graph and the copies around it.
        dense: Of `torch.nn.functional.linear` with the live weight.
    """

    launches: dict[str, float]
    step: float
    dense: float


def measure(step: TritonStep, weight: torch.Tensor, states: torch.Tensor, *, rounds: int = 100) -> Times:
    """Time a step and its launches, interleaved with the dense head.

    Args:
        step: Of a head on a CUDA device.
        weight: Its live weight.
        states: `(n, d)`, at most `triton_step.MOST`, in the dtype of the weight.
        rounds: How often each is run.
    """
    many, size = states.shape[0], 1 << (states.shape[0] - 1).bit_length()
    out = states.new_empty(many, weight.shape[0], dtype=step.dtype)
    step.run(states, out)  # compiles, tunes and captures
    launches = step.launches(states, out, size)
    work: dict[str, Callable[[], object]] = dict(zip(LAUNCHES, launches, strict=True))
    work |= {
        "step": lambda: step.run(states, out),
        "dense": lambda: torch.nn.functional.linear(states, weight),
    }
    found: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        events = {name: (_event(), _event()) for name in work}
        for name, call in work.items():
            begun, ended = events[name]
            torch.cuda._sleep(100_000)  # type: ignore[no-untyped-call]  # noqa: SLF001  # the host gets ahead
            begun.record()
            call()
            ended.record()
        torch.cuda.synchronize()
        for name, (begun, ended) in events.items():
            found[name].append(begun.elapsed_time(ended) / 1e3)
    medians = {name: statistics.median(times) for name, times in found.items()}
    return Times({name: medians[name] for name in LAUNCHES}, medians["step"], medians["dense"])


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
