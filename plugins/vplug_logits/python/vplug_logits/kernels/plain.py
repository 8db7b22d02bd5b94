"""The backend that runs wherever torch does: codes are unpacked into bounded scratch, then multiplied.

The head is never held a second time: at most `SCRATCH` bytes of it are unpacked at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits.layout import segments
from vplug_logits.sketch import BLOCK

if TYPE_CHECKING:
    from vplug_logits.kernels.rules import Fused, Rules
    from vplug_logits.sketch import Clusters, Sketch

SCRATCH = 64 << 20  # bytes, the limit for anything that is unpacked or gathered at once
SCAN = (
    4 << 20
)  # bytes of unpacked codes that stay in a cache until they are multiplied (measured: 7-11 ms for 49,152 x 576)
_FLOAT = 4
_SIGNED = 8  # codes of 8 bits are read as signed bytes: the sums are half as large, and so are their rounding errors


class PlainBackend:
    """torch's own operations, on any device."""

    name = "torch"

    def transform(self, sketch: Sketch, states: torch.Tensor) -> torch.Tensor:
        """As `Backend.transform`; in float64 for 8 bits, where h' must be worth its last bit."""
        dtype = torch.float64 if sketch.bits == _SIGNED else torch.float32
        wide = states.to(dtype)
        out = torch.zeros_like(wide)
        step = max(1, SCRATCH // (dtype.itemsize * max(1, sketch.width)))
        for start in range(0, sketch.width, step):
            out.addmm_(wide[:, start : start + step], sketch.transform[start : start + step].to(dtype))
        return out.to(torch.float32)

    def scan(self, sketch: Sketch, transformed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `Backend.scan`."""
        many, bits = transformed.shape[0], sketch.bits
        estimates = transformed.new_empty(many, sketch.vocabulary)
        nothing = transformed.new_zeros(many)
        if not estimates.numel():
            return estimates, nothing
        parts = segments(transformed, bits)  # (n, 8 / bits, bytes)
        queries = parts.reshape(many, -1)
        middle = 0.5 if bits == _SIGNED else -0.5 * (2**bits - 1)
        offsets = transformed.sum(dim=1, keepdim=True) * middle
        step = max(1, SCAN // (_FLOAT * BLOCK * queries.shape[1]))
        scratch = transformed.new_empty(min(step, sketch.codes.shape[0]) * BLOCK, queries.shape[1])
        for block in range(0, sketch.codes.shape[0], step):
            codes = _unpack(sketch.codes[block : block + step], bits, scratch)
            first = block * BLOCK
            last = min(first + codes.shape[0], sketch.vocabulary)
            scale = sketch.scale[first:last].to(torch.float32).mul_(sketch.unit)
            dots = torch.mm(queries, codes[: last - first].T)
            torch.mul(dots.add_(offsets), scale, out=estimates[:, first:last])
        return estimates, nothing

    def scan_centroids(self, clusters: Clusters, states: torch.Tensor) -> torch.Tensor:
        """As `Backend.scan_centroids`."""
        many, width = clusters.centroids.shape
        out = states.new_empty(states.shape[0], many)
        step = max(1, SCAN // (_FLOAT * max(1, width)))
        for start in range(0, many, step):
            part = clusters.centroids[start : start + step].to(torch.float32)
            torch.mul(torch.mm(states, part.T), clusters.scale[start : start + step], out=out[:, start : start + step])
        return out

    def rescore(
        self, weight: torch.Tensor, rows: torch.Tensor, owners: torch.Tensor, states: torch.Tensor
    ) -> torch.Tensor:
        """As `Backend.rescore`."""
        out = states.new_empty(rows.shape[0])
        step = max(1, SCRATCH // (3 * _FLOAT * max(1, weight.shape[1])))
        for start in range(0, rows.shape[0], step):
            gathered = weight.index_select(0, rows[start : start + step]).to(torch.float32)
            mine = states if states.shape[0] == 1 else states.index_select(0, owners[start : start + step])
            torch.sum(gathered.mul_(mine), dim=1, out=out[start : start + step])
        return out

    def fused(self, weight: torch.Tensor, sketch: Sketch, rules: Rules) -> Fused | None:
        """As `Backend.fused`: there is none."""
        del weight, sketch, rules
        return None


def _unpack(packed: torch.Tensor, bits: int, scratch: torch.Tensor) -> torch.Tensor:
    """The codes of `(blocks, bytes / 4, 64, 4)` as float32 `(64 blocks, padded width)`, in the front of `scratch`."""
    blocks = packed.shape[0]
    # Four bytes of a row lie together: as one integer they are moved at once.  A clone, since contiguous() leaves the
    # strides of a single lane as they are, and then bytes cannot be seen in them.
    rows = packed.view(torch.int32).squeeze(-1).transpose(1, 2).clone(memory_format=torch.contiguous_format)
    rows = rows.view(torch.uint8).reshape(blocks * BLOCK, -1)
    out = scratch[: blocks * BLOCK]
    if bits == _SIGNED:
        return out.copy_(rows.bitwise_xor_(128).view(torch.int8))
    mask, width = 2**bits - 1, rows.shape[1]
    for index in range(8 // bits):
        out[:, index * width : (index + 1) * width].copy_((rows >> (index * bits)).bitwise_and_(mask))
    return out
