"""Heads, states and steps that the tests of the kernels share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from heads import head, hidden, sketch_of
from vplug_logits.after import After
from vplug_logits.kernels.triton_step import Outcome, TritonStep
from vplug_logits.reference import dense
from vplug_logits.reference import sketch as reference
from vplug_logits.sketch import Sketch

ROUNDED = {torch.float32: 2.0**-20, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
"""What a logit may be off by, as a share: a rounding step (the interpreter cuts bfloat16 off), or float32's sums."""


@dataclass(frozen=True)
class Case:
    """One step of a small head."""

    mode: str
    bits: int
    vocabulary: int
    width: int
    many: int
    rows: int = 32
    dtype: torch.dtype = torch.float32
    logits: torch.dtype | None = None
    cap: float | None = None
    outside: str = "estimates"

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        more = "".join(
            f"-{word}"
            for word in (
                f"to-{str(self.logits).removeprefix('torch.')}" if self.logits else "",
                f"cap{self.cap:g}" if self.cap else "",
                "minus-inf" if self.outside == "-inf" else "",
            )
            if word
        )
        return f"{self.mode}-B{self.many}-V{self.vocabulary}-D{self.width}-bits{self.bits}-R{self.rows}-{kind}{more}"

    @property
    def share(self) -> float | None:
        """As `Parts.share`."""
        return {"exact": 1.0, "safe": min(1.0, 5.0 / math.sqrt(self.width)), "fast": None}[self.mode]

    @property
    def possible(self) -> float:
        """As `Parts.possible`."""
        return 1.0 if self.mode == "exact" else min(1.0, 9.0 / math.sqrt(self.width))

    @property
    def weight(self) -> torch.Tensor:
        return _weight(self.vocabulary, self.width, self.dtype)

    @property
    def states(self) -> torch.Tensor:
        return hidden(self.many, self.width, seed=3).to(self.dtype)

    @property
    def sketch(self) -> Sketch:
        return _sketch(self.vocabulary, self.width, self.bits, self.dtype)

    @property
    def limit(self) -> int:
        return self.vocabulary

    def step(self, **more: Any) -> TritonStep:
        """A step whose scratch holds NaN and nonsense where the kernels do not write first."""
        how: dict[str, Any] = {
            "rows": self.rows,
            "limit": self.limit,
            "share": self.share,
            "possible": self.possible,
            "dtype": self.logits,
            "outside": self.outside,
            "cap": self.cap,
            **more,
        }
        step = TritonStep(how.pop("weight", self.weight), self.sketch, **how)
        for many in {1, min(64, self.many)}:
            poison(step, 1 << (many - 1).bit_length(), self.width, self.bits)
        return step


@cache
def _weight(vocabulary: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    return head(vocabulary, width).to(dtype)


@cache
def _sketch(vocabulary: int, width: int, bits: int, dtype: torch.dtype) -> Sketch:
    return sketch_of(_weight(vocabulary, width, dtype), hidden(300, width), bits)


def poison(step: TritonStep, size: int, width: int, bits: int) -> None:
    """Fill scratch with NaN and nonsense; of the transformed states only what pads them is promised to be zero."""
    scratch = step.scratch(size)
    for name in ("partials", "grow", "estimates", "constants", "highest", "best"):
        getattr(scratch, name).fill_(torch.nan)
    for name in ("histogram", "flags", "tickets", "count", "outcome", "number"):
        getattr(scratch, name).fill_(-(10**8))
    _, parts, half = scratch.queries.shape
    row_bytes = -(-width // (4 * (8 // bits))) * 4
    for part in range(parts):
        coordinates = part // 2 * row_bytes + 2 * torch.arange(half) + part % 2
        real = (coordinates < width) & (2 * torch.arange(half) + part % 2 < row_bytes)
        scratch.queries[:, part, real] = torch.nan


def run(case: Case, step: TritonStep, states: torch.Tensor) -> tuple[torch.Tensor, Outcome]:
    """Logits `(n, V)` and the outcome; what lies beside them is checked to be left alone."""
    dtype = case.logits or case.dtype
    wide = torch.full((states.shape[0], case.vocabulary + 3), torch.nan, dtype=dtype)
    outcome = step.run(states, wide)
    assert wide[:, case.vocabulary :].isnan().all()
    return wide[:, : case.vocabulary], outcome


def exact(case: Case, states: torch.Tensor) -> torch.Tensor:
    """The logits in float64."""
    return dense.logits(case.weight, states)


def must(case: Case, states: torch.Tensor) -> torch.Tensor:
    """The rows that have to be exact, by the reference in float64: the R best, and the window."""
    estimates, _ = reference.estimates(case.sketch, states)
    values = exact(case, states)
    best = torch.topk(estimates, min(case.rows, case.vocabulary), dim=1).values[:, -1:]
    mask = estimates >= best
    if case.share is None:
        return mask
    top = torch.where(mask, values, -torch.inf).amax(1)
    floor = top - After(case.cap).margin(top, case.logits or case.dtype)
    window: torch.Tensor = estimates + case.share * reference.rigorous_bound(case.sketch, states) >= floor[:, None]
    return mask | window
