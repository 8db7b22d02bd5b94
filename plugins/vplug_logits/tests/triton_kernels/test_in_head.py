from __future__ import annotations

from typing import Any

import pytest
import torch

from heads import head, hidden, sketch_of
from vplug_logits.config import Config
from vplug_logits.head import Head
from vplug_logits.kernels.triton_backend import TritonBackend

VOCABULARY, WIDTH = 700, 46


def made(mode: str, bits: int, *, padding: int = 0, rows: int = 16) -> tuple[Head, torch.Tensor]:
    weight = torch.cat([head(VOCABULARY, WIDTH), torch.ones(padding, WIDTH)])
    sketch = sketch_of(weight[:VOCABULARY], hidden(300, WIDTH), bits)
    config = Config.of(mode, bits=bits, rows=rows)
    return Head(weight, config, sketch=sketch, backend=TritonBackend()), weight


@pytest.mark.parametrize(("mode", "bits"), [("exact", 8), ("safe", 4), ("fast", 2)])
def test_a_head_is_answered_by_the_step_and_counts_it(mode: str, bits: int) -> None:
    ours, weight = made(mode, bits, padding=3)
    states = hidden(5, WIDTH, seed=7)
    logits, wanted = ours.logits(states), states @ weight.T
    counted = ours.counters.snapshot()
    assert (counted["steps"], counted["rows"], counted["fallback_rows"]) == (1, 5, 0)
    assert 5 * 16 <= counted["rescored_rows"] <= 5 * VOCABULARY
    torch.testing.assert_close(logits[:, VOCABULARY:], wanted[:, VOCABULARY:])
    if mode != "fast":
        assert torch.equal(logits.argmax(1), wanted.argmax(1))


def test_a_state_with_nan_is_answered_densely_and_the_others_are_not() -> None:
    ours, _ = made("exact", 8)
    states = hidden(3, WIDTH, seed=7)
    alone = ours.logits(states)
    states[1, 4] = torch.nan
    logits = ours.logits(states)
    assert ours.counters.snapshot()["fallbacks"] == {"states": 1}
    assert bool(logits[1].isnan().all())
    assert torch.equal(logits[0], alone[0]) and torch.equal(logits[2], alone[2])


def test_changed_weights_make_the_head_dense_from_then_on() -> None:
    ours, weight = made("exact", 8)
    weight.data.mul_(-3.0)  # past what torch counts
    states = hidden(2, WIDTH, seed=7)
    ours.logits(states)
    assert ours.counters.snapshot()["fallbacks"] == {"drift": 2} and ours.drifted
    assert torch.equal(ours.logits(states), states @ weight.T)


def test_products_in_less_than_float32_widen_the_window() -> None:
    ours, _ = made("exact", 8, rows=1)
    states = hidden(4, WIDTH, seed=7)
    settings: Any = torch.backends.mkldnn  # has no types
    ours.logits(states)
    before = ours.counters.snapshot()["rescored_rows"]
    settings.matmul.fp32_precision = "bf16"
    try:
        ours.logits(states)
    finally:
        settings.matmul.fp32_precision = "none"
    assert ours.counters.snapshot()["rescored_rows"] > 2 * before
