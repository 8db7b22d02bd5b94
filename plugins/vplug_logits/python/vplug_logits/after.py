"""Rounding: how far below the best logit a row may lie and still win, in the dtype of the logits.

The host rounds logits to a dtype, and may cap and scale them afterwards, where it rounds again: logits that differed
become equal, and then the smallest id wins.  A window that is to hold every row that can win is widened by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch

from vplug_logits.errors import ConfigError

STEPS = 4
"""Rounding steps at the best logit: one since dense rounds the logits themselves (half of it up, half of it down), the
others since a scale that is no power of two rounds again, and lets up to three neighbours meet."""


@dataclass(frozen=True, slots=True)
class After:
    """What the host does to the logits: l -> scale cap tanh(l / cap), or scale l; monotone, in the dtype of the logits.

    Attributes:
        cap: The soft cap, or None.
        scale: The factor.

    Raises:
        ConfigError: One of them is no positive number: then a larger logit would not be a better one.
    """

    cap: float | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("cap", self.cap), ("scale", self.scale)):
            if value is not None and not (isfinite(value) and value > 0):
                raise ConfigError(f"{name}: {value!r} is no positive number; a head under it is left dense.")

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        """The logits that the host samples from, computed as hosts do, in the dtype of `logits`.

        Args:
            logits: Of any float dtype; not changed.

        Returns:
            A tensor of the same dtype.
        """
        if self.cap is not None:
            logits = torch.tanh(logits / self.cap) * self.cap
        return logits if self.scale == 1.0 else logits * self.scale

    def margin(self, best: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """How far below `best` a logit may lie and still become equal to it.

        Args:
            best: `(n,)`, any float dtype.
            dtype: In which the host rounds.

        Returns:
            float64 `(n,)`, above 0; infinite where the cap makes all that is smaller equal to `best`.
        """
        best = best.to(torch.float64)
        info = torch.finfo(dtype)
        steps = STEPS * (best.abs() * info.eps).clamp_min(info.tiny)
        if self.cap is None:
            return steps
        # The cap flattens: go back from a value that is a few steps of the capped logit lower.
        flat = torch.tanh(best / self.cap)
        lower = flat - STEPS * (flat.abs() * info.eps).clamp_min(info.tiny)
        return best - self.cap * torch.atanh(lower.clamp_min(-1.0)) + steps
