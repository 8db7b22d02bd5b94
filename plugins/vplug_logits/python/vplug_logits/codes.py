"""Low-bit codes of transformed rows: uniform levels, one scale for each row, and how far the code is from the row.

A row w is coded as q = scale u with u = (2 c - K) / 2, c in 0..K, K = 2^bits - 1.  The step that c is rounded with is
the best of a few candidates by the cosine of u and w.  Then the scale:

* 1, 2 and 4 bits: <w, w> / <u, w>, which makes the estimate of w . h unbiased over random rotations (RaBitQ,
  arXiv 2405.12497);
* 8 bits: <u, w> / <u, u>, which makes the residual smallest: there the rigorous bound |h'| |q - w| counts.  It hardly
  matters: on SmolLM2 |q - w| is 0.74 % of |w|, so the scales differ by a share of 5.5e-5, the residuals by 2.8e-5.

The compiled kernels code rows where they are installed and the rows lie on the CPU, else torch does.  Sums differ in
their last bits between the two, so very rarely a code does, too.  Each one's bounds hold for its own codes, so nothing
that reads a sketch needs to know which of them made it, and no artefact records it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import frexp
from typing import TYPE_CHECKING

import torch

from vplug_logits.errors import BadInputError
from vplug_logits.layout import pack
from vplug_logits.sketch import BLOCK, LANE, padded_rows, padded_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

# Steps that are tried, here and in encode.rs, in multiples of the root mean square of a row.  The best uniform step for
# a Gaussian is 0.996 at 2 bits and 0.335 at 4; with 1 bit the step does not matter.
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

_NOT_FINITE = "a row of the head holds NaN or infinity."


@dataclass(frozen=True, slots=True)
class Encoded:
    """Codes of rows and what belongs to them.

    Attributes:
        codes: uint8 `(ceil(m / 64), bytes / 4, 64, 4)`: c, in 0..2^bits - 1, as `layout` packs them.
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

    def put(self, start: int, part: Encoded) -> None:
        """Write a part of the rows in its place.

        Args:
            start: Its first row, a multiple of 64.
            part: Any number of rows, but only the last part may have one that is no multiple of 64.
        """
        self.codes[start // BLOCK :][: len(part.codes)] = part.codes
        for name in ("scale", "residual", "norm", "slope"):
            numbers = getattr(part, name)
            getattr(self, name)[start:][: len(numbers)] = numbers


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
    rows = rows.detach()
    kernels = _compiled() if rows.device.type == "cpu" else None
    if kernels is not None and rows.shape[0] > 0:
        return _encode_compiled(kernels, rows, bits)
    if not bool(torch.isfinite(rows).all()):
        raise BadInputError(_NOT_FINITE)
    block = -(-_BLOCK // max(1, BLOCK * rows.shape[1])) * BLOCK
    codes, numbers = _room(rows.shape, bits, rows.device)
    encoded = Encoded(codes, *numbers)
    for start in range(0, rows.shape[0], block):
        encoded.put(start, _encode(rows[start : start + block], bits))
    return encoded


def room(rows: int, width: int, bits: int, *, device: torch.device | str = "cpu") -> Encoded:
    """Room for the codes and numbers of so many rows, to be filled part by part; all of it is 0.

    Args:
        rows: m.
        width: d.
        bits: 1, 2, 4 or 8.
        device: Of the tensors.
    """
    codes, numbers = _room((rows, width), bits, device)
    return Encoded(codes, *numbers)


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


@cache
def _compiled() -> ModuleType | None:
    """The compiled kernels; None where there are none that can be loaded, and torch does their work."""
    try:
        from vplug_logits import _kernels
    except ImportError:
        return None
    return _kernels


def _encode_compiled(kernels: ModuleType, rows: torch.Tensor, bits: int) -> Encoded:
    codes, numbers = _room(rows.shape, bits, rows.device)
    try:
        kernels.encode(rows.to(torch.float64).contiguous().numpy(), bits, codes.numpy(), numbers.numpy())
    except ValueError as error:
        raise BadInputError(_NOT_FINITE) from error
    return Encoded(codes, *numbers)


def _room(shape: Sequence[int], bits: int, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """Zeros for packed codes, and for scale, residual, norm and slope."""
    rows, width = shape
    lanes = padded_width(width, bits) * bits // 8 // LANE
    codes = torch.zeros((padded_rows(rows) // BLOCK, lanes, BLOCK, LANE), dtype=torch.uint8, device=device)
    return codes, torch.zeros((4, rows), dtype=torch.float64, device=device)


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
        codes=pack(codes, bits),
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
