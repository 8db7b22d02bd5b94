"""Which head a sketch was built of: 8 bytes for each row, so that a part of the rows can be checked alone.

The digest of a row is BLAKE2b with 8 bytes over its float32 values, little-endian. bfloat16 and float16 widen exactly,
so a head has the same digests in float32 and in the narrower type its checkpoint has.
"""

from __future__ import annotations

import hashlib
import sys

import torch

from vplug_logits.errors import BadInputError

DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}

_BLOCK_BYTES = 1 << 22
_ROW_BYTES = 8
_HEAD_BYTES = 16


def of_rows(weight: torch.Tensor, start: int = 0, stop: int | None = None) -> torch.Tensor:
    """The digests of the rows `start` to `stop` of `weight`.

    Args:
        weight: `(rows, d)`, float32, bfloat16 or float16, on any device, with any strides.
        start: First row.
        stop: Row after the last; None: all rows.

    Returns:
        int64 `(stop - start,)` on the CPU: the eight bytes as a little-endian number.

    Raises:
        BadInputError: The weight is no matrix or of another dtype, or has no such rows.
    """
    if weight.dim() != 2 or not weight.shape[1] or weight.dtype not in DTYPES:  # noqa: PLR2004  # a matrix
        shape, dtype = tuple(weight.shape), weight.dtype
        raise BadInputError(f"a head of shape {shape} in {dtype} has no digest; it is made of float rows (V, d).")
    stop = weight.shape[0] if stop is None else stop
    if not 0 <= start <= stop <= weight.shape[0]:
        raise BadInputError(f"rows {start} to {stop} are not among the {weight.shape[0]} rows of the head.")
    size = 4 * weight.shape[1]
    block = max(1, _BLOCK_BYTES // size)
    digests = bytearray()
    for first in range(start, stop, block):
        rows = weight[first : min(first + block, stop)].detach().to("cpu", torch.float32).contiguous()
        values = memoryview(_little_endian(rows)).cast("B")
        for at in range(0, len(values), size):
            digests += hashlib.blake2b(values[at : at + size], digest_size=_ROW_BYTES).digest()
    return _numbers(bytes(digests))


def of_head(digests: torch.Tensor) -> str:
    """The digest of a whole head, 32 hexadecimal digits: BLAKE2b over the digests of its rows, in their order.

    Args:
        digests: int64 `(V,)`, from `of_rows`.
    """
    return hashlib.blake2b(
        _little_endian(digests.to("cpu", torch.int64).contiguous()), digest_size=_HEAD_BYTES
    ).hexdigest()


def _little_endian(values: torch.Tensor) -> bytes | memoryview:
    array = values.numpy()
    return array.data if sys.byteorder == "little" else array.byteswap().tobytes()


def _numbers(raw: bytes) -> torch.Tensor:
    if not raw:
        return torch.empty(0, dtype=torch.int64)
    numbers = torch.frombuffer(bytearray(raw), dtype=torch.int64)
    return numbers if sys.byteorder == "little" else torch.from_numpy(numbers.numpy().byteswap())
