"""The backend of CPUs: kernels in Rust, for AVX-512 with VNNI, AVX2, and portable ones.

Tensors are lent to them as DLPack capsules, which say type, shape, strides and device, and keep the memory.  The
kernels check all of it before they look at a number, and let other Python threads run while they work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch.utils.dlpack import to_dlpack  # type: ignore[attr-defined]  # not in its list of names

from vplug_logits import _kernels
from vplug_logits.errors import BadInputError
from vplug_logits.kernels.plain import PlainBackend
from vplug_logits.kernels.rules import Report

if TYPE_CHECKING:
    from vplug_logits.kernels.rules import Fused, Rules
    from vplug_logits.sketch import Sketch

_DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


class CpuBackend(PlainBackend):
    """Kernels in Rust; centroids of clusters, which are few, are scanned by torch."""

    name = "cpu"

    def __init__(self, isa: str | None = None) -> None:
        """Take the kernels.

        Args:
            isa: `avx512`, `avx2` or `portable`; None: the fastest that runs here.

        Raises:
            ValueError: There are none of that name, or this processor lacks the instructions.
        """
        self.isa = isa or str(_kernels.build_info()["isa"])
        _kernels.require(self.isa)
        self._sketches: WeakKeyDictionary[Sketch, _kernels.Sketch] = WeakKeyDictionary()

    def transform(self, sketch: Sketch, states: torch.Tensor) -> torch.Tensor:
        """As `Backend.transform`."""
        states = states.contiguous()
        out = torch.empty_like(states)
        if out.numel():
            self._of(sketch).transform(to_dlpack(states), to_dlpack(out))
        return out

    def scan(self, sketch: Sketch, transformed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """As `Backend.scan`: h' as int8, at 8 bits as 15 bits."""
        many = transformed.shape[0]
        out, lost = transformed.new_empty(many, sketch.vocabulary), transformed.new_empty(many)
        if out.numel():
            self._of(sketch).scan(to_dlpack(transformed.contiguous()), to_dlpack(out), to_dlpack(lost), _threads())
        return out, lost

    def scan_as_int8(self, sketch: Sketch, transformed: torch.Tensor) -> torch.Tensor:
        """The scan with one int8 for each number of h' whatever the codes are: what a plain int8 head costs.

        Args:
            sketch: The sketch.
            transformed: h', float32 `(n, d)`.

        Returns:
            float32 `(n, V)`.
        """
        many = transformed.shape[0]
        out, lost = transformed.new_empty(many, sketch.vocabulary), transformed.new_empty(many)
        if out.numel():
            self._of(sketch).scan(to_dlpack(transformed.contiguous()), to_dlpack(out), to_dlpack(lost), _threads(), 1)
        return out

    def rescore(
        self, weight: torch.Tensor, rows: torch.Tensor, owners: torch.Tensor, states: torch.Tensor
    ) -> torch.Tensor:
        """As `Backend.rescore`."""
        if not _in_rows(weight):
            return super().rescore(weight, rows, owners, states)
        out = states.new_empty(rows.shape[0])
        if out.numel():
            tensors = (weight.detach(), rows, owners, states.contiguous(), out)
            _kernels.rescore(*map(to_dlpack, tensors), threads=_threads(), isa=self.isa)
        return out

    def fused(self, weight: torch.Tensor, sketch: Sketch, rules: Rules) -> Fused | None:
        """As `Backend.fused`; None where rows of the weight do not each lie in one piece."""
        if not _in_rows(weight) or not sketch.vocabulary:
            return None
        return _Step(
            weight,
            _kernels.Head(
                self._of(sketch),
                to_dlpack(weight.detach()),
                dtype=_DTYPES[rules.dtype],
                rows=rules.rows,
                limit=rules.limit,
                share=rules.share,
                possible=rules.possible,
                of_state=rules.of_state,
                of_transformed=rules.of_transformed,
                cap=rules.cap,
                estimates=rules.estimates,
            ),
        )

    def _of(self, sketch: Sketch) -> _kernels.Sketch:
        """The sketch as the kernels hold it; made once for each."""
        known = self._sketches.get(sketch)
        if known is None:
            known = self._sketches[sketch] = _kernels.Sketch(
                sketch.vocabulary,
                sketch.width,
                sketch.bits,
                sketch.unit,
                codes=to_dlpack(sketch.codes.contiguous()),
                scale=to_dlpack(sketch.scale.contiguous()),
                residual=to_dlpack(sketch.residual.contiguous()),
                transform=to_dlpack(sketch.transform.contiguous()),
                mean=to_dlpack(sketch.mean.contiguous()),
                isa=self.isa,
            )
        return known


class _Step:
    """One head as the kernels hold it."""

    def __init__(self, weight: torch.Tensor, head: _kernels.Head) -> None:
        self._weight, self._head = weight, head

    def step(self, states: torch.Tensor, out: torch.Tensor, lost: float) -> Report:
        """As `Fused.step`."""
        if states.dtype not in _DTYPES:  # float64, of a host that rounds in its own dense head
            if not states.is_floating_point():
                raise BadInputError(f"states of {states.dtype} are no floats.")
            states = states.to(torch.float32)
        if states.is_neg():  # a bit of the tensor, of which a capsule says nothing
            states = states.resolve_neg()
        weight = to_dlpack(self._weight)  # lent for this step alone, and refused where it is not what it was
        return Report(*self._head.step(to_dlpack(states), to_dlpack(out), weight, lost, _threads()))


def _threads() -> int:
    """As many as torch's own operations use."""
    return torch.get_num_threads()


def _in_rows(weight: torch.Tensor) -> bool:
    """Whether each row lies in one piece as it is, and rows do not overlap."""
    rows, width = weight.shape
    if weight.is_neg():
        return False
    return width > 0 and (width == 1 or weight.stride(1) == 1) and (rows <= 1 or weight.stride(0) >= width)
