"""One round: a few states, their estimates, which rows were rescored so far, and which states are given up to dense."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from vplug_logits.config import Mode
from vplug_logits.estimates import SketchEstimates
from vplug_logits.kernels.rules import Rules
from vplug_logits.selection import counted, pairs, top_of

if TYPE_CHECKING:
    from vplug_logits.after import After
    from vplug_logits.config import Config
    from vplug_logits.counters import Step
    from vplug_logits.estimates import ClusterEstimates
    from vplug_logits.kernels import Backend
    from vplug_logits.peers import Peers

_UNLIKELY = 4.0  # standard deviations beyond the window where the error model is taken to be wrong
_ROOM = 1e9  # float32 sums inside the scan are never larger than this times what they come to
_USUAL = 5.0  # the window of `safe`, for modes without one


@dataclass(frozen=True, slots=True)
class Parts:
    """What all rounds of a head share.

    Attributes:
        weight: The live weight.
        config: Mode and numbers.
        dtype: Of the logits.
        estimate: What estimates.
        backend: What rescores.
        peers: Who else holds rows.
        after: What the host does to the logits.
        rows: R, the best rows that are rescored first.
        limit: Rows of a state that are rescored at most.
    """

    weight: torch.Tensor
    config: Config
    dtype: torch.dtype
    estimate: SketchEstimates | ClusterEstimates
    backend: Backend
    peers: Peers
    after: After
    rows: int
    limit: int

    def rules(self, estimate: SketchEstimates) -> Rules:
        """The same for a backend that does a whole step by itself.

        Args:
            estimate: What estimates, as a sketch does.
        """
        return Rules(
            rows=self.rows,
            limit=self.limit,
            share=self.share,
            possible=self.possible,
            of_state=estimate.of_state,
            of_transformed=estimate.of_transformed,
            cap=self.after.cap,
            dtype=self.dtype,
            estimates=self.config.outside == "estimates",
        )

    @property
    def share(self) -> float | None:
        """The width of the window as a share of the bound that always holds; None: there is no window."""
        if self.config.mode is Mode.EXACT:
            return 1.0
        return self._sigmas(self.config.z) if self.config.mode is Mode.SAFE else None

    @property
    def possible(self) -> float:
        """The share of the bound beyond which no exact logit is believed."""
        return 1.0 if self.config.mode is Mode.EXACT else self._sigmas(max(self.config.z, _USUAL) + _UNLIKELY)

    def _sigmas(self, z: float) -> float:
        return min(1.0, z / math.sqrt(max(1, self.weight.shape[1])))


class Round:
    """A few states on their way to an answer.

    Attributes:
        parts: Of the head.
        fine: bool `(n,)`: states that are still answered in two stages.
        lost: Reason -> bool `(n,)`.
        mask: bool `(n, V)`: rows that were rescored.
        owners: int64 `(m,)`: the state of each rescored row.
        ids: int64 `(m,)`.
        exact: `(m,)` in the dtype of the logits.
    """

    def __init__(self, parts: Parts, states: torch.Tensor, step: Step) -> None:
        """Estimate; states with NaN or infinity are lost at once.

        Args:
            parts: Of the head.
            states: `(n, d)`.
            step: To count in.
        """
        self.parts, self._step = parts, step
        self.lost: dict[str, torch.Tensor] = {}
        wide = states.detach().to(torch.float32)
        finite = torch.isfinite(wide).all(1)
        self.fine = torch.ones_like(finite)
        self.lose("states", ~finite)
        self._states = torch.where(finite[:, None], wide, 0.0).contiguous()
        self.estimates = parts.estimate(self._states)
        self.lose("overflow", ~torch.isfinite(self.estimates.length * _ROOM + self.estimates.slack * _ROOM))
        self.mask = torch.zeros_like(self.estimates.values, dtype=torch.bool)
        self._count = torch.zeros_like(finite, dtype=torch.int64)
        self.owners = self.ids = self._count.new_empty(0)
        self.exact = states.new_empty(0, dtype=parts.dtype)

    def lose(self, reason: str, states: torch.Tensor) -> None:
        """Give states up to dense.

        Args:
            reason: A slug of `counters.REASONS`.
            states: bool `(n,)`, wherever any peer says so.
        """
        lost = self.parts.peers.most(states) & self.fine
        self.lost[reason] = self.lost[reason] | lost if reason in self.lost else lost
        self.fine = self.fine & ~lost

    def take(self, mask: torch.Tensor) -> None:
        """Rescore more rows; a state that wants more than the limit is lost.

        Args:
            mask: bool `(n, V)`; those that were rescored already do no harm.
        """
        parts = self.parts
        more = mask & ~self.mask
        wanted = self._count + parts.peers.total(more.sum(1))
        self.lose("window", wanted > parts.limit)
        more &= self.fine[:, None]
        begun = time.perf_counter()
        owners, ids = pairs(more)
        exact = parts.backend.rescore(parts.weight, ids, owners, self._states)
        self._step.rescore_seconds += time.perf_counter() - begun
        self._count = torch.where(self.fine, wanted, self._count)
        self.mask |= more
        if isinstance(parts.estimate, SketchEstimates):
            wrong = parts.estimate.beyond(self.estimates, parts.possible, owners, ids, exact)
            self.lose("drift", wrong.any().expand_as(self.fine))  # other rows changed, too, and are not known
        self.owners, self.ids = torch.cat([self.owners, owners]), torch.cat([self.ids, ids])
        self.exact = torch.cat([self.exact, exact.to(parts.dtype)])

    def best(self, values: torch.Tensor) -> torch.Tensor:
        """The best of the rescored rows, over all peers; a state without a finite one is lost.

        Args:
            values: `(m,)`, of each of them.

        Returns:
            `(n,)`.
        """
        top = self.parts.peers.most(top_of(values, self.owners, self.fine.shape[0]))
        self.lose("overflow", ~torch.isfinite(top))
        return top

    def close(self) -> torch.Tensor:
        """Count what happened.

        Returns:
            Indices of the states that are answered densely, int64, ascending.
        """
        for reason, states in self.lost.items():
            self._step.fell_back(reason, int(states.sum()))
        here = counted(self.owners, self.fine.shape[0])[self.fine]
        if here.shape[0]:
            self._step.rescored += int(here.sum())
            self._step.most = max(self._step.most, int(here.amax()))
        return torch.nonzero(~self.fine)[:, 0]
