"""The backends of CPUs, each path of the kernels by itself: what holds for one holds for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits import _kernels
from vplug_logits.codes import levels
from vplug_logits.kernels.cpu import CpuBackend
from vplug_logits.kernels.plain import PlainBackend
from vplug_logits.layout import unpack
from vplug_logits.reference import sketch as reference

if TYPE_CHECKING:
    from vplug_logits.kernels import Backend
    from vplug_logits.sketch import Sketch

ISAS: list[str] = _kernels.build_info()["available"]
NAMES = ["torch", *ISAS]


def named(name: str) -> Backend:
    """The backend of torch, or the one with these instructions."""
    return PlainBackend() if name == "torch" else CpuBackend(name)


def lengths_of_codes(sketch: Sketch) -> torch.Tensor:
    """|q_i|, float64 `(V,)`."""
    codes = levels(unpack(sketch.codes, sketch.bits, sketch.width)[: sketch.vocabulary], sketch.bits)
    length: torch.Tensor = torch.linalg.vector_norm(codes, dim=1) * reference.numbers(sketch, sketch.scale)
    return length
