"""Times of candidates, interleaved: each round asks all of them once for each batch size and number of threads.

The order is drawn anew in each round, of the cells (threads, batch) and of the candidates within a cell, so that what
slows the machine for a while slows none of them alone; ratios are made within a round. Before each call the caches are
swept, as the weights of the layers sweep them in a model's step. Time is that of the processor for one thread, all
threads of this process together, and that of the clock.
"""

from __future__ import annotations

import gc
import itertools
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from vplug_logits.benchmark.machine import cache_bytes
from vplug_logits.benchmark.quiet import Watch
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vplug_logits.benchmark.candidates import Candidate

BATCHES, THREADS = (1, 4, 8, 32), (1, 2)
ROUNDS, QUICK_ROUNDS = 25, 5
STEPS_A_ROUND = 4  # of a whole model, instead of rounds
_TRIES = 3  # calls of each way to do the same, before the rounds
_SWEPT = 2  # times the largest cache


@dataclass(frozen=True, slots=True)
class Plan:
    """What is timed.

    Attributes:
        batches: Sizes of batches.
        threads: Numbers of threads.
        rounds: How many.
        sweep: Whether caches are swept before each call; else they are as the candidate before left them.
        seed: Of the order.
    """

    batches: tuple[int, ...] = BATCHES
    threads: tuple[int, ...] = THREADS
    rounds: int = ROUNDS
    sweep: bool = True
    seed: int = 0

    @property
    def cells(self) -> list[tuple[int, int]]:
        """(threads, batch)."""
        return list(itertools.product(self.threads, self.batches))


@dataclass(slots=True)
class Times:
    """What was measured.

    Attributes:
        cpu: (candidate, threads, batch) -> seconds of the processor, one for each round.
        wall: The same of the clock.
        others: Processors that other processes used, by round.
        noisy: Whether that is too many, by round.
    """

    cpu: dict[tuple[int, int, int], list[float]] = field(default_factory=dict)
    wall: dict[tuple[int, int, int], list[float]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)
    noisy: list[bool] = field(default_factory=list)


def measure(candidates: Sequence[Candidate], states: torch.Tensor, plan: Plan, *, progress: Progress = silent) -> Times:
    """Time candidates that are known to be right.

    Of several ways to do the same only those go through the rounds that were fastest in a cell before them.

    Args:
        candidates: What.
        states: float32 `(N, d)`; each round takes other ones.
        plan: How.
        progress: Called with "time".

    Returns:
        Times by the candidate's index.
    """
    before, sweep = torch.get_num_threads(), Sweep(plan)
    order = random.Random(plan.seed)  # noqa: S311  # an order of calls, no secret
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad():
            fastest = _fastest(candidates, states, plan, sweep)
            return _rounds(candidates, states, plan, fastest, sweep, order, progress)
    finally:
        gc.enable()
        torch.set_num_threads(before)


class Sweep:
    """Reads so much memory that nothing else is left in the caches."""

    def __init__(self, plan: Plan) -> None:
        self._numbers = torch.ones(_SWEPT * cache_bytes() // 4) if plan.sweep else None

    def __call__(self) -> None:
        """Do it."""
        if self._numbers is not None:
            self._numbers.sum()


def clocked(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor, of all threads of this process, and of the clock."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def _rounds(  # noqa: PLR0913, PLR0917  # what is measured, and with what
    candidates: Sequence[Candidate],
    states: torch.Tensor,
    plan: Plan,
    fastest: dict[tuple[int, int], list[int]],
    sweep: Sweep,
    order: random.Random,
    progress: Progress,
) -> Times:
    times = Times()
    for number in range(plan.rounds):
        with Watch() as watch:
            for threads, batch in order.sample(plan.cells, len(plan.cells)):
                torch.set_num_threads(threads)
                block = _block(states, number, batch)
                mine = fastest[threads, batch]
                for index in order.sample(mine, len(mine)):
                    cpu, wall = _once(candidates[index], block, sweep)
                    times.cpu.setdefault((index, threads, batch), []).append(cpu)
                    times.wall.setdefault((index, threads, batch), []).append(wall)
        times.others.append(watch.others)
        times.noisy.append(watch.noisy)
        progress("time", number + 1, plan.rounds)
    return times


def _once(candidate: Candidate, block: torch.Tensor, sweep: Sweep) -> tuple[float, float]:
    given = block.to(candidate.dtype)
    sweep()
    return clocked(lambda: candidate.answer(given))


def _block(states: torch.Tensor, number: int, batch: int) -> torch.Tensor:
    return states[(number * batch + torch.arange(batch)) % len(states)]


def _fastest(
    candidates: Sequence[Candidate], states: torch.Tensor, plan: Plan, sweep: Sweep
) -> dict[tuple[int, int], list[int]]:
    """For each cell the candidates, of those that do the same the fastest one."""
    ways: dict[tuple[str, str], list[int]] = {}
    for index, one in enumerate(candidates):
        ways.setdefault((one.name, one.path), []).append(index)
    found = {}
    for threads, batch in plan.cells:
        torch.set_num_threads(threads)
        block = _block(states, 0, batch)
        chosen = []
        for indices in ways.values():
            tries = _TRIES if len(indices) > 1 else 1
            costs = [min(sum(_once(candidates[index], block, sweep)) for _ in range(tries)) for index in indices]
            chosen.append(indices[costs.index(min(costs))])
        found[threads, batch] = chosen
    return found
