"""The modes of the head as methods to measure, through the same `Head` that serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits.config import Config, Mode
from vplug_logits.evaluation.measures import Answer
from vplug_logits.evaluation.traffic import Shape
from vplug_logits.head import Head
from vplug_logits.kernels import choose

if TYPE_CHECKING:
    from vplug_logits.kernels import Backend
    from vplug_logits.kernels.rules import Fused, Rules
    from vplug_logits.sketch import Clusters, Sketch


class Watcher:
    """A backend that lets another compute, and notes of each state what the head asked of it.

    Attributes:
        name: The other's.
        rescored: Rows of each state that were rescored, since `forget`, one tensor for each portion of a batch.
        lengths: |h'| of each state, likewise.
    """

    def __init__(self, backend: Backend) -> None:
        self.name, self._backend = backend.name, backend
        self.forget()

    def forget(self) -> None:
        """Begin a new batch."""
        self.rescored: list[torch.Tensor] = []
        self.lengths: list[torch.Tensor] = []

    def transform(self, sketch: Sketch, states: torch.Tensor) -> torch.Tensor:
        """As `Backend.transform`."""
        moved = self._backend.transform(sketch, states)
        self.lengths.append(torch.linalg.vector_norm(moved, dim=1))
        self.rescored.append(torch.zeros(len(states), dtype=torch.int64))
        return moved

    def scan(self, sketch: Sketch, transformed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `Backend.scan`."""
        return self._backend.scan(sketch, transformed)

    def scan_centroids(self, clusters: Clusters, states: torch.Tensor) -> torch.Tensor:
        """As `Backend.scan_centroids`."""
        self.rescored.append(torch.zeros(len(states), dtype=torch.int64))
        return self._backend.scan_centroids(clusters, states)

    def rescore(
        self, weight: torch.Tensor, rows: torch.Tensor, owners: torch.Tensor, states: torch.Tensor
    ) -> torch.Tensor:
        """As `Backend.rescore`."""
        self.rescored[-1] += torch.bincount(owners, minlength=len(states)).cpu()
        return self._backend.rescore(weight, rows, owners, states)

    def fused(self, weight: torch.Tensor, sketch: Sketch, rules: Rules) -> Fused | None:
        """None: what is done in one piece cannot be watched."""
        del weight, sketch, rules
        return None


class HeadMethod:
    """One mode of the head."""

    kind = "mode"

    def __init__(
        self, weight: torch.Tensor, config: Config, sketch: Sketch | None = None, clusters: Clusters | None = None
    ) -> None:
        """Make the head.

        Args:
            weight: The live weight `(V, d)`.
            config: The mode.
            sketch: For modes `exact`, `safe` and `fast`.
            clusters: For mode `clusters`.
        """
        self.name, self._shape = str(config.mode), Shape(*weight.shape)
        self._sketch, self._clusters, self._mode = sketch, clusters, config.mode
        self._watcher = Watcher(choose(weight.device, config.backend))
        self._head = Head(weight, config, sketch=sketch, clusters=clusters, backend=self._watcher)

    def answer(self, states: torch.Tensor) -> Answer:
        """What the head gives."""
        self._watcher.forget()
        before = self._head.counters.snapshot()["fallback_rows"]
        logits = self._head.logits(states)
        if self._mode is Mode.DENSE:
            return Answer(logits)
        # Which states of a block fell back is not told, only how many: each gets its share.
        share = (self._head.counters.snapshot()["fallback_rows"] - before) / len(states)
        rescored, fallback = torch.cat(self._watcher.rescored), torch.full((len(states),), share)
        if self._sketch is None:
            return Answer(logits, rescored, fallback)
        residual = self._sketch.residual[: self._sketch.vocabulary].float() * self._sketch.unit
        reach = torch.cat(self._watcher.lengths) / self._sketch.width**0.5
        return Answer(logits, rescored, fallback, reach, residual)

    def read(self, rescored: float, fallback: float) -> float:
        """Bytes of a step; numbers of each row: the scale, in `exact` and `safe` the residual too."""
        if self._clusters is not None:
            return self._shape.clusters(len(self._clusters.members), rescored, centroid_bytes=1)
        if self._sketch is None:
            return self._shape.dense
        numbers = 1 if self._mode is Mode.FAST else 2
        return self._shape.sketch(self._sketch.bits, rescored, numbers=numbers, fallback=fallback)
