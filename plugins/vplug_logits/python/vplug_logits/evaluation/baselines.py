"""What a two-stage head competes with: the dense head in fewer bits, and the published cluster rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from vplug_logits.evaluation.measures import Answer
from vplug_logits.evaluation.traffic import GROUP, Shape
from vplug_logits.reference.clusters import probed

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.sketch import Clusters

_CHUNK = 8192  # rows that are widened to float32 at a time


@dataclass(frozen=True, slots=True)
class Baseline:
    """What all baselines have in common: every step reads the same bytes.

    Attributes:
        name: A word.
        bytes: That a step reads.
    """

    name: str
    bytes: float

    @property
    def kind(self) -> str:
        """What it is compared as."""
        return "baseline"

    def read(self, rescored: float, fallback: float) -> float:
        """The same for every step."""
        del rescored, fallback
        return self.bytes


@dataclass(frozen=True, slots=True)
class Coded(Baseline):
    """A dense head over rows in fewer bits; states stay as they are unless a dtype is given.

    Attributes:
        vocabulary: V.
        rows: `(start, stop)` -> float32 `(stop - start, d)`.
        dtype: Of states and logits, which are rounded to it; None: float32.
    """

    vocabulary: int
    rows: Callable[[int, int], torch.Tensor]
    dtype: torch.dtype | None = None

    def answer(self, states: torch.Tensor) -> Answer:
        """Logits of all rows, accumulated in float32."""
        wide = (states if self.dtype is None else states.to(self.dtype)).float()
        starts = range(0, self.vocabulary, _CHUNK)
        parts = [wide @ self.rows(start, min(start + _CHUNK, self.vocabulary)).T for start in starts]
        logits = torch.cat(parts, 1)
        return Answer(logits if self.dtype is None else logits.to(self.dtype))


def dense_bfloat16(weight: torch.Tensor) -> Coded:
    """The dense head in bfloat16: weight, states and logits rounded to it, as a server in that dtype has them."""
    shape = Shape(*weight.shape)
    return Coded(
        "dense-bf16",
        shape.dense,
        shape.vocabulary,
        lambda start, stop: weight[start:stop].to(torch.bfloat16).float(),
        torch.bfloat16,
    )


def int8(weight: torch.Tensor) -> Coded:
    """Symmetric int8 codes, one scale for each row: its largest value over 127."""
    scale = _nonzero(weight.abs().amax(1).float() / 127)
    codes = _coded(weight, lambda rows, start, stop: rows / scale[start:stop, None])
    shape = Shape(*weight.shape)
    return Coded(
        "int8",
        shape.int8(),
        shape.vocabulary,
        lambda start, stop: codes[start:stop].float() * scale[start:stop, None],
    )


def int4(weight: torch.Tensor) -> Coded:
    """Symmetric int4 codes -7..7, one scale for each 32 weights of a row: their largest value over 7."""
    vocabulary, width = weight.shape
    groups = -(-width // GROUP)

    def grouped(rows: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(rows.float(), (0, groups * GROUP - width))
        return padded.view(-1, groups, GROUP)

    scale = _nonzero(torch.cat([grouped(rows).abs().amax(2) / 7 for rows in torch.split(weight, _CHUNK)]))
    codes = _coded(weight, lambda rows, start, stop: grouped(rows) / scale[start:stop, :, None])
    shape = Shape(vocabulary, width)

    def rows(start: int, stop: int) -> torch.Tensor:
        wide = codes[start:stop].float() * scale[start:stop, :, None]
        return wide.reshape(stop - start, groups * GROUP)[:, :width]

    return Coded("int4", shape.int4(), vocabulary, rows)


@dataclass(frozen=True, slots=True)
class CosineClusters(Baseline):
    """The published rule: unit centroids, all of them scored, the rows of the best clusters scored exactly, no others.

    Centroids count two bytes a coordinate.

    Attributes:
        weight: The live weight `(V, d)`.
        clusters: Clustered by cosine.
        probes: p, clusters whose rows are scored.
    """

    weight: torch.Tensor
    clusters: Clusters
    probes: int

    def answer(self, states: torch.Tensor) -> Answer:
        """Exact logits of the rows of the probed clusters, `-inf` for the others."""
        mask = probed(self.clusters, states, self.probes)
        wide = states.float()
        logits = torch.cat([wide @ rows.float().T for rows in torch.split(self.weight, _CHUNK)], 1)
        return Answer(logits.masked_fill_(~mask, -torch.inf), rescored=mask.sum(1))


def cosine_clusters(weight: torch.Tensor, clusters: Clusters, allowed: float) -> CosineClusters:
    """The cluster rule over a given clustering, probing as many clusters as fit into a number of bytes.

    Args:
        weight: `(V, d)`.
        clusters: Clustered by cosine.
        allowed: Bytes that a step may read; at least one cluster is probed.
    """
    shape, (count, size) = Shape(*weight.shape), clusters.members.shape
    fixed = shape.clusters(count, 0, centroid_bytes=2)
    probes = int((allowed - fixed) / (shape.clusters(count, size, centroid_bytes=2) - fixed))
    probes = max(1, min(count, probes))
    read = shape.clusters(count, probes * size, centroid_bytes=2)
    return CosineClusters("cosine-clusters", read, weight, clusters, probes)


def _nonzero(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale > 0, scale, torch.ones_like(scale))


def _coded(weight: torch.Tensor, scaled: Callable[[torch.Tensor, int, int], torch.Tensor]) -> torch.Tensor:
    starts = range(0, weight.shape[0], _CHUNK)
    parts = []
    for start in starts:
        stop = min(start + _CHUNK, weight.shape[0])
        parts.append(scaled(weight[start:stop], start, stop).round_().to(torch.int8))
    return torch.cat(parts)
