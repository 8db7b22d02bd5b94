"""What a mode asks of a step, as plain numbers: for kernels that do a whole step by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import torch

OUTCOMES = (None, "states", "overflow", "window", "drift")
"""How a state was answered, by number; the words are those of `counters.REASONS`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """One mode of one head.

    Attributes:
        rows: R, the best rows that are rescored first.
        limit: Rows of a state that are rescored at most.
        share: The width of the window as a share of the bound that always holds; None: there is no window.
        possible: The share of that bound beyond which no exact logit is believed.
        of_state: What float32 may lose grows with this times |h|.
        of_transformed: ... and with this times |h'|; twice the length of the longest code.
        cap: The host's soft cap, or None.
        dtype: Of the logits.
        estimates: Whether rows that are not rescored have their estimate, or -inf.
    """

    rows: int
    limit: int
    share: float | None
    possible: float
    of_state: float
    of_transformed: float
    cap: float | None
    dtype: torch.dtype
    estimates: bool


class Report(NamedTuple):
    """What a fused step did.

    Attributes:
        outcomes: One number for each state, an index into `OUTCOMES`; logits are written where it is 0.
        rescored: Rows that were rescored, over all states that were answered.
        most: The largest number of them for one state.
        clipped: Estimates that were lowered since they reached the winner.
        rescore_seconds: Exact logits of selected rows; 0 where nobody measures.
        seconds: The whole step.
    """

    outcomes: bytes
    rescored: int
    most: int
    clipped: int
    rescore_seconds: float
    seconds: float


class Fused(Protocol):
    """A whole step of one head: what `rounds` and `greedy` do, by the same rules."""

    def step(self, states: torch.Tensor, out: torch.Tensor, lost: float) -> Report:
        """Write the logits of states.

        Args:
            states: `(n, d)`, float32, bfloat16 or float16, any strides; may hold NaN and infinity.
            out: `(n, columns)` in the dtype of the logits, columns >= V, contiguous; the first V are written.
            lost: The share of |a| |b| by which sums of products may be wrong, here and in the dense head.

        Raises:
            Exception: Something does not fit, such as a weight that is not where it was; nothing is answered.
        """
        ...
