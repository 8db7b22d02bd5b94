"""What is measured of each answer, against dense logits in float64 over the live weight.

All of it is of one state at a time and is kept as one number each, so that results can be grouped afterwards and no
block of logits outlives its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch

from vplug_logits.reference.dense import rounding_step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Method(Protocol):
        """Something that makes logits of states."""

        @property
        def name(self) -> str:
            """A word."""

        @property
        def kind(self) -> str:
            """`mode` or `baseline`."""

        def read(self, rescored: float, fallback: float) -> float:
            """Bytes that a step reads, given the rows that were scored exactly and the share answered densely."""

        def answer(self, states: torch.Tensor) -> Answer:
            """Its logits of a block of states `(n, d)`."""


TOP = 20  # the tokens of a state whose containment and log-probabilities are looked at
_CHUNK = 8192  # rows of the head that are widened to float64 at a time


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method says to n states.

    Attributes:
        logits: Floating `(n, V)`; `-inf` where it gives none.
        rescored: int64 `(n,)`: rows scored exactly, or None where the method has no such rows.
        fallback: bool `(n,)`: answered densely instead, or None where it never is.
        reach: float `(n,)`, with `residual` float `(V,)`: the standard deviation of the estimate of row i for state s
            is `reach[s] * residual[i]`; None where the method has no error model.
    """

    logits: torch.Tensor
    rescored: torch.Tensor | None = None
    fallback: torch.Tensor | None = None
    reach: torch.Tensor | None = None
    residual: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """The dense answer to n states.

    Attributes:
        logits: float64 `(n, V)`.
        token: int64 `(n,)`: the winner, the smallest id where logits tie.
        step: float64 `(n,)`: one rounding step of the dense dtype at the winner's logit.
        top: int64 `(n, k)`: ids of the k = min(20, V) largest.
        logprobs: float32 `(n, V)`.
    """

    logits: torch.Tensor
    token: torch.Tensor
    step: torch.Tensor
    top: torch.Tensor
    logprobs: torch.Tensor


@dataclass(frozen=True, slots=True)
class Results:
    """One number for each state; NaN where a method has nothing to say.

    Attributes:
        missed: bool: its winner is another token than dense's, and no rounding step explains it.
        tied: bool: its winner is another token, whose dense logit is within one rounding step of the dense dtype of
            the winner's.
        top_kept: Share of its 20 best tokens that are among dense's 20 best, give or take one rounding step.
        variation: Total variation of the two distributions at temperature 1.
        top_error: Largest |difference of log-probability| over dense's 20 best tokens.
        rest_error: Mean of the same over all other tokens that it gives a logit.
        rest_square: Mean over the others of (difference / standard deviation)^2.
        rest_largest: The largest |difference / standard deviation| of the others.
        rescored: Rows scored exactly.
        fallback: 1 where it was answered densely instead.
    """

    missed: torch.Tensor
    tied: torch.Tensor
    top_kept: torch.Tensor
    variation: torch.Tensor
    top_error: torch.Tensor
    rest_error: torch.Tensor
    rest_square: torch.Tensor
    rest_largest: torch.Tensor
    rescored: torch.Tensor
    fallback: torch.Tensor

    @classmethod
    def joined(cls, parts: Sequence[Results]) -> Results:
        """The results of several blocks, one after the other."""
        return cls(*(torch.cat([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    def at(self, chosen: torch.Tensor) -> Results:
        """Those of some states only.

        Args:
            chosen: bool `(N,)`.
        """
        return Results(*(getattr(self, one.name)[chosen] for one in fields(Results)))


def truth(weight: torch.Tensor, states: torch.Tensor, dtype: torch.dtype) -> Truth:
    """The dense answer in float64.

    Args:
        weight: The live weight `(V, d)`.
        states: `(n, d)`.
        dtype: Of the logits that the dense head gives; rounding steps are its.
    """
    wide = states.to(torch.float64)
    logits = torch.cat([wide @ rows.to(torch.float64).T for rows in torch.split(weight, _CHUNK)], 1)
    best = logits.amax(1)
    logprobs = torch.log_softmax((logits - best[:, None]).float(), 1)
    return Truth(
        logits,
        logits.argmax(1),
        rounding_step(best, dtype),
        logits.topk(min(TOP, logits.shape[1]), 1).indices,
        logprobs,
    )


def compare(dense: Truth, answer: Answer) -> Results:
    """Measure one answer."""
    logits, count = answer.logits, len(dense.token)
    token = logits.argmax(1)  # the first, where logits tie
    short = dense.logits.gather(1, dense.token[:, None])[:, 0] - dense.logits.gather(1, token[:, None])[:, 0]
    sound = torch.isfinite(logits.gather(1, token[:, None])[:, 0])
    differs = (token != dense.token) | ~sound
    tied = differs & sound & (short <= dense.step)
    logprobs = torch.log_softmax(logits.float(), 1)
    difference = (logprobs - dense.logprobs).abs_()
    top_error = difference.gather(1, dense.top).amax(1)
    given = torch.isfinite(difference).scatter_(1, dense.top, value=False)
    rest = difference.masked_fill_(~given, 0.0)
    others = given.sum(1).clamp_min(1)
    nothing = torch.full((count,), torch.nan)
    square, largest = nothing, nothing
    rest_error = (rest.sum(1) / others).double()
    if answer.reach is not None and answer.residual is not None:
        deviation = answer.reach.float()[:, None] * answer.residual.float()
        rest.div_(deviation.clamp_min_(torch.finfo(torch.float32).tiny))
        largest = rest.amax(1)
        square = rest.square_().sum(1) / others
    return Results(
        missed=differs & ~tied,
        tied=tied,
        top_kept=_kept(dense, logits).cpu(),
        variation=((logprobs.exp() - dense.logprobs.exp()).abs_().sum(1) / 2).cpu(),
        top_error=top_error,
        rest_error=rest_error,
        rest_square=square,
        rest_largest=largest,
        rescored=nothing if answer.rescored is None else answer.rescored.float(),
        fallback=nothing if answer.fallback is None else answer.fallback.float(),
    )


def _kept(dense: Truth, logits: torch.Tensor) -> torch.Tensor:
    values, ids = logits.topk(dense.top.shape[1], 1)
    last = dense.logits.gather(1, dense.top[:, -1:])
    return ((dense.logits.gather(1, ids) >= last - dense.step[:, None]) & torch.isfinite(values)).float().mean(1)
