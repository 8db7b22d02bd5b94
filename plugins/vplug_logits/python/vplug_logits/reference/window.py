"""Which rows are scored exactly, as masks `(B, V)`.

First the rows with the best estimates are scored.  The largest of their exact logits, L*, is a lower bound of the
winner's, so every row that can still reach it belongs to the window: all i with e_i + width_i >= L*.  The width is
z sigma_i (a miss then has the probability Q(z) of a normal error below -z) or the rigorous bound (no miss).
"""

from __future__ import annotations

import torch

from vplug_logits.reference.dense import rounding_step


def best(estimates: torch.Tensor, rows: int) -> torch.Tensor:
    """The rows with the largest estimates, the smaller id first where estimates are equal.

    Args:
        estimates: `(B, V)`.
        rows: R, how many; all if V is smaller.

    Returns:
        bool `(B, V)`.
    """
    order = torch.sort(estimates, dim=1, descending=True, stable=True).indices[:, :rows]
    return torch.zeros_like(estimates, dtype=torch.bool).scatter_(1, order, value=True)


def window(
    estimates: torch.Tensor,
    width: torch.Tensor,
    exact: torch.Tensor,
    rows: int,
    *,
    rounded_to: torch.dtype | None = None,
) -> torch.Tensor:
    """The best rows, and every row that can still be at least as good as the best of them.

    Args:
        estimates: e `(B, V)`.
        width: z sigma or the rigorous bound, `(B, V)`.
        exact: True logits `(B, V)`; only those of the best rows are looked at.
        rows: How many of the best are scored first.
        rounded_to: The dtype of dense logits.  Two that round to the same number are a tie that the smaller id wins,
            so the window then is one rounding step wider.

    Returns:
        bool `(B, V)`.
    """
    first = best(estimates, rows)
    lead = torch.where(first, exact, -torch.inf).amax(1, keepdim=True)
    if rounded_to is not None:
        lead = lead - rounding_step(lead, rounded_to)
    return first | (estimates + width >= lead)


def scored(
    mask: torch.Tensor, exact: torch.Tensor, estimates: torch.Tensor, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """The logits of a step: exact inside, estimates outside, none of which reaches the best exact one.

    Outside a window the true logit is below L*, so an estimate that is not is wrong and is put just below: by one
    number of the dtype, since an equal one of a smaller id would win.

    Args:
        mask: bool `(B, V)`, at least one row of each state.
        exact: `(B, V)`.
        estimates: `(B, V)`.
        dtype: The dtype that dense logits have.

    Returns:
        `(B, V)` of the dtype.
    """
    rounded = exact.to(dtype)
    lead = torch.where(mask, rounded, -torch.inf).amax(1, keepdim=True)
    below = torch.nextafter(lead, torch.full_like(lead, -torch.inf))
    return torch.where(mask, rounded, torch.minimum(estimates.to(dtype), below))
