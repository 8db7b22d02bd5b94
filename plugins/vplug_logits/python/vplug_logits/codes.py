"""Low-bit codes of transformed rows: uniform levels, one scale for each row, and how far the code is from the row.

A row w is coded as q = scale u with u = (2 c - K) / 2, c in 0..K, K = 2^bits - 1.  The step that c is rounded with is
the best of a few candidates by the cosine of u and w.  Then the scale:

* 1, 2 and 4 bits: <w, w> / <u, w>, which makes the estimate of w . h unbiased over random rotations (RaBitQ,
  arXiv 2405.12497);
* 8 bits: <u, w> / <u, u>, which makes the residual smallest: there the rigorous bound |h'| |q - w| counts.  It hardly
  matters: on SmolLM2 |q - w| is 0.74 % of |w|, so the scales differ by a share of 5.5e-5, the residuals by 2.8e-5.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp
from typing import TYPE_CHECKING

import torch

from vplug_logits.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Steps that are tried, in multiples of the root mean square of a row.  The best uniform step for a Gaussian is 0.996
# at 2 bits and 0.335 at 4; with 1 bit the step does not matter.
_STEPS: dict[int, tuple[float, ...]] = {
    1: (1.0,),
    2: (0.8, 0.87, 0.94, 1.0, 1.07, 1.15),
    4: (0.27, 0.3, 0.33, 0.36, 0.4),
    8: (),
}
# At 8 bits clipping is hardly worth it: steps in multiples of the one that just reaches the largest coordinate.
_REACH = (1.0, 0.96, 0.92)

_UNBIASED = (1, 2, 4)

_SLOP = 1e-12  # of |w|: more than float64 loses in a residual
_TOP = 14  # the largest number of a head, in units, lies in (2^14, 2^15]: float16 ends at 65,504
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Encoded:
    """Codes of rows and what belongs to them.

    Attributes:
        codes: uint8 `(m, d)`: c, in 0..2^bits - 1.
        scale: float64 `(m,)`; 0 for a row of zeros.
        residual: float64 `(m,)`: |scale u - w|.
        norm: float64 `(m,)`: |scale u|.
        slope: float64 `(m,)`: <scale u - w, u>; with it the residual of another scale is known without the row.
    """

    codes: torch.Tensor
    scale: torch.Tensor
    residual: torch.Tensor
    norm: torch.Tensor
    slope: torch.Tensor


@dataclass(frozen=True, slots=True)
class Quantised:
    """The numbers of rows as they are kept.

    Attributes:
        scale: float16 `(m,)`, in multiples of `unit`.
        residual: float16 `(m,)`, in multiples of `unit`: of the *rounded* scale, rounded up.
        norm: float16 `(m,)`, in multiples of `unit`: |q| of the rounded scale, rounded up.
        unit: A power of two.
    """

    scale: torch.Tensor
    residual: torch.Tensor
    norm: torch.Tensor
    unit: float


def encode(rows: torch.Tensor, bits: int) -> Encoded:
    """Code rows; each row is coded by itself, whatever stands beside it.

    Args:
        rows: float64 `(m, d)`: transformed rows.
        bits: 1, 2, 4 or 8.

    Returns:
        Codes, scales, residuals and norms.

    Raises:
        BadInputError: A value is NaN or infinite, or there are no codes of so many bits.
    """
    if bits not in _STEPS:
        raise BadInputError(f"codes of {bits} bits were asked for: there are codes of 1, 2, 4 and 8.")
    if not bool(torch.isfinite(rows).all()):
        raise BadInputError("a row of the head holds NaN or infinity.")
    if rows.shape[0] == 0:
        empty = rows.new_zeros(0)
        return Encoded(torch.zeros(rows.shape, dtype=torch.uint8, device=rows.device), empty, empty, empty, empty)
    block = max(1, _BLOCK // max(1, rows.shape[1]))
    return joined(_encode(part, bits) for part in torch.split(rows, block))


def joined(parts: Iterable[Encoded]) -> Encoded:
    """One `Encoded` of several, in order.

    Args:
        parts: At least one.  Codes that were packed meanwhile may be replaced by anything that can be concatenated.
    """
    every = list(parts)
    return Encoded(
        codes=torch.cat([part.codes for part in every]),
        scale=torch.cat([part.scale for part in every]),
        residual=torch.cat([part.residual for part in every]),
        norm=torch.cat([part.norm for part in every]),
        slope=torch.cat([part.slope for part in every]),
    )


def quantise(encoded: Encoded) -> Quantised:
    """Round the numbers of all rows of a head to float16 and a common unit; the codes are not looked at.

    The residual is that of the rounded scale, and it and the norm are rounded up, so bounds made of them hold.

    Args:
        encoded: Of the whole head, since the unit is common.

    Returns:
        Scales, residuals and norms; never NaN or infinite.
    """
    largest = float(torch.stack([part.amax() for part in (encoded.scale, encoded.residual, encoded.norm)]).amax())
    unit = 2.0 ** (frexp(largest)[1] - 1 - _TOP) if largest > 0 else 1.0
    exact, residual, norm, slope = (
        part / unit for part in (encoded.scale, encoded.residual, encoded.norm, encoded.slope)
    )
    scale = exact.to(torch.float16)
    kept = scale.to(torch.float64)
    length = torch.where(exact > 0, norm / exact, 0.0)  # |u|
    change = kept - exact
    squared = residual.square() + 2 * change * slope + (change * length).square()
    return Quantised(
        scale=scale,
        residual=_up(squared.clamp_min(0).sqrt() + _SLOP * (norm + residual)),
        norm=_up(kept * length * (1 + _SLOP)),
        unit=unit,
    )


def levels(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """The levels u = (2 c - K) / 2 of codes, float64.

    Args:
        codes: uint8 codes.
        bits: Of each code.
    """
    middle: float = (2**bits - 1) / 2
    return codes.to(torch.float64).sub_(middle)


def _encode(rows: torch.Tensor, bits: int) -> Encoded:
    largest = rows.abs().amax(1)
    # Worked on as multiples of the largest coordinate: squares of tiny and of huge rows stay in range.
    some = largest > 0
    unit = torch.where(some, largest, 1.0)
    rows = rows / unit[:, None]
    length = torch.linalg.vector_norm(rows, dim=1)
    codes = torch.zeros(rows.shape, dtype=torch.uint8, device=rows.device)
    best = torch.full_like(length, -1.0)
    for step in _steps(length, rows.shape[1], bits):
        tried = _rounded(rows, step, bits)
        u = levels(tried, bits)
        cosine = (u * rows).sum(1) / (torch.linalg.vector_norm(u, dim=1) * length.clamp_min(1e-300))
        better = cosine > best
        best = torch.where(better, cosine, best)
        codes[better] = tried[better]
    u = levels(codes, bits)
    inner = (u * rows).sum(1)
    above, below = (length.square(), inner) if bits in _UNBIASED else (inner, u.square().sum(1))
    scale = torch.where(some, above / torch.where(some, below, 1.0), 0.0)
    difference = u * scale[:, None] - rows
    return Encoded(
        codes=codes,
        scale=scale * unit,
        residual=torch.linalg.vector_norm(difference, dim=1) * unit,
        norm=torch.linalg.vector_norm(u, dim=1) * scale * unit,
        slope=(difference * u).sum(1) * unit,
    )


def _steps(length: torch.Tensor, width: int, bits: int) -> Iterable[torch.Tensor]:
    """Candidates for the step of each row, whose largest coordinate is 1."""
    rms = length / max(1, width) ** 0.5
    for share in _STEPS[bits]:
        yield torch.where(length > 0, rms * share, 1.0)
    if not _STEPS[bits]:
        for share in _REACH:
            yield torch.full_like(length, share * 2 / (2**bits - 1))


def _rounded(rows: torch.Tensor, step: torch.Tensor, bits: int) -> torch.Tensor:
    """The nearest code of each coordinate; upwards in the middle."""
    return (rows / step[:, None]).add_(2 ** (bits - 1)).floor_().clamp_(0, 2**bits - 1).to(torch.uint8)


def _up(values: torch.Tensor) -> torch.Tensor:
    """Float16, rounded up; the values are not negative and below 65,504."""
    rounded = values.to(torch.float16)
    short = rounded.to(torch.float64) < values
    return (rounded.view(torch.int16) + short.to(torch.int16)).view(torch.float16)
