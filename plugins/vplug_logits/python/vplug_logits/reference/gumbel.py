"""Exact sampling: argmax of l_i / temperature + g_i with Gumbel noise draws from the softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vplug_logits.noise import gumbel
from vplug_logits.reference import dense
from vplug_logits.reference.window import window

if TYPE_CHECKING:
    import torch


def drawn(logits: torch.Tensor, temperature: float, seed: int, steps: torch.Tensor) -> torch.Tensor:
    """A draw from softmax(logits / temperature) for each row.

    Args:
        logits: float64 `(B, V)`.
        temperature: Above 0.
        seed: Of the noise.
        steps: int64 `(B,)`, of the noise.

    Returns:
        int64 `(B,)`.
    """
    return dense.argmax(logits / temperature + gumbel(seed, steps, range(logits.shape[1])))


def windowed(  # noqa: PLR0913  # what one draw is made of
    estimates: torch.Tensor,
    width: torch.Tensor,
    exact: torch.Tensor,
    *,
    rows: int,
    temperature: float,
    seed: int,
    steps: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same draw from the window alone: noise is added to estimates and to exact logits alike.

    Args:
        estimates: e `(B, V)`, float64.
        width: z sigma or the rigorous bound, `(B, V)`.
        exact: True logits `(B, V)`, float64; only those inside the window are looked at.
        rows: How many of the best are scored first.
        temperature: Above 0.
        seed: Of the noise.
        steps: int64 `(B,)`, of the noise.

    Returns:
        The draws, int64 `(B,)`, and the window, bool `(B, V)`.
    """
    noise = gumbel(seed, steps, range(exact.shape[1]))
    noisy = exact / temperature + noise
    mask = window(estimates / temperature + noise, width / temperature, noisy, rows)
    return dense.argmax(noisy.masked_fill(~mask, -float("inf"))), mask
