"""Exact sampling by Gumbel-max: argmax of l_i / T + g_i is a draw from softmax(l / T).

The noise is made again for each (seed, step, id), so the same window as for greedy decoding, on perturbed estimates,
holds every row that can win, and the draw is the one that the dense logits give with the same noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from vplug_logits import selection
from vplug_logits.errors import BadInputError
from vplug_logits.estimates import SketchEstimates
from vplug_logits.noise import gumbel

if TYPE_CHECKING:
    from vplug_logits.after import After
    from vplug_logits.peers import Peers
    from vplug_logits.rounds import Round

_NEVER = torch.iinfo(torch.int64).max


@dataclass(frozen=True, slots=True)
class Draws:
    """What a draw depends on besides the logits.

    Attributes:
        temperature: float64 `(n, 1)`; 0: the largest logit wins, without noise.
        noise: float64 `(n, V)`, zero where the temperature is.
    """

    temperature: torch.Tensor
    noise: torch.Tensor

    @classmethod
    def of(cls, temperature: torch.Tensor, seed: int, steps: torch.Tensor, ids: range) -> Draws:
        """Make the noise.

        Args:
            temperature: float64 `(n,)`.
            seed: Any integer.
            steps: int64 `(n,)`.
            ids: Of the rows here.
        """
        if not bool(temperature.any()):
            return cls(temperature[:, None], temperature.new_zeros(1, 1).expand(steps.shape[0], len(ids)))
        noise = gumbel(seed, steps, ids)
        return cls(temperature[:, None], noise.masked_fill_(temperature[:, None] == 0, 0.0))

    def perturb(self, logits: torch.Tensor) -> torch.Tensor:
        """L / T + g, float64 `(n, V)`, of the host's logits of all rows."""
        return logits.to(torch.float64) / self._divisor + self.noise

    def perturb_some(self, logits: torch.Tensor, owners: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """L / T + g, float64 `(m,)`, of single rows."""
        return logits.to(torch.float64) / self._divisor[owners, 0] + self.noise[owners, ids]

    @property
    def _divisor(self) -> torch.Tensor:
        return torch.where(self.temperature == 0, 1.0, self.temperature)


def checked(temperature: float | torch.Tensor, steps: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """The temperatures of all states, float64 `(n,)`.

    Args:
        temperature: One, or one for each state.
        steps: int64 `(n,)`.
        states: `(n, d)`.

    Raises:
        BadInputError: A temperature that is negative or not finite, or numbers that do not fit the states.
    """
    many = states.shape[0]
    every = torch.as_tensor(temperature, dtype=torch.float64, device=states.device)
    every = every.expand(many) if every.dim() == 0 else every
    if every.shape != (many,) or steps.shape != (many,) or steps.dtype is not torch.int64:
        raise BadInputError(f"{many} states need {many} temperatures (or one) and {many} steps, int64.")
    if not bool((torch.isfinite(every) & (every >= 0)).all()):
        raise BadInputError("a temperature is negative, NaN or infinite; 0 is greedy.")
    return every


def draw(current: Round, draws: Draws) -> tuple[torch.Tensor, torch.Tensor]:
    """Rescore what can win, and draw.

    Args:
        current: The round, nothing of it rescored.
        draws: Of its states.

    Returns:
        The winning perturbed logit, float64 `(n,)`, and the index of its row here, int64 `(n,)`; the index is the
        largest integer where the winner is a peer's.
    """
    parts, estimates = current.parts, current.estimates
    if estimates.chosen is not None:
        current.take(estimates.chosen)
    else:
        perturbed = draws.perturb(parts.after(estimates.values))
        current.take(selection.best(perturbed, parts.rows, parts.peers))
    top = current.best(_exact(current, draws))
    if parts.share is not None and isinstance(parts.estimate, SketchEstimates):
        upper = _widened(parts.estimate.upper(estimates, parts.share), parts.after, parts.dtype)
        current.take(draws.perturb(upper) >= top[:, None])
        top = current.best(_exact(current, draws))
    return top, _first(current, _exact(current, draws), top)


def dense_draw(logits: torch.Tensor, draws: Draws, after: After) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of dense logits.

    Args:
        logits: `(n, V)`, of the rows here.
        draws: Of the states.
        after: What the host does to logits.

    Returns:
        As `draw`.
    """
    if not logits.shape[1]:
        nothing = draws.noise.new_full((logits.shape[0],), -torch.inf)
        return nothing, torch.full_like(nothing, _NEVER, dtype=torch.int64)
    top = draws.perturb(after(logits)).max(1)
    return top.values, top.indices


def agreed(top: torch.Tensor, local: torch.Tensor, start: int, peers: Peers) -> torch.Tensor:
    """The winner over all peers: the best value, then the smallest id.

    Args:
        top: float64 `(n,)`, the best value here.
        local: int64 `(n,)`, the index of its row here, or the largest integer: a peer's.
        start: The id of row 0 here.
        peers: Who else holds rows.

    Returns:
        int64 `(n,)`, ids of the vocabulary.
    """
    ids = torch.where(local == _NEVER, local, local + start)
    values = torch.nan_to_num(top, nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)  # as argmax has it
    ids = torch.where(values == peers.most(values), ids, _NEVER)
    return -peers.most(-ids)


def _exact(current: Round, draws: Draws) -> torch.Tensor:
    return draws.perturb_some(current.parts.after(current.exact), current.owners, current.ids)


def _widened(upper: torch.Tensor, after: After, dtype: torch.dtype) -> torch.Tensor:
    """The largest that the host can make of logits up to `upper`: rounding is monotone, so a few steps above it."""
    steps = 4 * torch.finfo(dtype).eps
    raised = upper.to(torch.float64)
    raised += steps * raised.abs()
    capped = after(raised)
    return capped + steps * capped.abs()


def _first(current: Round, values: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    """The smallest id of those that reach the best value."""
    won = values == top[current.owners]
    ids = top.new_full(top.shape, _NEVER, dtype=torch.int64)
    return ids.scatter_reduce_(0, current.owners[won], current.ids[won], "amin")
