"""What a head did, as numbers.  Standard library only; who shows them, and where, is the adapter's business."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from vplug_logits.kernels.rules import Report

REASONS = {
    "window": "more than one row in sixteen might win, so all of them were scored",
    "states": "NaN or infinity in the hidden state",
    "overflow": "the best logit is not finite in the dtype of the logits",
    "drift": "a live logit was further from its estimate than the code of its row allows: the weights were changed",
    "weight": "the weight is not what the head was made for: replaced, or written to",
    "dtype": "states of a dtype that the head was not made for",
    "grad": "a gradient is asked for",
    "training": "the head is in training",
    "autocast": "autocast decides the dtype of the product",
    "capture": "a CUDA graph is being captured",
    "peer": "another process of the head answers densely, for a reason that it counts",
    "shape": "the hidden states are no matrix",
    "bias": "the host adds a bias to the logits",
    "altered": "the request changes logits before a token is chosen: a mask, a bias, a grammar, penalties",
    "spread": "a token is drawn, and too much of the probability lies on rows that were only estimated",
    "prompt": "logarithms of the tokens of a prompt are asked for",
    "caller": "no model runner that is known asks, so it is not known what its requests do with the logits",
    "building": "the sketch is not there yet",
    "inactive": "the head was not activated",
    "error": "the two-stage head raised; the log has it",
}
"""Why rows were answered densely.  The slug is the API; the sentence is for people."""


@dataclass(slots=True)
class Step:
    """What one call did, gathered without a lock and added by `Counters.add`.

    Attributes:
        rows: Hidden states.
        fallbacks: Reason -> rows that were answered densely.
        rescored: Rows of the vocabulary that were scored exactly, over all hidden states that were not.
        most: The largest number of them for one hidden state.
        clipped: Estimates that were lowered since they reached the winner.
        scan_seconds: Transform, scan and selection.
        rescore_seconds: Exact logits of the selected rows.
        seconds: The whole call.
    """

    rows: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)
    rescored: int = 0
    most: int = 0
    clipped: int = 0
    scan_seconds: float = 0.0
    rescore_seconds: float = 0.0
    seconds: float = 0.0

    def fell_back(self, reason: str, rows: int) -> None:
        """`rows` hidden states were answered densely."""
        if rows:
            self.fallbacks[reason] = self.fallbacks.get(reason, 0) + rows


class Counters:
    """Sums over the steps of one head; threads may add and read at once.

    Times are what the calling thread waited: on a GPU, where a call returns early, they say little.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zero()
        _ALL.add(self)

    def _zero(self) -> None:
        self._steps = self._fallback_steps = 0
        self._sum = Step()

    def reset(self) -> None:
        """Back to zero."""
        with self._lock:
            self._zero()

    def add(self, step: Step) -> None:
        """Add one step."""
        with self._lock:
            total = self._sum
            self._steps += 1
            self._fallback_steps += bool(step.fallbacks)
            total.rows += step.rows
            for reason, rows in step.fallbacks.items():
                total.fell_back(reason, rows)
            total.rescored += step.rescored
            total.most = max(total.most, step.most)
            total.clipped += step.clipped
            total.scan_seconds += step.scan_seconds
            total.rescore_seconds += step.rescore_seconds
            total.seconds += step.seconds

    def add_fused(self, rows: int, report: Report) -> None:
        """Add one step that a backend did by itself, and in which nothing fell back.

        Args:
            rows: Hidden states.
            report: What it did.
        """
        with self._lock:
            total = self._sum
            self._steps += 1
            total.rows += rows
            total.rescored += report.rescored
            total.most = max(total.most, report.most)
            total.clipped += report.clipped
            total.scan_seconds += report.seconds - report.rescore_seconds
            total.rescore_seconds += report.rescore_seconds
            total.seconds += report.seconds

    def fallback(self, reason: str, rows: int) -> None:
        """A step that a host answered densely by itself, as one step of `rows` hidden states."""
        step = Step(rows=rows)
        step.fell_back(reason, rows)
        self.add(step)

    def snapshot(self) -> dict[str, Any]:
        """All of it as plain data.

        Returns:
            steps; rows (hidden states); fallback_steps (steps with at least one dense row); fallback_rows; fallbacks
            (reason -> rows, only those that happened; `REASONS` says what they mean); rescored_rows (sum),
            rescored_most (of one hidden state); clipped; seconds, scan_seconds, rescore_seconds.
        """
        with self._lock:
            total = self._sum
            return {
                "steps": self._steps,
                "rows": total.rows,
                "fallback_steps": self._fallback_steps,
                "fallback_rows": sum(total.fallbacks.values()),
                "fallbacks": dict(total.fallbacks),
                "rescored_rows": total.rescored,
                "rescored_most": total.most,
                "clipped": total.clipped,
                "seconds": total.seconds,
                "scan_seconds": total.scan_seconds,
                "rescore_seconds": total.rescore_seconds,
            }


_ALL: WeakSet[Counters] = WeakSet()


def _unlock() -> None:
    """In a child that was forked: a thread that held a lock is not there to release it."""
    for counters in _ALL:
        counters._lock = threading.Lock()  # noqa: SLF001  # of this module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
