"""Correct before fast: the winners of a candidate beside those of the live weight in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from vplug_logits.reference.dense import rounding_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_logits.benchmark.beds import Bed
    from vplug_logits.benchmark.candidates import Candidate

_CHUNK = 8192  # rows that are widened to float64 at a time
_LEAST = 16  # states that each batch size is checked on, if there are as many


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a candidate got right.

    Attributes:
        checked: States, each once for each batch size.
        misses: Another winner than dense's, and no rounding step of the logits explains it.
        dense: Rows that the head answered densely instead.
        fault: Why it is not timed, in one sentence, or empty.
    """

    checked: int
    misses: int
    dense: int = 0
    fault: str = ""


class Gate:
    """Knows the truth of a bed's states."""

    def __init__(self, bed: Bed, batches: Sequence[int]) -> None:
        """Multiply all states with all rows in float64, once.

        Args:
            bed: The head and its states.
            batches: Sizes that are asked for.
        """
        wide = bed.states.double()
        logits = torch.cat([wide @ rows.double().T for rows in torch.split(bed.weight, _CHUNK)], 1)
        self._best, self._token = logits.max(1)
        self._logits, self._states, self._batches = logits, bed.states, batches

    def judge(self, candidate: Candidate) -> Verdict:
        """Ask a candidate in each batch size; where it raises, that is its fault."""
        checked = misses = 0
        before = 0 if candidate.head is None else candidate.head.counters.snapshot()["fallback_rows"]
        for batch in self._batches:
            for start in range(0, min(len(self._states), max(batch, _LEAST)), batch):
                rows = slice(start, min(start + batch, len(self._states)))
                try:
                    answer = candidate.answer(self._states[rows].to(candidate.dtype))
                except Exception as error:  # noqa: BLE001  # of torch or of a kernel: it is told, and not timed
                    return Verdict(checked, misses, fault=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
                checked += rows.stop - rows.start
                misses += self._missed(answer, rows)
        if candidate.head is None:
            return self._verdict(candidate, checked, misses, 0)
        if candidate.head.error is not None:
            return Verdict(checked, misses, fault=f"{candidate.head.error!r}, and dense answered")
        after = candidate.head.counters.snapshot()["fallback_rows"]
        return self._verdict(candidate, checked, misses, after - before)

    def _missed(self, logits: torch.Tensor, rows: slice) -> int:
        token, best = self._token[rows], self._best[rows]
        if tuple(logits.shape) != (len(token), self._logits.shape[1]):
            return len(token)
        found = logits.argmax(1)
        chosen = logits.gather(1, found[:, None])[:, 0]
        short = best - self._logits[rows].gather(1, found[:, None])[:, 0]
        tied = short <= rounding_step(best, logits.dtype)
        return int((((found != token) & ~tied) | ~torch.isfinite(chosen)).sum())

    @staticmethod
    def _verdict(candidate: Candidate, checked: int, misses: int, dense: int) -> Verdict:
        if misses > candidate.allowed * checked:
            return Verdict(checked, misses, dense, f"{misses} of {checked} winners are not dense's")
        return Verdict(checked, misses, dense)
