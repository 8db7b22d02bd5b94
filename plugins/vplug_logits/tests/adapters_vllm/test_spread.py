"""Which draws are left to the dense head: those whose total variation is expected beyond the bound."""

from __future__ import annotations

import torch

from heads import head, hidden, sketch_of
from vplug_logits.adapters.vllm.spread import VARIATION, Spread
from vplug_logits.after import After
from vplug_logits.config import Config
from vplug_logits.head import Head

V, D = 6000, 64
CONFIG = Config.of("safe", rows=128)


def variations(states: torch.Tensor, temperature: float, after: After) -> tuple[torch.Tensor, torch.Tensor]:
    """The true total variation of each state, and whether the draw is left to the dense head."""
    weight = head(V, D)
    sketch = sketch_of(weight, hidden(400, D, seed=9), 2)
    logits = Head(weight, CONFIG, sketch=sketch, cap=after.cap, scale=after.scale).logits(states)
    wide = Spread(sketch, CONFIG, after).too_wide(states, logits, [temperature] * len(states))
    ours, theirs = (torch.softmax(after(one) / temperature, 1) for one in (logits, states @ weight.T))
    return (ours - theirs).abs().sum(1) / 2, wide


def test_what_is_drawn_from_estimates_is_within_the_bound_and_not_all_is_given_up() -> None:
    strength = torch.linspace(0.02, 1, 60)[:, None]  # from flat distributions to sharp ones
    for temperature in (0.5, 1.0, 1.5):
        true, wide = variations(hidden(60, D, seed=4) * strength, temperature, After())
        assert float(true[~wide].max()) <= 1.5 * VARIATION  # it is expected, not certain
        assert int((true[~wide] > VARIATION).sum()) <= 1
        assert int((~wide).sum()) >= 5


def test_it_looks_at_what_the_host_draws_from() -> None:
    states = hidden(60, D, seed=5) * torch.linspace(0.02, 1, 60)[:, None]
    true, wide = variations(states, 1.0, After(scale=0.125))
    assert float(true[~wide].max()) <= 1.5 * VARIATION
    assert not torch.equal(wide, variations(states, 1.0, After())[1])


def test_flat_distributions_are_given_up_where_estimates_are_rough() -> None:
    states = hidden(8, D, seed=6) * 0.05
    weight = head(V, D)
    sketch = sketch_of(weight, hidden(400, D, seed=9), 1)
    logits = Head(weight, Config.of("fast", rows=16), sketch=sketch).logits(states)
    wide = Spread(sketch, Config.of("fast", rows=16), After()).too_wide(states * 40, logits, [1.0] * 8)
    assert bool(wide.all())
