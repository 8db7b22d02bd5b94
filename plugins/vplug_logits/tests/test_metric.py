from __future__ import annotations

import pytest
import torch

from vplug_logits.errors import BadInputError
from vplug_logits.metric import CONDITION, Solver, balanced, rotation, rows_through, second_moment, transform


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def uneven(count: int, width: int, seed: int) -> torch.Tensor:
    """Vectors most of whose energy lies in a few directions, in no preferred coordinates."""
    falling = torch.arange(1, width + 1, dtype=torch.float64).pow(-1.0)
    return normal(count, width, seed=seed) * falling @ rotation(width, seed + 100)


def test_the_second_moment_is_the_same_in_any_blocks_and_in_float64() -> None:
    vectors = uneven(300, 12, 1).to(torch.bfloat16)
    expected = vectors.double().T @ vectors.double() / 300
    for sizes in ([300], [1, 99, 200], [0, 150, 150]):
        got = second_moment(torch.split(vectors, sizes))
        assert got.dtype == torch.float64
        torch.testing.assert_close(got, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    "blocks",
    [[], [torch.ones(0, 3)], [torch.ones(2, 3), torch.ones(2, 4)], [torch.ones(3)], [torch.tensor([[float("nan")]])]],
    ids=["nothing", "no-vectors", "widths", "flat", "nan"],
)
def test_a_second_moment_of_nothing_or_of_nan_is_refused(blocks: list[torch.Tensor]) -> None:
    with pytest.raises(BadInputError):
        second_moment(blocks)


def test_the_balanced_metric_gives_both_moments_the_same_diagonal() -> None:
    states, rows = second_moment([uneven(4000, 24, 2)]), second_moment([uneven(4000, 24, 3)])
    metric = balanced(states, rows, ridge=0.0)
    inverse = torch.linalg.inv(metric)
    of_states, of_rows = metric.T @ states @ metric, inverse @ rows @ inverse.T
    torch.testing.assert_close(of_states, of_rows, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(of_states, of_states.diagonal().diag(), rtol=1e-8, atol=1e-9)


def test_a_rotation_is_orthogonal_repeats_and_depends_on_its_seed() -> None:
    one = rotation(40, 7)
    torch.testing.assert_close(one @ one.T, torch.eye(40, dtype=torch.float64))
    assert torch.equal(one, rotation(40, 7))
    assert not torch.allclose(one, rotation(40, 8))


def test_dot_products_pass_through_the_rounded_transform() -> None:
    states, rows = uneven(50, 33, 4), uneven(700, 33, 5) + 1
    mean = rows.mean(0).float()
    matrix = transform(second_moment([states]), second_moment([rows - mean]), 0)
    assert matrix.dtype == torch.bfloat16
    moved = rows_through(rows, mean, matrix)
    expected = states @ (rows - mean.double()).T
    torch.testing.assert_close(states @ matrix.double() @ moved.T, expected, rtol=1e-10, atol=1e-10)


def test_a_solver_gives_the_rows_of_any_block() -> None:
    rows = uneven(130, 16, 6).to(torch.bfloat16)
    matrix = transform(torch.eye(16, dtype=torch.float64), second_moment([rows]), 1)
    solver, mean = Solver(matrix), rows.double().mean(0)
    whole = solver.rows(rows, mean)
    assert whole.shape == (130, 16) and whole.dtype == torch.float64 and whole.is_contiguous()
    torch.testing.assert_close(torch.cat([solver.rows(part, mean) for part in torch.split(rows, 37)]), whole)
    torch.testing.assert_close(solver.rows(rows.double() - mean), whole)


def test_the_transform_spreads_the_energy_of_rows_evenly() -> None:
    falling = torch.arange(1, 65, dtype=torch.float64).pow(-1.0)
    states, rows = normal(4000, 64, seed=7) * falling, normal(4000, 64, seed=8) * falling
    matrix = transform(second_moment([states]), second_moment([rows]), 0)
    energy = rows_through(rows, torch.zeros(64), matrix).square().mean(0)
    before = rows.square().mean(0)
    assert 20 * energy.amax() / energy.amin() < before.amax() / before.amin()


ZERO = torch.zeros(9, 9, dtype=torch.float64)
LINE = torch.ones(9, 9, dtype=torch.float64)  # all vectors are multiples of one


@pytest.mark.parametrize(
    ("states", "rows"),
    [
        (ZERO, ZERO),
        (LINE, ZERO),
        (ZERO, LINE),
        (LINE, LINE),
        (LINE * 1e30, LINE * 1e-30),
        (LINE * 1e-30, second_moment([uneven(5, 9, 9)])),
        (torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)),
        (torch.diag(torch.logspace(-30, 30, 9, dtype=torch.float64)), LINE),
    ],
    ids=["zero", "one-state", "one-row", "one-line", "scales", "few-rows", "width-1", "sixty-decades"],
)
def test_degenerate_moments_give_a_finite_and_invertible_transform(states: torch.Tensor, rows: torch.Tensor) -> None:
    matrix = transform(states, rows, 3).double()
    assert torch.isfinite(matrix).all()
    assert torch.linalg.cond(matrix, 1) <= CONDITION


def test_moments_that_are_not_finite_or_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInputError):
        transform(ZERO * float("nan"), ZERO, 0)
    with pytest.raises(BadInputError):
        balanced(ZERO, torch.zeros(8, 8, dtype=torch.float64))
