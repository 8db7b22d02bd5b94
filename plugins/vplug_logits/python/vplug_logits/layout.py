"""How codes lie in memory: 64 rows side by side, four bytes of each in turn.

    packed[block, k // 4, row % 64, k % 4] = byte k of the row        shape (ceil(V / 64), bytes / 4, 64, 4)

Byte k of a row holds the codes of the coordinates k, k + bytes, k + 2 bytes, ...: 8 / bits segments of the padded
width, the first one in the lowest bits.  So one broadcast of four coordinates of a state serves 64 rows, and a scan
reads its bytes once, in order.  Padding coordinates and padding rows have code 0.
"""

from __future__ import annotations

import torch

from vplug_logits.sketch import BLOCK, LANE, padded_rows, padded_width


def pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack the codes of rows.

    Args:
        codes: uint8 `(m, d)`, each in 0..2^bits - 1.
        bits: 1, 2, 4 or 8.

    Returns:
        uint8 `(ceil(m / 64), bytes / 4, 64, 4)` with bytes = padded_width(d, bits) bits / 8, contiguous.
    """
    rows, width = codes.shape
    wide = padded_width(width, bits)
    padded = codes.new_zeros(padded_rows(rows), wide)
    padded[:rows, :width] = codes
    packed = _joined(segments(padded, bits), bits)
    return packed.view(-1, BLOCK, packed.shape[1] // LANE, LANE).permute(0, 2, 1, 3).contiguous()


def unpack(packed: torch.Tensor, bits: int, width: int) -> torch.Tensor:
    """The codes again, with the padding rows.

    Args:
        packed: uint8 `(blocks, bytes / 4, 64, 4)`.
        bits: 1, 2, 4 or 8.
        width: d.

    Returns:
        uint8 `(64 blocks, d)`.
    """
    blocks, lanes = packed.shape[:2]
    flat = packed.permute(0, 2, 1, 3).reshape(blocks * BLOCK, lanes * LANE)
    mask = 2**bits - 1
    parts = [(flat >> shift) & mask for shift in range(0, 8, bits)]
    return torch.cat(parts, dim=1)[:, :width]


def segments(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Coordinates as the bytes of a row hold them: `[..., s, k]` stands in bits s b .. s b + b - 1 of byte k.

    Args:
        values: `(..., d)`, codes or transformed states, of any dtype.
        bits: 1, 2, 4 or 8.

    Returns:
        `(..., 8 / bits, bytes)`, zero beyond d.
    """
    width = values.shape[-1]
    wide = torch.nn.functional.pad(values, (0, padded_width(width, bits) - width))
    split: torch.Tensor = wide.reshape(*values.shape[:-1], 8 // bits, -1)
    return split


def _joined(parts: torch.Tensor, bits: int) -> torch.Tensor:
    """One byte of the codes of each `(m, 8 / bits, bytes)`."""
    packed = parts[:, 0].clone()
    for index in range(1, parts.shape[1]):
        packed |= parts[:, index] << (index * bits)
    return packed
