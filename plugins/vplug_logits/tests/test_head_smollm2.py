"""What heads promise, on SmolLM2-135M-Instruct: states of real text, calibration on random token ids alone.

`VPLUG_SMOLLM2_STATES` says on how many states (default 600).
"""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch

import smollm2 as fixture
from vplug_logits.build import build
from vplug_logits.config import Config
from vplug_logits.head import Head
from vplug_logits.noise import gumbel
from vplug_logits.reference import dense
from vplug_logits.selftest import selftest
from vplug_logits.sketch import Sketch

pytestmark = [pytest.mark.smollm2, pytest.mark.slow, pytest.mark.timeout(3600)]

COUNT = fixture.COUNT
BLOCK = 250
MODES = [("exact", 8), ("safe", 2)]


@lru_cache(maxsize=4)
def sketch(bits: int) -> Sketch:
    smol = fixture.model()
    return build(smol.weight, smol.moment(), bits)


def made(mode: str, bits: int, dtype: torch.dtype = torch.float32) -> Head:
    return Head(fixture.model().weight.to(dtype), Config.of(mode), sketch=sketch(bits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("mode", "bits"), MODES)
def test_no_token_differs_that_rounding_does_not_explain(mode: str, bits: int, dtype: torch.dtype) -> None:
    ours = made(mode, bits, dtype)
    differing = unexplained = 0
    for states in torch.split(fixture.states(COUNT).to(dtype), BLOCK):
        wanted = torch.nn.functional.linear(states, ours.weight)
        winners, theirs = ours.logits(states).argmax(1), wanted.argmax(1)
        values = wanted.double()
        best, won = values.gather(1, theirs[:, None]), values.gather(1, winners[:, None])
        differing += int((winners != theirs).sum())
        unexplained += int((best - won > dense.rounding_step(best, dtype)).sum())
    found = ours.counters.snapshot()
    print(
        f"{mode} {dtype}: {differing} of {COUNT} tokens differ, {unexplained} unexplained; rescored rows "
        f"mean {found['rescored_rows'] / COUNT:.0f}, most {found['rescored_most']}; dense {found['fallback_rows']}"
    )
    assert unexplained == 0
    assert found["fallback_rows"] <= 0.01 * COUNT
    assert set(found["fallbacks"]) <= {"window"}


@pytest.mark.parametrize(("mode", "bits"), MODES)
def test_a_draw_is_the_dense_draw(mode: str, bits: int) -> None:
    count = min(COUNT, 5000) if COUNT >= fixture.ENOUGH else 250
    ours, differing = made(mode, bits), 0
    for begin, states in enumerate(torch.split(fixture.states(COUNT)[:count], BLOCK)):
        steps = torch.arange(begin * BLOCK, begin * BLOCK + len(states))
        wanted = torch.nn.functional.linear(states, ours.weight).double() + gumbel(3, steps, range(fixture.VOCABULARY))
        differing += int((ours.sample(states, temperature=1.0, seed=3, steps=steps) != wanted.argmax(1)).sum())
    print(f"{mode}: {differing} of {count} draws differ; {ours.counters.snapshot()['fallback_rows']} states dense")
    assert differing == 0


def test_plain_sampling_from_the_logits_of_safe_is_sampling_from_dense() -> None:
    """As generate() and vLLM sample: from real logits, which are estimates beyond the rescored rows."""
    states = fixture.states(COUNT)[:: max(1, COUNT // 100)][:100]
    truth = torch.nn.functional.linear(states, fixture.model().weight).double().softmax(1)
    order = truth.argsort(dim=1, descending=True)
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))
    # Cells of a chi-squared test: the ranks 0, 1-2, 3-6, ... of the dense distribution, over all states.
    cell = (torch.arange(order.shape[1]) + 1).log2().floor().long()
    draws = 30
    expected = truth.new_zeros(int(cell.amax()) + 1).scatter_add_(0, cell, truth.gather(1, order).sum(0) * draws)
    for rows, bar in ((512, 0.02), (1024, 0.012)):
        ours = Head(fixture.model().weight, Config.of("safe", rows=rows), sketch=sketch(2))
        chances = ours.logits(states).double().softmax(1)
        variation = float((chances - truth).abs().sum(1).mean() / 2)
        drawn = torch.multinomial(chances, draws, replacement=True, generator=torch.Generator().manual_seed(0))
        seen = torch.bincount(cell[rank.gather(1, drawn)].flatten(), minlength=len(expected)).double()
        cells = int((expected >= 5).sum())
        statistic = float(((seen - expected).square() / expected)[expected >= 5].sum())
        print(f"safe, {rows} rows: total variation {variation:.4f}, chi-squared {statistic:.1f} in {cells} cells")
        # Wilson and Hilferty: the 0.1 % point of as many degrees of freedom.
        point = cells * (1 - 2 / (9 * cells) + 3.09 * (2 / (9 * cells)) ** 0.5) ** 3
        assert variation <= bar
        assert statistic < point


def test_two_bits_cost_at_most_fifteen_hundredths_of_a_bfloat16_head() -> None:
    kept = sketch(2)
    tensors = [kept.codes, kept.scale, kept.residual, kept.transform, kept.mean]
    extra = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    share = extra / (2 * fixture.model().weight.numel())
    print(f"2 bit: {share:.2%} of a bfloat16 head")
    assert kept.norm is None
    assert share <= 0.15


@pytest.mark.parametrize(("mode", "bits"), [*MODES, ("fast", 1)])
def test_the_self_test_passes(mode: str, bits: int) -> None:
    verdict = selftest(made(mode, bits), fixture.states(COUNT)[:64])

    assert verdict.passed, verdict
