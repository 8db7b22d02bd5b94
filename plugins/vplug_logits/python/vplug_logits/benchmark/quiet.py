"""Whether others run while something is measured: the processors that other processes use, from /proc/stat.

Linux only; elsewhere every moment counts as quiet.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

T = TypeVar("T")

LIMIT = 0.3  # processors that others may use
_STAT = "/proc/stat"
_USER_NICE_SYSTEM_IRQ_SOFTIRQ_STEAL = (1, 2, 3, 6, 7, 8)
_SHORTEST = 0.02  # seconds; the kernel counts in hundredths


class Watch:
    """A block that is measured in.

    Attributes:
        others: Processors that other processes used meanwhile, once it is over.
    """

    others = 0.0

    @property
    def noisy(self) -> bool:
        """Whether that is more than they may use."""
        return self.others > LIMIT

    def __enter__(self) -> Self:
        self._then = (time.monotonic(), _busy(), _own())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        then, busy, own = self._then
        seconds = max(time.monotonic() - then, _SHORTEST)
        self.others = max(0.0, (_busy() - busy) - (_own() - own)) / seconds


def keep(rounds: Sequence[T], noisy: Sequence[bool], least: int = 5) -> list[T]:
    """The quiet rounds, or all of them where fewer than `least` were quiet."""
    quiet = [one for one, loud in zip(rounds, noisy, strict=True) if not loud]
    return quiet if len(quiet) >= least else list(rounds)


def _busy() -> float:
    """Seconds that all processors together were busy since boot."""
    try:
        with open(_STAT, encoding="ascii") as file:
            fields = file.readline().split()
    except FileNotFoundError:
        return _own()
    return sum(int(fields[index]) for index in _USER_NICE_SYSTEM_IRQ_SOFTIRQ_STEAL) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    mine = os.times()
    return mine.user + mine.system + mine.children_user + mine.children_system
