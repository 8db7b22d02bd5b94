"""Balanced clusters of the rows of a head: k-means with exact capacities.

Start: the rows are halved along their strongest direction until 16 are left.  Then Lloyd steps in which the assignment
respects capacities: each row proposes to its nearest centroids in turn, and a centroid keeps the 16 rows that would
lose most by going on, the difference to the squared distance of their last candidate.  Taking the closest rows instead
leaves over those that are like no others, and these are the frequent tokens: on SmolLM2 one of them, the single space,
then made a third of all misses.

Two rules:

* "weighted": rows are centred and clustered in the metric of the queries, x = (w - mean) S^(1/2) with S = E[h h^T],
  so that |x - c| says how much a logit differs from its centroid's; stage 1 scores the mean of the raw rows, in int8;
* "cosine": the published scheme and the baseline: directions of the raw rows are clustered by cosine, and stage 1
  scores centroids of length 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import torch

from vplug_logits.errors import BadInputError
from vplug_logits.sketch import Clusters

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 16
Kind: TypeAlias = Literal["weighted", "cosine"]

_CANDIDATES = 24  # centroids that a row proposes to before it waits for what is left
_SCRATCH = 1 << 24  # numbers of a block of distances: 64 MB
_POWER_STEPS = 6  # of the power iteration that finds the direction to halve along


def balanced_clusters(  # noqa: PLR0913  # each is a choice of its own
    rows: torch.Tensor,
    size: int = SIZE,
    *,
    kind: Kind = "weighted",
    weights: torch.Tensor | None = None,
    seed: int = 0,
    iterations: int = 10,
    progress: Callable[[int, int], None] | None = None,
) -> Clusters:
    """Cluster the rows of a head, `size` in each cluster.

    Beside a float32 copy of the rows, memory is bounded: 64 MB for distances and 24 candidates for each row.

    Args:
        rows: W `(V, d)`, any floating dtype.
        size: Rows of each cluster.
        kind: "weighted" or "cosine", see above.
        weights: A square root of S, `(d, d)`, for "weighted"; None: the identity (centred Euclidean k-means).
        seed: Of the start of the power iterations.
        iterations: Lloyd steps; the best clustering of all steps is kept.
        progress: Called with (steps done, steps in all).

    Returns:
        K = ceil(V / size) clusters; where V is no multiple, -1 stands at the end of the last one.  Centroids are int8
        for "weighted" and bfloat16 for "cosine".

    Raises:
        BadInputError: A row holds NaN or infinity, or there are no rows.
    """
    if rows.shape[0] == 0:
        raise BadInputError("clusters of no rows were asked for.")
    points = _points(rows, kind, weights)
    capacity = torch.full((-(-rows.shape[0] // size),), size)
    capacity[-1] = rows.shape[0] - size * (len(capacity) - 1)
    owners = _bisected(points, capacity, torch.Generator().manual_seed(seed))
    best, loss = owners, _loss(points, owners, len(capacity), kind)
    if progress is not None:
        progress(1, iterations + 1)
    for step in range(iterations):
        centroids = _centroids(points, owners, len(capacity), kind)
        owners = _assigned(points, centroids, capacity)
        reached = _loss(points, owners, len(capacity), kind)
        if progress is not None:
            progress(step + 2, iterations + 1)
        if reached < loss:
            best, loss = owners, reached
    return _finished(rows, best, capacity, size, kind)


def _points(rows: torch.Tensor, kind: Kind, weights: torch.Tensor | None) -> torch.Tensor:
    """What is clustered, float32 `(V, d)`."""
    points = rows.detach().to(torch.float32, copy=True)
    if not bool(torch.isfinite(points).all()):
        raise BadInputError("a row of the head holds NaN or infinity.")
    if kind == "cosine":
        return points.div_(torch.linalg.vector_norm(points, dim=1, keepdim=True).clamp_min_(1e-30))
    points -= points.mean(0, dtype=torch.float64).to(torch.float32)
    if weights is not None:
        narrow = weights.to(torch.float32)
        for part in torch.split(points, 4096):
            part.copy_(part @ narrow)
    return points


def _bisected(points: torch.Tensor, capacity: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The first owners, int64 `(V,)`: halved along the strongest direction until one cluster is left."""
    owners = torch.empty(points.shape[0], dtype=torch.int64)
    ends = torch.nn.functional.pad(capacity.cumsum(0), (1, 0))
    waiting = [(torch.arange(points.shape[0]), 0, len(capacity))]
    while waiting:
        ids, first, last = waiting.pop()
        if last - first == 1:
            owners[ids] = first
            continue
        middle = (first + last) // 2
        part = points[ids]
        centred = part - part.mean(0)
        direction = torch.randn(points.shape[1], generator=generator)
        for _ in range(_POWER_STEPS):
            direction = centred.T @ (centred @ direction)
            direction /= torch.linalg.vector_norm(direction).clamp_min_(1e-30)
        order = ids[torch.sort(centred @ direction, stable=True).indices]
        split = int(ends[middle] - ends[first])
        waiting.append((order[split:], middle, last))
        waiting.append((order[:split], first, middle))
    return owners


def _centroids(points: torch.Tensor, owners: torch.Tensor, count: int, kind: Kind) -> torch.Tensor:
    sums = points.new_zeros(count, points.shape[1]).index_add_(0, owners, points)
    if kind == "cosine":
        return sums.div_(torch.linalg.vector_norm(sums, dim=1, keepdim=True).clamp_min_(1e-30))
    return sums.div_(torch.bincount(owners, minlength=count)[:, None])


def _loss(points: torch.Tensor, owners: torch.Tensor, count: int, kind: Kind) -> float:
    """The sum of squared distances to the centroids."""
    centroids = _centroids(points, owners, count, kind)
    parts = zip(torch.split(points, 4096), torch.split(owners, 4096), strict=True)
    return sum(float((part - centroids[mine]).square().sum(dtype=torch.float64)) for part, mine in parts)


def _assigned(points: torch.Tensor, centroids: torch.Tensor, capacity: torch.Tensor) -> torch.Tensor:
    """The owners of a stable matching within capacities, int64 `(V,)`."""
    owners = torch.full((points.shape[0],), -1, dtype=torch.int64)
    room = capacity.clone()
    while True:
        left = (owners < 0).nonzero().flatten()
        if len(left) == 0:
            return owners
        # At least one row gets a place: some centroid has room, and whoever proposes to it first is kept.
        open_ones = (room > 0).nonzero().flatten()
        distances, near = _nearest(points[left], centroids[open_ones])
        owners[left] = _matched(distances - distances[:, -1:], open_ones[near], room)
        placed = owners[left][owners[left] >= 0]
        room -= torch.bincount(placed, minlength=len(room))


def _nearest(points: torch.Tensor, centroids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The nearest centroids of each point, nearest first: squared distances and numbers, `(n, c)`."""
    count = min(_CANDIDATES, len(centroids))
    lengths = centroids.square().sum(1)
    distances, numbers = [], []
    for part in torch.split(points, max(1, _SCRATCH // len(centroids))):
        squared = torch.addmm(lengths, part, centroids.T, alpha=-2)
        found = torch.topk(squared, count, dim=1, largest=False)
        distances.append(found.values + part.square().sum(1, keepdim=True))
        numbers.append(found.indices)
    return torch.cat(distances), torch.cat(numbers)


def _matched(claims: torch.Tensor, near: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    """Rows propose to their nearest, which keeps the smallest claims it has room for: owners, -1 where all were full.

    The matching is stable: no row has to see a larger claim than its own at a centroid that it would rather have.
    """
    rows, candidates = near.shape
    tried = torch.zeros(rows, dtype=torch.int64)  # the candidate that a row is at
    while True:
        asking = (tried < candidates).nonzero().flatten()
        place = tried[asking]
        cluster, claim = near[asking, place], claims[asking, place]
        # By cluster, and in each by claim: those beyond its room are turned away and ask the next.
        order = torch.sort(claim, stable=True).indices
        order = order[torch.sort(cluster[order], stable=True).indices]
        sorted_cluster = cluster[order]
        starts = torch.searchsorted(sorted_cluster, sorted_cluster)
        rank = torch.arange(len(order)) - starts
        refused = asking[order[rank >= room[sorted_cluster]]]
        if len(refused) == 0:
            owners = torch.full((rows,), -1, dtype=torch.int64)
            owners[asking] = cluster
            return owners
        tried[refused] += 1


def _finished(rows: torch.Tensor, owners: torch.Tensor, capacity: torch.Tensor, size: int, kind: Kind) -> Clusters:
    """Members in order of their ids, and the centroids that stage 1 scores."""
    count = len(capacity)
    members = torch.full((count * size,), -1, dtype=torch.int32)
    members[: len(owners)] = torch.sort(owners, stable=True).indices.to(torch.int32)
    means = torch.zeros(count, rows.shape[1])
    for ids in torch.split(torch.arange(len(owners)), 4096):
        means.index_add_(0, owners[ids], rows[ids].detach().to(torch.float32))
    means /= capacity[:, None]
    if kind == "cosine":
        unit = means / torch.linalg.vector_norm(means, dim=1, keepdim=True).clamp_min(1e-30)
        return Clusters(size, members.view(count, size), unit.to(torch.bfloat16), torch.ones(count))
    scale = means.abs().amax(1) / 127
    codes = (means / torch.where(scale > 0, scale, 1.0)[:, None]).round_().to(torch.int8)
    return Clusters(size, members.view(count, size), codes, scale)
