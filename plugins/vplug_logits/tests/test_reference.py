from __future__ import annotations

import pytest
import torch

from heads import head, hidden, sketch_of
from vplug_logits.reference import dense, gumbel
from vplug_logits.reference.sketch import estimates, rigorous_bound, transformed
from vplug_logits.reference.window import best, scored, window


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_equal_after_rounding_means_less_than_a_step_apart(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    values = 2.0 ** (20 * torch.rand(20_000, generator=generator, dtype=torch.float64) - 10)
    values = torch.cat([values, -values, torch.tensor([2.0, 1.999999999, 0.0, 1e-30], dtype=torch.float64)])
    step = dense.rounding_step(values, dtype)
    for lower in (values - step * 1.0001, values - step * 3):
        assert (lower.to(dtype) != values.to(dtype)).all()
    # And a step is not much longer than it has to be.
    assert ((values - step * 0.26).to(dtype) == values.to(dtype)).any()


def test_the_smallest_id_wins_a_tie() -> None:
    values = torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [0.0, 0.0, 0.0, 1.0]])
    assert dense.argmax(values).tolist() == [1, 0, 3]
    assert best(values, 1).nonzero().tolist() == [[0, 1], [1, 0], [2, 3]]
    assert best(values, 9).all()


@pytest.mark.parametrize(("vocabulary", "width"), [(300, 48), (129, 33), (1, 1), (64, 7)])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_no_estimate_is_off_by_more_than_the_rigorous_bound(bits: int, vocabulary: int, width: int) -> None:
    weight, states = head(vocabulary, width), hidden(40, width)
    sketch = sketch_of(weight, states, bits)
    estimate, sigma = estimates(sketch, states)
    bound = rigorous_bound(sketch, states)
    truth = dense.logits(weight, states)
    assert estimate.shape == sigma.shape == truth.shape
    assert ((estimate - truth).abs() <= bound * (1 + 1e-9) + 1e-9).all()
    torch.testing.assert_close(sigma * width**0.5, bound)


def test_the_bound_holds_for_states_that_are_scanned_inexactly() -> None:
    weight, states = head(300, 48), hidden(40, 48)
    sketch = sketch_of(weight, states, 8)
    moved = transformed(sketch, states)
    coarse = (moved / 16).round() * 16
    error = (coarse - moved).norm(dim=1)
    off = torch.linalg.solve(sketch.transform.double().T, (coarse - moved).T).T
    estimate, _ = estimates(sketch, states.double() + off)
    estimate += (-off @ sketch.mean.double())[:, None]
    truth = dense.logits(weight, states)
    assert ((estimate - truth).abs() <= rigorous_bound(sketch, states, error) * (1 + 1e-9)).all()
    assert ((estimate - truth).abs() > rigorous_bound(sketch, states)).any()
    with pytest.raises(ValueError, match="keeps no norms"):
        rigorous_bound(sketch_of(weight, states, 2), states, error)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_errors_are_about_as_large_as_their_standard_deviation_says(bits: int) -> None:
    weight, states = head(2000, 256), hidden(100, 256)
    sketch = sketch_of(weight, states, bits)
    estimate, sigma = estimates(sketch, states)
    z = (estimate - dense.logits(weight, states)) / sigma
    assert abs(float(z.mean())) < 0.1 and 0.7 < float(z.std()) < 1.1 and float(z.abs().amax()) < 7


def test_more_bits_mean_smaller_errors() -> None:
    weight, states = head(500, 128), hidden(50, 128)
    sigmas = [float(estimates(sketch_of(weight, states, bits), states)[1].mean()) for bits in (1, 2, 4, 8)]
    assert sigmas[0] > 1.5 * sigmas[1] > 4 * sigmas[2] > 20 * sigmas[3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_rigorous_window_gives_the_dense_token_ties_included(dtype: torch.dtype) -> None:
    weight, states = head(700, 64), hidden(300, 64)
    weight[350:] = weight[:350]  # every row twice
    sketch = sketch_of(weight, states, 8)
    estimate, _ = estimates(sketch, states)
    truth = dense.logits(weight, states)
    mask = window(estimate, rigorous_bound(sketch, states), truth, 4, rounded_to=dtype)
    expected = dense.argmax(truth.to(dtype))
    assert torch.equal(dense.argmax(torch.where(mask, truth, -torch.inf).to(dtype)), expected)
    assert (expected < 350).all() and mask.sum(1).double().mean() < 100
    got = scored(mask, truth, estimate, dtype)
    assert got.dtype == dtype and torch.equal(got[mask], truth.to(dtype)[mask])
    assert torch.equal(dense.argmax(got), expected)


def test_estimates_outside_never_reach_the_best_exact_logit() -> None:
    exact = torch.tensor([[2.0, 2.9, 3.001]], dtype=torch.float64)
    mask = torch.tensor([[False, False, True]])
    guess = torch.tensor([[0.5, 9.0, 2.0]], dtype=torch.float64)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        got = scored(mask, exact, guess, dtype)[0]
        assert got[0] == 0.5 and got[2] == exact[0, 2].to(dtype)
        assert got[2] - dense.rounding_step(got[2], dtype) <= got[1].double() < got[2].double()


def test_the_z_window_grows_with_z_and_misses_nothing_at_five() -> None:
    weight, states = head(2000, 128), hidden(200, 128)
    sketch = sketch_of(weight, states, 2)
    estimate, sigma = estimates(sketch, states)
    truth = dense.logits(weight, states)
    masks = [window(estimate, z * sigma, truth, 8) for z in (0.0, 2.0, 5.0)]
    sizes = [float(mask.sum(1).double().mean()) for mask in masks]
    assert sizes[0] < sizes[1] < sizes[2]
    assert torch.equal(dense.argmax(torch.where(masks[2], truth, -torch.inf)), dense.argmax(truth))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_a_draw_from_the_window_is_the_dense_draw(temperature: float) -> None:
    weight, states = head(1000, 96) / 10, hidden(200, 96)
    sketch = sketch_of(weight, states, 2)
    estimate, sigma = estimates(sketch, states)
    truth = dense.logits(weight, states)
    steps = torch.arange(200)
    ids, mask = gumbel.windowed(estimate, 5 * sigma, truth, rows=16, temperature=temperature, seed=3, steps=steps)
    assert torch.equal(ids, gumbel.drawn(truth, temperature, 3, steps))
    assert not torch.equal(ids, dense.argmax(truth)) and not mask.all()
