"""Which rows are rescored: the best R, or all that a window lets in; as masks, then as flat pairs.

A mask is bool `(n, V)`.  Rows that tie with the R-th best are all in it, so the choice does not depend on how torch
sorts, nor on how the vocabulary is cut into shards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from vplug_logits.peers import Peers


def best(values: torch.Tensor, rows: int, peers: Peers) -> torch.Tensor:
    """The `rows` best of each state over all peers, and what ties with the last of them.

    Args:
        values: `(n, V)`: estimates, or perturbed ones.
        rows: R, at least 1.
        peers: Who else holds rows.

    Returns:
        A mask; all true where there are no more than R rows.  A row with NaN may have none.
    """
    here = values.shape[1]
    top = values.new_full((values.shape[0], rows), -torch.inf)
    count = min(rows, here)
    top[:, :count] = torch.topk(values, count, dim=1, sorted=False).values
    every = peers.beside(top)
    last = every.amin(1) if every.shape[1] == rows else torch.topk(every, rows, dim=1).values[:, -1]
    return values >= last[:, None]


def pairs(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The true places of a mask.

    Args:
        mask: bool `(n, V)`.

    Returns:
        Owners (indices of states, ascending) and ids (ascending for each owner), int64 `(m,)` each.
    """
    owners, ids = torch.nonzero(mask, as_tuple=True)
    return owners, ids


def top_of(values: torch.Tensor, owners: torch.Tensor, states: int) -> torch.Tensor:
    """The largest value of each owner.

    Args:
        values: `(m,)`.
        owners: int64 `(m,)`.
        states: n.

    Returns:
        `(n,)`, -inf where an owner has none; NaN where one of its values is NaN.
    """
    return values.new_full((states,), -torch.inf).scatter_reduce_(0, owners, values, "amax")


def counted(owners: torch.Tensor, states: int) -> torch.Tensor:
    """How many pairs each owner has.

    Args:
        owners: int64 `(m,)`.
        states: n.

    Returns:
        int64 `(n,)`.
    """
    return torch.bincount(owners, minlength=states)
