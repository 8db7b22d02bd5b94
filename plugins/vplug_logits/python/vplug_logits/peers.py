"""Who else holds rows of the same vocabulary: the few numbers over which they must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class Peers(Protocol):
    """All calls are collective: every peer makes them, in the same order, with tensors of the same shape."""

    def most(self, values: torch.Tensor) -> torch.Tensor:
        """The largest of each value over all peers.

        Args:
            values: Any shape and dtype.

        Returns:
            The same shape and dtype.
        """
        ...

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of each value over all peers.

        Args:
            values: Any shape and dtype.

        Returns:
            The same shape and dtype.
        """
        ...

    def beside(self, values: torch.Tensor) -> torch.Tensor:
        """What all peers have, side by side.

        Args:
            values: `(n, k)`, k the same everywhere.

        Returns:
            `(n, k peers)`, in the order of the peers.
        """
        ...


class Alone:
    """One process with the whole vocabulary, or with a shard that it answers for by itself."""

    def most(self, values: torch.Tensor) -> torch.Tensor:
        """As `Peers.most`."""
        return values

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """As `Peers.total`."""
        return values

    def beside(self, values: torch.Tensor) -> torch.Tensor:
        """As `Peers.beside`."""
        return values
