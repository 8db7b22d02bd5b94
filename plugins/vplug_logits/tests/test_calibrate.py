from __future__ import annotations

from typing import Any

import pytest
import torch

from models import tiny
from vplug_logits.calibrate import calibrate
from vplug_logits.errors import BuildError, UnsupportedHeadError


def test_the_moment_is_that_of_the_states_before_the_head() -> None:
    model = tiny(dtype=torch.float32, tied=False)
    found = calibrate(model, positions=256, seed=5)
    generator = torch.Generator().manual_seed(5)
    ids = torch.cat([torch.randint(300, (1, 128), generator=generator) for _ in range(2)])
    with torch.no_grad():
        states = model.model(input_ids=ids).last_hidden_state.reshape(-1, 32).double()
    assert found.positions == 256 and found.moment.dtype == torch.float64
    assert torch.allclose(found.moment, states.T @ states / 256, rtol=1e-5, atol=1e-6)
    kept = found.states
    assert kept.shape == (64, 32) and kept.dtype == torch.float32
    assert torch.allclose(kept.double(), states[::4], rtol=1e-5, atol=1e-5)


def test_the_same_seed_finds_the_same_states() -> None:
    model = tiny()
    one, same, other = (calibrate(model, positions=128, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.moment, same.moment) and not torch.equal(one.moment, other.moment)


def test_the_default_is_1536_positions_and_the_head_is_not_run() -> None:
    model = tiny()
    model.lm_head.forward = None
    assert calibrate(model).positions == 1536


def test_the_model_is_left_as_it_was() -> None:
    model = tiny()
    model.train()
    model.model.layers[0].eval()
    flags = [module.training for module in model.modules()]
    steps: list[tuple[str, int, int]] = []
    calibrate(model, positions=200, progress=lambda *step: steps.append(step))
    assert [module.training for module in model.modules()] == flags
    assert not model.lm_head._forward_pre_hooks
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert steps == [("calibrate", 1, 2), ("calibrate", 2, 2)]


def test_sequences_are_no_longer_than_the_model_allows() -> None:
    model = tiny()
    model.config.max_position_embeddings = 50
    assert calibrate(model, positions=120).positions == 150


def test_what_was_found_can_be_used_in_training() -> None:
    found = calibrate(tiny(), positions=128)
    weight = torch.ones(32, requires_grad=True)
    torch.autograd.backward((found.states @ weight).sum())
    assert weight.grad is not None and torch.equal(weight.grad, found.states.sum(0))


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_states_that_are_not_finite_are_told(wrong: float) -> None:
    model = tiny()
    model.model.norm.weight.data[3] = wrong
    with pytest.raises(BuildError, match="128 of 128 hidden states") as raised:
        calibrate(model, positions=128)
    assert "--dtype" in str(raised.value)


def test_a_model_that_fails_is_told_and_left_without_a_hook() -> None:
    model = tiny()
    model.model.layers[1].forward = None
    with pytest.raises(BuildError, match="fails on 128 random token ids"):
        calibrate(model)
    assert not model.lm_head._forward_pre_hooks


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(UnsupportedHeadError, match="no output embeddings"):
        calibrate(tiny().model)


def test_a_model_that_goes_around_its_head_is_refused() -> None:
    class Around(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.config = inner, inner.config

        def get_output_embeddings(self) -> torch.nn.Module:
            return torch.nn.Linear(32, 300)

        def get_input_embeddings(self) -> Any:
            return self.inner.get_input_embeddings()

        def forward(self, **inputs: Any) -> Any:
            return self.inner(**inputs)

    with pytest.raises(BuildError, match="did not call"):
        calibrate(Around(tiny()))
