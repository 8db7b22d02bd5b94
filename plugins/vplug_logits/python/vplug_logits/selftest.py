"""Does a head answer as dense does?  Asked before it is used: a start that succeeds proves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from vplug_logits.after import STEPS
from vplug_logits.config import Mode
from vplug_logits.counters import Counters

if TYPE_CHECKING:
    from vplug_logits.head import Head

RANDOM = 32
"""States that are made up where nobody says how many."""

BARS = {Mode.EXACT: 0.0, Mode.SAFE: 0.0, Mode.FAST: 0.05, Mode.CLUSTERS: 0.2, Mode.DENSE: 0.0}
"""The largest share of misses among real states: far above what the modes do (0.3 % and 2 %), far below what a sketch
of another head does."""

_DENSE_SHARE = 0.5  # of real states; a head that is answered densely more often is only a cost
_SUMS = 2.0**-17  # two float32 sums of the same products differ by less, as a share of the largest logit


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a self-test found.

    Attributes:
        passed: Whether the head may be used.
        reason: Why not, one sentence; empty if it passed.
        states: States that were compared.
        misses: Of the real ones in `fast` and `clusters`, else of all: another token won, and rounding does not
            explain it.
        tied: Another token won within rounding.
        fallbacks: Reason -> states that were answered densely.
    """

    passed: bool
    reason: str
    states: int
    misses: int
    tied: int
    fallbacks: dict[str, int]


def selftest(
    head: Head,
    kept: torch.Tensor | None = None,
    *,
    random: int = RANDOM,
    seed: int = 0,
    dtype: torch.dtype | None = None,
) -> Verdict:
    """Compare a head with its dense answer; the counters of the head do not see it.

    In `exact` and `safe` the same token must win for every state, made up or real.  In `fast` and `clusters` a share of
    the real ones may miss; made-up states, for which these modes promise nothing, only have their winner's logit
    compared.

    Args:
        head: The head.
        kept: Real states `(n, d)`, those that the calibration kept.
        random: States that are made up besides: Gaussian, as long as the real ones, or sqrt(d).
        seed: Of these.
        dtype: Of the states; None: of `kept`, else of the weight.
    """
    wanted = dtype or (head.weight.dtype if kept is None else kept.dtype)
    real = 0 if kept is None else kept.shape[0]
    states = _made_up(head, kept, random, seed)
    if kept is not None:
        states = torch.cat([kept.to(states), states])
    states = states.to(wanted)
    usual, head.counters = head.counters, Counters()
    try:
        with torch.no_grad():
            answer = head.logits(states)
            of_real = dict(head.counters.snapshot()["fallbacks"])
            if kept is not None:
                head.counters.reset()
                head.logits(states[:real])
            of_real, fallbacks = dict(head.counters.snapshot()["fallbacks"]), of_real
            dense = head.dense(states)
    finally:
        head.counters = usual
    if answer.shape != dense.shape or answer.dtype != dense.dtype:
        reason = (
            f"it gives {tuple(answer.shape)} of {answer.dtype} where dense gives {tuple(dense.shape)} of {dense.dtype}."
        )
        return Verdict(passed=False, reason=reason, states=states.shape[0], misses=0, tied=0, fallbacks=fallbacks)
    misses, tied, untrue = _compared(answer, dense)
    strict = BARS[head.config.mode] == 0
    counted = misses if strict else misses[:real]
    reason = ""
    for slug in ("error", "drift", "weight"):
        if fallbacks.get(slug):
            reason = f"{fallbacks[slug]} of {states.shape[0]} states fell back to dense with the reason {slug!r}."
    if not reason and bool(untrue.any()):
        reason = f"the winner's logit is not the dense one for {int(untrue.sum())} of {states.shape[0]} states."
    if not reason and int(counted.sum()) > BARS[head.config.mode] * counted.shape[0]:
        reason = f"another token wins for {int(counted.sum())} of {counted.shape[0]} states."
    dense_share = sum(of_real.values()) / max(1, real)
    if not reason and dense_share > _DENSE_SHARE:
        reason = f"{dense_share:.0%} of the real states were answered densely, so nothing is gained."
    return Verdict(
        passed=not reason,
        reason=reason,
        states=states.shape[0],
        misses=int(counted.sum()),
        tied=int(tied.sum()),
        fallbacks=fallbacks,
    )


def _made_up(head: Head, kept: torch.Tensor | None, many: int, seed: int) -> torch.Tensor:
    width = head.weight.shape[1]
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(many, width, generator=generator)
    if kept is not None and kept.shape[0]:
        states *= float(kept.to(torch.float32).square().mean().sqrt())
    return states.to(head.weight.device)


def _compared(answer: torch.Tensor, dense: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Misses, ties and winners with a wrong logit, bool `(n,)` each."""
    ours, theirs = answer.argmax(1), dense.argmax(1)
    wide = dense.to(torch.float64)
    largest = wide.abs().amax(1)
    room = largest * (torch.finfo(dense.dtype).eps + _SUMS)
    lower = wide.amax(1) - wide.gather(1, ours[:, None])[:, 0]
    different = ours != theirs
    won = answer.to(torch.float64).gather(1, ours[:, None])[:, 0]
    untrue = (won - wide.gather(1, ours[:, None])[:, 0]).abs() > room * STEPS
    return different & ~(lower <= room), different & (lower <= room), untrue
