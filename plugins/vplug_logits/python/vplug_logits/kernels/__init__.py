"""The seam for compiled kernels: what a head asks of a backend, and which one serves a device.

A backend computes in float32.  It decides nothing: which rows are rescored, and what is written where, is the head's
business, so that every backend gives the same tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from vplug_logits.config import AUTO

if TYPE_CHECKING:
    import torch

    from vplug_logits.kernels.rules import Fused, Rules
    from vplug_logits.sketch import Clusters, Sketch


class Backend(Protocol):
    """What computes."""

    name: str

    def transform(self, sketch: Sketch, states: torch.Tensor) -> torch.Tensor:
        """H' = h T; at 8 bits exact to the last bits of float32, since the rigorous bound counts on it.

        Args:
            sketch: The sketch.
            states: float32 `(n, d)`.

        Returns:
            float32 `(n, d)`.
        """
        ...

    def scan(self, sketch: Sketch, transformed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The estimates of all centred logits: scale_i ((2 c_i - K) / 2) . h'.

        Args:
            sketch: The sketch.
            transformed: h', float32 `(n, d)`.

        Returns:
            float32 `(n, V)`, fresh and contiguous; and float32 `(n,)`, how far (as a length) the h' that was scanned
            with may be from `transformed`: 0 where nothing was rounded.
        """
        ...

    def scan_centroids(self, clusters: Clusters, states: torch.Tensor) -> torch.Tensor:
        """The dot products with all centroids.

        Args:
            clusters: The clusters.
            states: float32 `(n, d)`.

        Returns:
            float32 `(n, K)`.
        """
        ...

    def rescore(
        self, weight: torch.Tensor, rows: torch.Tensor, owners: torch.Tensor, states: torch.Tensor
    ) -> torch.Tensor:
        """Exact logits of single (hidden state, row) pairs, accumulated in float32.

        Args:
            weight: The live weight, `(V, d)`, of any float dtype.
            rows: int64 `(m,)`, ids of rows.
            owners: int64 `(m,)`, indices of states, ascending.
            states: float32 `(n, d)`.

        Returns:
            float32 `(m,)`, not yet rounded to the dtype of the logits.
        """
        ...

    def fused(self, weight: torch.Tensor, sketch: Sketch, rules: Rules) -> Fused | None:
        """A whole step of one head in one call, for a process that holds the vocabulary alone.

        Args:
            weight: The live weight; kept, not copied.
            sketch: Of its first V rows.
            rules: What the mode asks for.

        Returns:
            None: this backend has no such thing, or not for this weight.
        """
        ...


def choose(device: torch.device, wanted: str = AUTO) -> Backend:
    """The best backend for a device, or the one that is named; `registry.chosen` says why not the others, too.

    Args:
        device: Where weight and sketch are.
        wanted: `auto`, or a name.

    Raises:
        ConfigError: A name that is unknown.
        BackendError: The one that is named cannot serve.
    """
    from vplug_logits.kernels.registry import chosen

    return chosen(device, wanted).backend
