"""Estimates of all logits of a state, and how far each may be from the truth.

With `l_i` the true logit, `e_i` the estimate (see `sketch`), h' the transformed state and r_i the residual of row i:

    |l_i - e_i| <= |h'| r_i + slack                     always (Cauchy-Schwarz)
    (l_i - e_i) / (|h'| r_i / sqrt(d))  ~  N(0, 1)      over random rotations

A backend that scans with a rounded h' adds |h' - rounded| |q_i| to the first, at most `coarse`.

`slack` is what float32 loses in sums of d products, here and in the dense head: four standard deviations of a walk of
d roundings, 4 sqrt(d) 2^-24 of |a| |b| for a dot product of a and b; and what it loses of numbers near its smallest
one, of which a scan rounds the factor of a row (by 2^-150 times 65,504 for the scale and up to 255 * 16,256 d for the
integers), or all of h' (below 4.8e-35): no more than d 2^-111 (1 + 2 |q|).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.errors import BadInputError
from vplug_logits.sketch import BLOCK, LANE, longest_code, padded_rows, padded_width

if TYPE_CHECKING:
    from vplug_logits.kernels import Backend
    from vplug_logits.sketch import Clusters, Sketch

_UNIT = 2.0**-24  # rounding unit of float32
_SMALLEST = 2.0**-111  # see above
_PRODUCTS = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7, "tf32": 2.0**-10, "bf16": 2.0**-7}
"""What torch may lose in each product of two float32, as a share, by its words for it, the older ones first."""
_BLOCK = 1 << 22  # numbers of the weight that are looked at at once


@dataclass(frozen=True, slots=True)
class Estimates:
    """Of a few states.

    Attributes:
        values: float32 `(n, V)`: e.
        length: float32 `(n,)`: |h'|; zero where nothing is known of the errors.
        slack: float32 `(n,)`; infinite where the estimates are not finite.
        coarse: float32 `(n,)`: what the rounding of h' adds to the bound that always holds, for any row.
        chosen: bool `(n, V)`, rows that are rescored whatever they are estimated at, or None.
    """

    values: torch.Tensor
    length: torch.Tensor
    slack: torch.Tensor
    coarse: torch.Tensor
    chosen: torch.Tensor | None = None


class SketchEstimates:
    """Estimates by the scan of a sketch.

    Attributes:
        vocabulary: V, the rows that are estimated.
        of_state: What float32 may lose grows with this times |h|.
        of_transformed: ... and with this times |h'|: twice the length of the longest code.
    """

    def __init__(self, weight: torch.Tensor, sketch: Sketch, backend: Backend) -> None:
        """Look at each row of the weight once, for its length.

        Args:
            weight: The live weight, `(rows, d)`, rows >= V.
            sketch: Of its first V rows.
            backend: What scans.

        Raises:
            BadInputError: The sketch does not fit the weight; NaN or infinity in the weight.
        """
        _fits(weight, sketch)
        self.vocabulary = sketch.vocabulary
        self._sketch, self._backend = sketch, backend
        reach = _longest(weight[: sketch.vocabulary]) + float(torch.linalg.vector_norm(sketch.mean))
        self._device = weight.device.type
        self._lost = 4.0 * math.sqrt(sketch.width) * _UNIT
        self.of_state, self.of_transformed = 2.0 * reach, 2.0 * longest_code(sketch)
        self._smallest = _SMALLEST * sketch.width * (1.0 + self.of_transformed)

    def __call__(self, states: torch.Tensor) -> Estimates:
        """The estimates of some states.

        Args:
            states: float32 `(n, d)`, finite.
        """
        sketch = self._sketch
        transformed = self._backend.transform(sketch, states)
        values, rounded = self._backend.scan(sketch, transformed)
        values += torch.mv(states, sketch.mean)[:, None]
        length = _lengths(transformed)
        reach = self.of_state * _lengths(states) + self.of_transformed * length
        slack = self.lost() * reach + self._smallest
        return Estimates(values, length, slack, rounded * (self.of_transformed / 2))

    def lost(self) -> float:
        """What float32 may lose in a sum of d products, as a share of |a| |b|; settings change between two steps."""
        return self._lost + _lost_in_products(self._device)

    def upper(self, estimates: Estimates, share: float) -> torch.Tensor:
        """e_i + share (|h'| r_i + coarse) + slack.

        Args:
            estimates: Of some states.
            share: 1 for the bound that always holds, z / sqrt(d) for z standard deviations.

        Returns:
            float32 `(n, V)`.
        """
        residual = self._sketch.residual[: self.vocabulary].to(torch.float32)
        factor = estimates.length * (share * self._sketch.unit)
        slack = estimates.slack + share * estimates.coarse
        return torch.addcmul(estimates.values, factor[:, None], residual[None]).add_(slack[:, None])

    def beyond(
        self, estimates: Estimates, share: float, owners: torch.Tensor, ids: torch.Tensor, exact: torch.Tensor
    ) -> torch.Tensor:
        """Which exact logits are further from their estimates than they may be.

        Args:
            estimates: Of some states.
            share: As for `upper`.
            owners: int64 `(m,)`, indices of states.
            ids: int64 `(m,)`, indices of rows.
            exact: float32 `(m,)`.

        Returns:
            bool `(m,)`.
        """
        residual = self._sketch.residual[ids].to(torch.float32)
        slack = estimates.slack + share * estimates.coarse
        allowed = estimates.length[owners] * (share * self._sketch.unit) * residual + slack[owners]
        return (exact - estimates.values[owners, ids]).abs() > allowed


class ClusterEstimates:
    """Estimates by the centroids of clusters: each row is estimated at its centroid.

    Attributes:
        vocabulary: V, the rows of this shard that are in a cluster.
    """

    def __init__(self, weight: torch.Tensor, clusters: Clusters, backend: Backend, probes: int, start: int) -> None:
        """Turn the members around: the cluster of each row.

        Args:
            weight: The live weight, `(rows, d)`.
            clusters: Of the whole vocabulary.
            backend: What scans.
            probes: Clusters whose rows are rescored.
            start: The id of row 0 of the weight.

        Raises:
            BadInputError: The clusters do not fit the weight, or an id stands twice or is missing.
        """
        whole = int((clusters.members >= 0).sum())
        self.vocabulary = max(0, min(weight.shape[0], whole - start))
        if clusters.centroids.shape[1] != weight.shape[1] or clusters.members.device != weight.device:
            raise BadInputError(
                f"clusters of width {clusters.centroids.shape[1]} on {clusters.members.device} do not fit a head of "
                f"width {weight.shape[1]} on {weight.device}; build them of this head."
            )
        members = clusters.members.reshape(-1).to(torch.int64)
        valid = members >= 0
        number = torch.arange(members.shape[0], device=members.device, dtype=torch.int64) // clusters.size
        cluster_of = number.new_full((whole,), -1)
        inside = members[valid & (members < whole)]
        cluster_of[inside] = number[valid & (members < whole)]
        if bool((cluster_of < 0).any()):
            raise BadInputError("an id stands in two clusters or in none; build the clusters again.")
        self._cluster_of = cluster_of[start : start + self.vocabulary].to(torch.int32)
        self._clusters, self._backend, self._probes = clusters, backend, probes

    def __call__(self, states: torch.Tensor) -> Estimates:
        """The estimates of some states.

        Args:
            states: float32 `(n, d)`, finite.
        """
        scores = self._backend.scan_centroids(self._clusters, states)
        probed = torch.zeros_like(scores, dtype=torch.bool)
        probed.scatter_(1, torch.topk(scores, self._probes, dim=1, sorted=False).indices, True)
        nothing = scores.new_zeros(states.shape[0])
        slack = torch.where(torch.isfinite(scores).all(1), 0.0, torch.inf)
        return Estimates(scores[:, self._cluster_of], nothing, slack, nothing, chosen=probed[:, self._cluster_of])


_precision_of: Any = getattr(torch._C, "_get_fp32_precision_getter", None)  # noqa: SLF001  # asked at every step


def _lost_in_products(device: str) -> float:
    """What torch may lose in a product now, as a share; settings may change between two steps."""
    if _precision_of is None:  # before torch 2.9
        return _PRODUCTS[torch.get_float32_matmul_precision()]
    # The older setting writes these too, and reading it back raises where a host uses the newer one.
    word: str = _precision_of("cuda" if device == "cuda" else "mkldnn", "matmul")
    return _PRODUCTS.get(word, 0.0)


def _fits(weight: torch.Tensor, sketch: Sketch) -> None:
    if sketch.width != weight.shape[1] or sketch.vocabulary > weight.shape[0] or sketch.codes.device != weight.device:
        raise BadInputError(
            f"a sketch of {sketch.vocabulary} x {sketch.width} on {sketch.codes.device} does not fit a head of "
            f"{weight.shape[0]} x {weight.shape[1]} on {weight.device}; build one of this head."
        )
    rows, lanes = padded_rows(sketch.vocabulary), padded_width(sketch.width, sketch.bits) * sketch.bits // (8 * LANE)
    found = [tuple(part.shape) for part in (sketch.codes, sketch.scale, sketch.residual, sketch.transform, sketch.mean)]
    if found != [(rows // BLOCK, lanes, BLOCK, LANE), (rows,), (rows,), (sketch.width,) * 2, (sketch.width,)]:
        raise BadInputError(
            f"parts of the shapes {found} are no sketch of {sketch.vocabulary} x {sketch.width} in {sketch.bits} bits; "
            "build it again."
        )


def _lengths(states: torch.Tensor) -> torch.Tensor:
    """Summed in float64: in float32 the square of a number below 1e-23 is 0, and so would all bounds be."""
    lengths: torch.Tensor = torch.linalg.vector_norm(states, dim=1, dtype=torch.float64)
    return lengths.to(torch.float32)


def _longest(weight: torch.Tensor) -> float:
    """The length of the longest row."""
    longest = 0.0
    if not weight.numel():
        return longest
    for block in torch.split(weight.detach(), max(1, _BLOCK // max(1, weight.shape[1]))):
        length = float(torch.linalg.vector_norm(block, dim=1, dtype=torch.float32).amax())
        if not length < torch.inf:
            raise BadInputError("the weight of the head holds NaN, infinity or rows too long for float32.")
        longest = max(longest, length)
    return longest
