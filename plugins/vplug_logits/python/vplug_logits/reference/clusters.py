"""The cluster head: score all centroids, probe the best clusters, score their rows exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits.reference import dense
from vplug_logits.reference.window import best

if TYPE_CHECKING:
    from vplug_logits.sketch import Clusters


def scores(clusters: Clusters, states: torch.Tensor) -> torch.Tensor:
    """Stage 1: centroid . h of each cluster.

    Args:
        clusters: Of a head `(V, d)`.
        states: h `(B, d)`.

    Returns:
        float64 `(B, K)`.
    """
    centroids = clusters.centroids.to(torch.float64) * clusters.scale.to(torch.float64)[:, None]
    return states.to(torch.float64) @ centroids.T


def owner(clusters: Clusters) -> torch.Tensor:
    """The cluster of each row, int64 `(V,)`.

    Args:
        clusters: Of a head `(V, d)`.
    """
    number = torch.arange(clusters.members.shape[0])[:, None].expand_as(clusters.members)
    real = clusters.members >= 0
    owners = torch.empty(int(real.sum()), dtype=torch.int64)
    owners[clusters.members[real].long()] = number[real]
    return owners


def probed(clusters: Clusters, states: torch.Tensor, probes: int) -> torch.Tensor:
    """Stage 2: the rows of the best clusters.

    Args:
        clusters: Of a head `(V, d)`.
        states: h `(B, d)`.
        probes: p, how many clusters.

    Returns:
        bool `(B, V)`.
    """
    return best(scores(clusters, states), probes)[:, owner(clusters)]


def logits(clusters: Clusters, weight: torch.Tensor, states: torch.Tensor, probes: int) -> torch.Tensor:
    """Exact logits of the rows of the probed clusters; the score of its centroid for every other row.

    Args:
        clusters: Of the head.
        weight: W `(V, d)`.
        states: h `(B, d)`.
        probes: p, how many clusters.

    Returns:
        float64 `(B, V)`.
    """
    outside = scores(clusters, states)[:, owner(clusters)]
    return torch.where(probed(clusters, states, probes), dense.logits(weight, states), outside)
