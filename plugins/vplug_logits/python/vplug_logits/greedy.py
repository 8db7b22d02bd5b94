"""Real logits of a few states: exact where a row can win, estimates elsewhere.

Why the largest logit is the dense one.  Let L be the best rescored logit, rounded.  A row i wins densely only if its
rounded logit is at least L, hence only if its upper bound is at least L less a rounding step; all those rows are
rescored.  So each other row is truly below L, and where its estimate is not, the estimate is lowered to what the
window proves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits import selection
from vplug_logits.estimates import SketchEstimates

if TYPE_CHECKING:
    from vplug_logits.counters import Step
    from vplug_logits.rounds import Round


def choose(current: Round) -> torch.Tensor:
    """Rescore what the mode wants.

    Args:
        current: The round, nothing of it rescored.

    Returns:
        The best logit of each state, `(n,)` in the dtype of the logits.
    """
    parts, estimates = current.parts, current.estimates
    if estimates.chosen is not None:
        current.take(estimates.chosen)
        return current.best(current.exact)
    current.take(selection.best(estimates.values, parts.rows, parts.peers))
    top = current.best(current.exact)
    if parts.share is not None and isinstance(parts.estimate, SketchEstimates):
        floor = top.to(torch.float64) - parts.after.margin(top, parts.dtype)
        current.take(parts.estimate.upper(estimates, parts.share) >= floor[:, None].to(torch.float32))
        top = current.best(current.exact)
    return top


def write(current: Round, top: torch.Tensor, out: torch.Tensor, step: Step) -> None:
    """Write the logits of all states that are not lost.

    Args:
        current: The round.
        top: The best logit of each state.
        out: `(n, V)` in the dtype of the logits, overwritten.
        step: To count in.
    """
    parts, values = current.parts, current.estimates.values
    if parts.config.outside == "-inf":
        out.fill_(-torch.inf)
    else:
        ceiling = (top.to(torch.float64) - parts.after.margin(top, parts.dtype)).to(parts.dtype).to(torch.float32)
        high = (values > ceiling[:, None]).logical_and_(~current.mask).logical_and_(current.fine[:, None])
        step.clipped += int(high.sum())
        out.copy_(torch.minimum(values, ceiling[:, None]))
    out.index_put_((current.owners, current.ids), current.exact)
