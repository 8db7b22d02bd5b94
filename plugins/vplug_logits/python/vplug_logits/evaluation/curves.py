"""Misses against bytes: what other numbers of rescored rows or probed clusters would have missed.

A rule that scores its best R candidates exactly finds dense's winner if and only if the winner is among them, so one
pass that notes the winner's rank gives the misses at every R.  Near-ties are not told apart here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vplug_logits.evaluation.traffic import Shape
from vplug_logits.reference.clusters import owner, scores

if TYPE_CHECKING:
    from typing import Protocol

    import torch

    from vplug_logits.kernels import Backend
    from vplug_logits.sketch import Clusters, Sketch

    class Curve(Protocol):
        """A rule with one number to choose."""

        @property
        def name(self) -> str:
            """A word."""

        def ranks(self, states: torch.Tensor, winners: torch.Tensor) -> torch.Tensor:
            """How many candidates come before the one that holds the winner, int64 `(n,)`."""

        def points(self) -> list[tuple[int, float]]:
            """Numbers to choose, and the bytes that a step then reads."""


ROWS = (16, 32, 64, 128, 256, 512, 1024, 2048)
SHARES = (64, 32, 16, 32 / 3, 8, 4)  # probed: one cluster in so many


@dataclass(frozen=True, slots=True)
class SketchCurve:
    """The best R rows of a sketch."""

    sketch: Sketch
    backend: Backend

    @property
    def name(self) -> str:
        """Such as `2 bit`."""
        return f"{self.sketch.bits} bit"

    def ranks(self, states: torch.Tensor, winners: torch.Tensor) -> torch.Tensor:
        """Rows with a larger estimate than the winner's."""
        estimates, _ = self.backend.scan(self.sketch, self.backend.transform(self.sketch, states.float()))
        return (estimates > estimates.gather(1, winners[:, None])).sum(1)

    def points(self) -> list[tuple[int, float]]:
        """For each R."""
        shape = Shape(self.sketch.vocabulary, self.sketch.width)
        fits = [rows for rows in ROWS if rows < shape.vocabulary]
        return [(rows, shape.sketch(self.sketch.bits, rows, numbers=1)) for rows in fits]


@dataclass(frozen=True, slots=True)
class ClusterCurve:
    """The rows of the best p clusters."""

    name: str
    clusters: Clusters

    def ranks(self, states: torch.Tensor, winners: torch.Tensor) -> torch.Tensor:
        """Clusters with a larger score than the winner's."""
        found = scores(self.clusters, states)
        own = owner(self.clusters)[winners]
        return (found > found.gather(1, own[:, None])).sum(1)

    def points(self) -> list[tuple[int, float]]:
        """For each p."""
        count, size = self.clusters.members.shape
        shape = Shape(int((self.clusters.members >= 0).sum()), self.clusters.centroids.shape[1])
        each = self.clusters.centroids.element_size()
        probes = sorted({max(1, int(count / share)) for share in SHARES})
        return [(p, shape.clusters(count, p * size, centroid_bytes=each)) for p in probes]


def misses(curve: Curve, ranks: torch.Tensor) -> list[dict[str, float]]:
    """The points of a curve.

    Args:
        curve: The rule.
        ranks: Of all states.

    Returns:
        For each number: `chosen`, `bytes`, and `misses`, a share of the states.
    """
    return [
        {"chosen": chosen, "bytes": read, "misses": float((ranks >= chosen).double().mean())}
        for chosen, read in curve.points()
    ]
