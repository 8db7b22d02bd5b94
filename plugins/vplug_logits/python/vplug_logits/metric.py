"""The balanced metric: a change of coordinates in which states and rows have the same, evenly spread second moment.

Dot products do not change under h' = h T, w' = w T^-T.  T is chosen so that a uniform low-bit code of w' loses little
of w . h for the states that really come:

    S_h = E[h h^T],  S_w = E[(w - mean) (w - mean)^T],  S_h = L L^T,  L^T S_w L = U D U^T,  A = L^-T U D^(1/4)

    A^T S_h A = A^-1 S_w A^-T = D^(1/2)

and T = A Q with a random rotation Q, which spreads the energy of each row over all coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

# A moment of some 1,500 positions of random ids wants smoothing.  SmolLM2, 2,000 states: windows of 2 bits and z = 5
# hold 88 rows with a ridge of 0.003, 74 with 0.01, 65 with 0.05 and 0.1, 79 with 0.5.
RIDGE = 5e-2
# The largest condition number (1-norm) of a rounded T that rows are solved against: float64 then leaves 10 digits.
CONDITION = 1e6


def second_moment(blocks: Iterable[torch.Tensor]) -> torch.Tensor:
    """The mean of x x^T over all vectors of all blocks, summed in float64.

    Args:
        blocks: Tensors `(n, d)` of any floating dtype; n may differ from block to block and may be 0.

    Returns:
        float64 `(d, d)`, symmetric.

    Raises:
        BadInputError: There is no vector at all, widths differ, or a value is NaN or infinite.
    """
    total: torch.Tensor | None = None
    count = 0
    for block in blocks:
        if block.dim() != 2 or (total is not None and block.shape[1] != total.shape[0]):  # noqa: PLR2004
            raise BadInputError(f"a block of vectors of shape {tuple(block.shape)} does not fit the others: (n, d).")
        wide = block.detach().to(torch.float64)
        if total is None:
            total = wide.new_zeros(wide.shape[1], wide.shape[1])
        total.addmm_(wide.T, wide)
        count += wide.shape[0]
    if total is None or count == 0:
        raise BadInputError("a second moment of no vectors was asked for: give at least one.")
    if not bool(torch.isfinite(total).all()):
        raise BadInputError("the vectors hold NaN or infinity, or their squares overflow float64.")
    return total.div_(count)


def balanced(states_moment: torch.Tensor, rows_moment: torch.Tensor, *, ridge: float = RIDGE) -> torch.Tensor:
    """The balanced metric A: both moments become the same diagonal.

    Both moments get `ridge` times their mean eigenvalue on the diagonal (a moment of zeros becomes the identity), so
    directions that no state or no row has are kept, only less finely.

    Args:
        states_moment: float64 `(d, d)`: E[h h^T].
        rows_moment: float64 `(d, d)`: E[(w - mean) (w - mean)^T].
        ridge: What is added, as a share of the mean eigenvalue.

    Returns:
        A, float64 `(d, d)`, invertible.

    Raises:
        BadInputError: The shapes differ, or a moment is not finite.
    """
    if states_moment.shape != rows_moment.shape or states_moment.dim() != 2:  # noqa: PLR2004
        raise BadInputError(
            f"moments of shapes {tuple(states_moment.shape)} and {tuple(rows_moment.shape)}: both must be (d, d)."
        )
    lower = torch.linalg.cholesky(_ridged(states_moment, ridge))
    energy, directions = torch.linalg.eigh(lower.T @ _ridged(rows_moment, ridge) @ lower)
    smallest = energy.amax() * torch.finfo(torch.float64).eps
    spread = directions * energy.clamp_min(smallest).pow(0.25)
    metric: torch.Tensor = torch.linalg.solve_triangular(lower.T, spread, upper=True)
    return metric


def rotation(width: int, seed: int) -> torch.Tensor:
    """A random rotation: the orthogonal factor of a Gaussian matrix, its signs fixed (Haar distributed).

    Args:
        width: d.
        seed: Any integer; the same one gives the same matrix.

    Returns:
        Q, float64 `(d, d)`.
    """
    generator = torch.Generator().manual_seed(seed)
    gaussian = torch.randn(width, width, generator=generator, dtype=torch.float64)
    orthogonal, upper = torch.linalg.qr(gaussian)
    turn: torch.Tensor = orthogonal * torch.where(upper.diagonal() < 0, -1.0, 1.0)
    return turn


def transform(states_moment: torch.Tensor, rows_moment: torch.Tensor, seed: int) -> torch.Tensor:
    """T = A Q, rounded to bfloat16.

    Where the rounded matrix is close to singular (extreme moments), the ridge is widened tenfold until it is not.

    Args:
        states_moment: float64 `(d, d)`: E[h h^T].
        rows_moment: float64 `(d, d)`: E[(w - mean) (w - mean)^T].
        seed: Of the rotation.

    Returns:
        bfloat16 `(d, d)`, finite and invertible.

    Raises:
        BadInputError: The shapes differ, a moment is not finite, or no ridge makes the rounded matrix invertible.
    """
    turn = rotation(states_moment.shape[0], seed).to(states_moment.device)
    ridge = RIDGE
    while ridge <= 1e6:  # noqa: PLR2004  # by then both moments are multiples of the identity
        rounded = (balanced(states_moment, rows_moment, ridge=ridge) @ turn).to(torch.bfloat16)
        if _condition(rounded) <= CONDITION:
            return rounded
        ridge *= 10
    raise BadInputError("the moments give no transform that bfloat16 can hold: their scales are out of its range.")


class Solver:
    """Takes rows into the coordinates of a transform: w' = w T^-T, in float64, T factored once.

    Args:
        transform: T `(d, d)`, of any floating dtype, taken as it is: give the rounded one that states go through.
    """

    def __init__(self, transform: torch.Tensor) -> None:
        self._factors, self._pivots = torch.linalg.lu_factor(transform.to(torch.float64))

    def rows(self, block: torch.Tensor, mean: torch.Tensor | None = None) -> torch.Tensor:
        """The rows of a block, transformed.

        Args:
            block: `(m, d)`, any floating dtype; centred already if `mean` is None.
            mean: `(d,)`, subtracted first, in float64.

        Returns:
            float64 `(m, d)`.
        """
        wide = block.detach().to(torch.float64, copy=mean is not None)
        if mean is not None:
            wide -= mean.to(torch.float64)
        moved: torch.Tensor = torch.linalg.lu_solve(self._factors, self._pivots, wide.T).T
        return moved.contiguous()


def rows_through(rows: torch.Tensor, mean: torch.Tensor, transform: torch.Tensor) -> torch.Tensor:
    """Rows through a transform: w' = (w - mean) T^-T, in float64; `Solver` does the same for many blocks.

    Args:
        rows: `(m, d)`.
        mean: `(d,)`.
        transform: T `(d, d)`, as rounded.

    Returns:
        float64 `(m, d)`.
    """
    return Solver(transform).rows(rows, mean)


def _ridged(moment: torch.Tensor, ridge: float) -> torch.Tensor:
    """The symmetric part of a moment with a ridge, scaled so that nothing overflows in products."""
    if not bool(torch.isfinite(moment).all()):
        raise BadInputError("a second moment holds NaN or infinity.")
    width = moment.shape[0]
    level = float(moment.diagonal().mean())
    identity = torch.eye(width, dtype=torch.float64, device=moment.device)
    if level <= 0:
        return identity
    return (moment.to(torch.float64) + moment.T) / 2 + ridge * level * identity


def _condition(matrix: torch.Tensor) -> float:
    """The condition number in the 1-norm; infinite for a matrix that is singular or not finite."""
    wide = matrix.to(torch.float64)
    if not bool(torch.isfinite(wide).all()):
        return float("inf")
    inverse, failed = torch.linalg.inv_ex(wide)
    if int(failed) != 0:
        return float("inf")
    return float(wide.abs().sum(0).amax() * inverse.abs().sum(0).amax())
