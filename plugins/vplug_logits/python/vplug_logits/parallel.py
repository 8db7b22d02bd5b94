"""One head over several processes, each with a shard of the vocabulary: the answers of one process with all of it.

The processes agree on the few numbers that the choice of rows depends on: the R-th best estimate, the best exact
logit, how many rows a window holds.  So the same rows are rescored as in one process, whatever the cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from vplug_logits.errors import BadInputError
from vplug_logits.head import Head

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.config import Config
    from vplug_logits.counters import Counters
    from vplug_logits.kernels import Backend
    from vplug_logits.sketch import Clusters, Sketch


class Group:
    """The processes of a `torch.distributed` group, as `Peers`."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        """Take a group.

        Args:
            group: None: all processes.
        """
        self._group = group

    def most(self, values: torch.Tensor) -> torch.Tensor:
        """As `Peers.most`; NaN counts as infinity, since processes would not agree on it."""
        return self._reduced(torch.nan_to_num(values, nan=torch.inf, posinf=torch.inf, neginf=-torch.inf), most=True)

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """As `Peers.total`."""
        return self._reduced(values, most=False)

    def beside(self, values: torch.Tensor) -> torch.Tensor:
        """As `Peers.beside`."""
        values = values.contiguous()
        parts = [torch.empty_like(values) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(parts, values, group=self._group)
        return torch.cat(parts, dim=1)

    def _reduced(self, values: torch.Tensor, *, most: bool) -> torch.Tensor:
        # Not every backend reduces bool and the 16-bit floats; float64 and int64 hold all of them.
        wide = values.to(torch.float64 if values.is_floating_point() else torch.int64, copy=True)
        dist.all_reduce(wide, dist.ReduceOp.MAX if most else dist.ReduceOp.SUM, group=self._group)
        return wide.to(values.dtype)


class ParallelHead:
    """A shard of a head and the way to the others.  All calls are collective, with the same states everywhere.

    Attributes:
        head: Of this shard.
        counters: Of this shard: rescored rows are those here.
    """

    def __init__(  # noqa: PLR0913  # those of `Head`
        self,
        weight: torch.Tensor,
        config: Config,
        *,
        start: int,
        group: dist.ProcessGroup | None = None,
        sketch: Sketch | None = None,
        clusters: Clusters | None = None,
        dense: Callable[[torch.Tensor], torch.Tensor] | None = None,
        backend: Backend | None = None,
        dtype: torch.dtype | None = None,
        cap: float | None = None,
        scale: float = 1.0,
        counters: Counters | None = None,
    ) -> None:
        """Make the shard of this process.

        Args:
            weight: `(rows, d)`, the rows of this process.
            config: The same everywhere.
            start: The id of row 0 of the weight; shards lie one after the other in the order of the ranks.
            group: None: all processes.
            sketch: Of these rows (`artefact.shard`).
            clusters: Of the whole vocabulary, with its ids.
            dense: As for `Head`: of these rows, no gather.
            backend: As for `Head`.
            dtype: As for `Head`.
            cap: As for `Head`.
            scale: As for `Head`.
            counters: As for `Head`.

        Raises:
            BadInputError: As `Head`, or shards that do not lie one after the other.
        """
        self._peers = Group(group)
        self.head = Head(
            weight,
            config,
            sketch=sketch,
            clusters=clusters,
            dense=dense,
            backend=backend,
            start=start,
            dtype=dtype,
            cap=cap,
            scale=scale,
            counters=counters,
            peers=self._peers,
        )
        self.counters = self.head.counters
        mine = torch.tensor([[start, self.head.vocabulary, weight.shape[0]]], device=weight.device)
        shards = self._peers.beside(mine).view(-1, 3).tolist()
        self._rows = [rows for _, _, rows in shards]
        ends = 0
        for rank, (begins, vocabulary, _) in enumerate(shards):
            if begins != ends:
                raise BadInputError(
                    f"the shard of rank {rank} starts at row {begins}, the one before it ends at {ends}; "
                    "cut the vocabulary without holes, in the order of the ranks."
                )
            ends = begins + vocabulary

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """The logits of all shards, side by side.

        Args:
            states: `(n, d)`, the same everywhere.

        Returns:
            `(n, rows of all shards)`, the same everywhere.
        """
        here = self.head.logits(states)
        widest = max(self._rows)
        slices = self._peers.beside(torch.nn.functional.pad(here, (0, widest - here.shape[1])))
        parts = slices.view(states.shape[0], len(self._rows), widest)
        return torch.cat([parts[:, rank, :rows] for rank, rows in enumerate(self._rows)], dim=1)

    def argmax(self, states: torch.Tensor) -> torch.Tensor:
        """The id of the largest logit; only winners are exchanged.

        Args:
            states: `(n, d)`, the same everywhere.

        Returns:
            int64 `(n,)`, the smallest id where several are equal; padding never wins.
        """
        steps = torch.zeros(states.shape[0], dtype=torch.int64, device=states.device)
        return self.head.sample(states, temperature=0.0, seed=0, steps=steps)

    def sample(
        self, states: torch.Tensor, *, temperature: float | torch.Tensor, seed: int, steps: torch.Tensor
    ) -> torch.Tensor:
        """As `Head.sample`: the draw of one process with the whole vocabulary.

        Args:
            states: `(n, d)`, the same everywhere.
            temperature: As for `Head.sample`.
            seed: As for `Head.sample`.
            steps: As for `Head.sample`.

        Returns:
            int64 `(n,)`, the same everywhere.
        """
        return self.head.sample(states, temperature=temperature, seed=seed, steps=steps)
