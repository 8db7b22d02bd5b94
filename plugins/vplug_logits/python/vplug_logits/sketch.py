"""The sketch of a head as data: what is built once, kept in an artefact and scanned at each step.

Notation, here and everywhere: V vocabulary (rows of the head), d width of a hidden state, b bits of a code,
K = 2^b - 1.

    logit        l_i = w_i . h
    centred      l_i = (w_i - mean) . h + mean . h
    transformed  h' = h T,  w'_i = (w_i - mean) T^-T            so that  (w_i - mean) . h = w'_i . h'
    coded        q_i = step_i (2 c_i - K) / 2,  c_i in 0..K     the levels are uniform
    estimate     e_i = scale_i ((2 c_i - K) / 2) . h' + mean . h
    sigma_i      |h'| residual_i / sqrt(d)                      residual_i >= |scale_i (2 c_i - K)/2 - w'_i|

`T` is the balanced metric times a random rotation (`metric`), as rounded to bfloat16: rows are solved against the
rounded one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

BLOCK = 64  # rows of the vocabulary that lie side by side in `codes`
LANE = 4  # bytes of one row that lie together in `codes`


def padded_width(width: int, bits: int) -> int:
    """The number of coordinates that are coded: `width`, rounded up so that a row fills whole lanes of bytes."""
    per_lane = LANE * (8 // bits)
    return -(-width // per_lane) * per_lane


def padded_rows(vocabulary: int) -> int:
    """The number of rows that are coded: `vocabulary`, rounded up to whole blocks."""
    return -(-vocabulary // BLOCK) * BLOCK


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)  # backends keep what they made of one
class Sketch:
    """A low-bit code of each row of a head.

    Attributes:
        bits: b, one of 1, 2, 4, 8.
        vocabulary: V.
        width: d.
        codes: uint8, `(padded_rows / 64, bytes / 4, 64, 4)` with bytes = padded_width b / 8; see `layout`.
        scale: float16 `(padded_rows,)`, in multiples of `unit`; zero for rows that are only padding.
        residual: float16 `(padded_rows,)`, in multiples of `unit`, rounded up: never less than the true norm.
        norm: float16 `(padded_rows,)`, in multiples of `unit`, rounded up: |q_i|, for the rigorous bound; only at 8
            bits, else None.
        unit: What `scale`, `residual` and `norm` are multiples of; a power of two.
        transform: bfloat16 `(d, d)`: T.
        mean: float32 `(d,)`: the mean row.
    """

    bits: int
    vocabulary: int
    width: int
    codes: torch.Tensor
    scale: torch.Tensor
    residual: torch.Tensor
    norm: torch.Tensor | None
    unit: float
    transform: torch.Tensor
    mean: torch.Tensor


@dataclass(frozen=True, slots=True)
class Clusters:
    """A balanced clustering of the rows of a head.

    Attributes:
        size: Rows of one cluster, 16; the last ones may hold -1 where V is no multiple.
        members: int32 `(K, size)`: ids of the rows; each id of 0..V-1 stands exactly once.
        centroids: int8 `(K, d)`: the mean of the raw rows of each cluster, quantised by row.  In the cosine baseline,
            which no artefact holds, bfloat16: its direction.
        scale: float32 `(K,)`: centroid = scale * int8.
    """

    size: int
    members: torch.Tensor
    centroids: torch.Tensor
    scale: torch.Tensor


def longest_code(sketch: Sketch) -> float:
    """A bound of |q_i|, over all rows.

    Args:
        sketch: Of any number of rows; 0 where there are none.
    """
    if not sketch.vocabulary:
        return 0.0
    if sketch.norm is not None:
        return float(sketch.norm.amax()) * sketch.unit
    outermost: float = (2**sketch.bits - 1) / 2
    return float(sketch.scale.amax()) * sketch.unit * outermost * math.sqrt(sketch.width)
