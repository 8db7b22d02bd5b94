"""A progress bar on stderr, for people who wait: nothing where stderr is no terminal.  Standard library only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing import TextIO

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is done, how much of it is done, and how much there is."""

_CELLS = 30
_PAUSE = 0.1  # seconds between two drawings of the same step


def silent(step: str, done: int, total: int) -> None:
    """No progress is shown."""


class Bar:
    """One line that is drawn over; a step that is done stays, with its seconds.

    Args:
        stream: Where to; by default stderr.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._step, self._began, self._drawn = "", 0.0, 0.0

    def __call__(self, step: str, done: int, total: int) -> None:
        """Draw how far a step is."""
        now = time.monotonic()
        if step != self._step:
            self._step, self._began, self._drawn = step, now, 0.0
        if done < total and now - self._drawn < _PAUSE:
            return
        self._drawn = now
        filled = _CELLS * done // max(1, total)
        bar = "#" * filled + "." * (_CELLS - filled)
        end = "\n" if done >= total else ""
        self._stream.write(f"\r{step:<12} [{bar}] {100 * done // max(1, total):3d} %  {now - self._began:5.1f} s{end}")
        self._stream.flush()


def on_terminal(*, quiet: bool) -> Progress:
    """A bar where stderr is a terminal and nobody asked for quiet, else nothing."""
    return silent if quiet or not sys.stderr.isatty() else Bar()
