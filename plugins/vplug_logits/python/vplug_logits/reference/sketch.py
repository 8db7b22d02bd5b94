"""What a sketch says about every logit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits.codes import levels
from vplug_logits.layout import unpack

if TYPE_CHECKING:
    from vplug_logits.sketch import Sketch


def estimates(sketch: Sketch, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An estimate of each logit and the standard deviation of its error.

    e_i = scale_i u_i . h' + mean . h and sigma_i = |h'| residual_i / sqrt(d), with h' = h T.

    Args:
        sketch: Of a head `(V, d)`.
        states: h `(B, d)`.

    Returns:
        e and sigma, float64 `(B, V)` each.
    """
    wide = states.to(torch.float64)
    moved = transformed(sketch, states)
    u = levels(unpack(sketch.codes, sketch.bits, sketch.width)[: sketch.vocabulary], sketch.bits)
    value = (moved @ u.T) * numbers(sketch, sketch.scale) + (wide @ sketch.mean.to(torch.float64))[:, None]
    return value, rigorous_bound(sketch, states) / sketch.width**0.5


def rigorous_bound(sketch: Sketch, states: torch.Tensor, error: torch.Tensor | None = None) -> torch.Tensor:
    """What no estimate can be off by more: |h'| residual_i + |dh'| |q_i| (Cauchy-Schwarz).

    Args:
        sketch: Of a head `(V, d)`; of 8 bits if `error` is given.
        states: h `(B, d)`.
        error: |dh'| `(B,)`: how far the transformed states that are scanned with are from h T; None: not at all.

    Returns:
        float64 `(B, V)`.
    """
    length = torch.linalg.vector_norm(transformed(sketch, states), dim=1)
    bound: torch.Tensor = length[:, None] * numbers(sketch, sketch.residual)
    if error is None:
        return bound
    if sketch.norm is None:
        raise ValueError(f"a sketch of {sketch.bits} bits keeps no norms, so an error of the states has no bound.")
    bound += error.to(torch.float64)[:, None] * numbers(sketch, sketch.norm)
    return bound


def transformed(sketch: Sketch, states: torch.Tensor) -> torch.Tensor:
    """The transformed states h' = h T, float64 `(B, d)`.

    Args:
        sketch: Of a head `(V, d)`.
        states: h `(B, d)`.
    """
    return states.to(torch.float64) @ sketch.transform.to(torch.float64)


def numbers(sketch: Sketch, part: torch.Tensor) -> torch.Tensor:
    """Scales, residuals or norms of the rows of the vocabulary, float64 `(V,)`.

    Args:
        sketch: Whose unit they are in multiples of.
        part: One of its float16 tensors.
    """
    return part[: sketch.vocabulary].to(torch.float64) * sketch.unit
