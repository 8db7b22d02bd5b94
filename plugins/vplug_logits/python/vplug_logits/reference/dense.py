"""The dense head: the truth."""

from __future__ import annotations

import torch


def logits(weight: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """W h, each product and sum in float64.

    Args:
        weight: W `(V, d)`, any floating dtype.
        states: h `(B, d)`, any floating dtype.

    Returns:
        float64 `(B, V)`.
    """
    return states.to(torch.float64) @ weight.to(torch.float64).T


def argmax(values: torch.Tensor) -> torch.Tensor:
    """The id of the largest value of each row, the smallest id where several are equal.

    Args:
        values: `(B, V)`.

    Returns:
        int64 `(B,)`.
    """
    ids = torch.arange(values.shape[1], device=values.device)
    largest = values.amax(1, keepdim=True)
    return torch.where(values == largest, ids, values.shape[1]).amin(1)


def rounding_step(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of a dtype at a value: two values further apart never round to one.

    Args:
        values: Any floating dtype.
        dtype: The dtype that logits are rounded to.

    Returns:
        float64, in the shape of `values`.
    """
    kind = torch.finfo(dtype)
    # At the upper end of a binade a value rounds up into the next one, whose steps are twice as long.
    rounded = values.to(torch.float64).to(dtype).to(torch.float64).abs()
    exponent = torch.frexp(rounded).exponent.to(torch.float64) - 1
    step = torch.where(rounded > 0, kind.eps * torch.exp2(exponent), 0.0)
    return step.clamp_min(kind.smallest_normal * kind.eps)
