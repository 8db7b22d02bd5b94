"""Tell quiet moments of a shared machine from noisy ones, by the processor time that other processes take.

`Gate.wait()` returns once the others leave enough processors idle, or after a bound. `with gate.round() as r:`
says afterwards, in `r.noisy`, whether they ran during the block. `keep()` drops noisy rounds while enough remain.
Linux only; elsewhere every moment counts as quiet.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_STAT = Path("/proc/stat")
_HAS_STAT = _STAT.exists()
_SLICE = 0.12
_USER_NICE_SYSTEM_IRQ_SOFTIRQ_STEAL = (1, 2, 3, 6, 7, 8)


def _busy() -> float:
    """Seconds that all processors together were busy since boot."""
    if not _HAS_STAT:
        return _own()
    fields = _STAT.read_text().split("\n", 1)[0].split()
    return sum(int(fields[i]) for i in _USER_NICE_SYSTEM_IRQ_SOFTIRQ_STEAL) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    me, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return me.ru_utime + me.ru_stime + children.ru_utime + children.ru_stime


class Round:
    """One measured block; `others` is the number of processors that other processes used meanwhile."""

    def __init__(self, limit: float) -> None:
        """Args: limit: from how many processors on the round counts as noisy."""
        self.limit = limit
        self.others = 0.0
        self.noisy = False

    def __enter__(self) -> Self:
        """Start to watch."""
        self._start = (time.monotonic(), _busy(), _own())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Set `others` and `noisy`."""
        then, busy, own = self._start
        seconds = max(time.monotonic() - then, 0.02)
        self.others = max(0.0, (_busy() - busy) - (_own() - own)) / seconds
        self.noisy = self.others > self.limit


class Gate:
    """Waits for quiet: at most `patience` seconds at a time and `budget` seconds in all."""

    def __init__(self, limit: float = 0.3, patience: float = 4.0, budget: float = 40.0) -> None:
        """Args: limit: processors that others may use; patience, budget: seconds."""
        self.limit, self.patience, self.budget = limit, patience, budget

    def wait(self) -> bool:
        """Return True as soon as a moment is quiet, False when patience or budget ran out."""
        start = time.monotonic()
        while time.monotonic() - start < self.patience and self.budget > 0:
            with Round(self.limit) as moment:
                time.sleep(_SLICE)
            self.budget -= _SLICE
            if not moment.noisy:
                return True
        return False

    def round(self) -> Round:
        """A block to measure in."""
        return Round(self.limit)


def keep(rounds: list[tuple[bool, T]], least: int = 5) -> tuple[list[T], int]:
    """The values of the quiet rounds, or of all where fewer than `least` were quiet; and how many were quiet."""
    quiet = [value for noisy, value in rounds if not noisy]
    return (quiet if len(quiet) >= least else [value for _, value in rounds]), len(quiet)
