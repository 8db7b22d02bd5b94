"""Heads that are wrong on purpose, by a known amount, must be reported as exactly that."""

import math
from collections.abc import Callable

import pytest
import torch

from vplug_logits.evaluation.measures import Answer, Results, compare, truth
from vplug_logits.evaluation.measuring import measure
from vplug_logits.evaluation.report import by_domain, summary
from vplug_logits.evaluation.states import States

V, D, N = 300, 16, 48


@pytest.fixture(scope="module")
def weight() -> torch.Tensor:
    return torch.randn(V, D, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def states() -> States:
    rows = torch.randn(N, D, generator=torch.Generator().manual_seed(1))
    return States(rows, ("first", "second"), torch.arange(N) // (N // 2), torch.zeros(N, dtype=torch.int64))


class Spoiled:
    """The dense head, spoiled in every `every`-th state of those it is given one after the other."""

    kind = "baseline"

    def __init__(self, weight: torch.Tensor, every: int, how: Callable[[torch.Tensor], None]) -> None:
        self.name, self.weight, self.every, self.how, self.seen = "spoiled", weight, every, how, 0

    def answer(self, states: torch.Tensor) -> Answer:
        logits = states @ self.weight.T
        for row in range(len(logits)):
            self.seen += 1
            if self.seen % self.every == 0:
                self.how(logits[row])
        return Answer(logits)

    def read(self, rescored: float, fallback: float) -> float:
        return rescored + fallback


def swap_winner(logits: torch.Tensor) -> None:
    first, second = logits.topk(2).indices
    pair = torch.stack([first, second])
    logits[pair] = logits[pair.flip(0)]


def test_dense_itself_misses_nothing_and_moves_nothing(weight: torch.Tensor, states: States) -> None:
    found = summary(measure(weight, states, [Spoiled(weight, N + 1, swap_winner)]).results["spoiled"])
    assert (found["states"], found["misses"], found["ties"], found["top_kept"]) == (N, 0, 0, 1.0)
    assert found["variation_largest"] < 1e-5 and found["top_error_largest"] < 1e-5 and found["rest_error_mean"] < 1e-5
    assert found["rest_sigma"] is found["rescored_mean"] is found["fallback_rate"] is None


@pytest.mark.parametrize("every", [1, 3, 8])
def test_a_head_that_swaps_its_two_best_is_caught_each_time(weight: torch.Tensor, states: States, every: int) -> None:
    found = summary(measure(weight, states, [Spoiled(weight, every, swap_winner)]).results["spoiled"])
    assert found["misses"] == N // every
    assert found["miss_rate"] == (N // every) / N
    assert found["top_kept"] == 1.0  # the same twenty, in another order
    assert found["top_error_largest"] > 0


def test_misses_stay_with_their_domain(weight: torch.Tensor, states: States) -> None:
    count = 0

    def late(logits: torch.Tensor) -> None:
        nonlocal count
        count += 1
        if count > N // 2:
            swap_winner(logits)

    found = by_domain(measure(weight, states, [Spoiled(weight, 1, late)]).results["spoiled"], states)
    assert {name: one["misses"] for name, one in found.items()} == {"first": 0, "second": N // 2}


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_logit_that_is_no_number_is_a_miss_even_where_the_token_is_right(
    weight: torch.Tensor, states: States, poison: float
) -> None:
    def spoil(logits: torch.Tensor) -> None:
        logits[logits.argmax()] = poison

    found = summary(measure(weight, states, [Spoiled(weight, 4, spoil)]).results["spoiled"])
    assert found["misses"] == N // 4 and found["ties"] == 0


def test_twenty_tokens_that_are_cut_away_are_not_counted_as_kept(weight: torch.Tensor, states: States) -> None:
    def cut(logits: torch.Tensor) -> None:
        logits[logits.argsort(descending=True)[5:]] = -math.inf

    found = summary(measure(weight, states, [Spoiled(weight, 1, cut)]).results["spoiled"])
    assert found["misses"] == 0
    assert found["top_kept"] == pytest.approx(5 / 20)
    assert found["top_error_largest"] is None  # infinite: it gives no number


def test_total_variation_is_that_of_two_known_distributions() -> None:
    weight = torch.tensor([[math.log(0.7)], [math.log(0.2)], [math.log(0.1)]])
    dense = truth(weight, torch.ones(1, 1), torch.float32)
    told = torch.tensor([[0.5, 0.2, 0.3]]).log()
    found = compare(dense, Answer(told))
    assert found.variation.item() == pytest.approx(0.2, abs=1e-6)
    assert found.top_error.item() == pytest.approx(math.log(3), abs=1e-5)


def test_a_difference_of_less_than_a_rounding_step_is_a_tie_and_one_of_more_is_a_miss() -> None:
    state = torch.ones(1, 1)
    other = torch.tensor([[0.0, 1.0]])
    # Between 16 and 32 bfloat16 has steps of 0.125.
    near, far = torch.tensor([[20.1], [20.0]]), torch.tensor([[20.2], [20.0]])
    close = compare(truth(near, state, torch.bfloat16), Answer(other))
    assert (close.tied.item(), close.missed.item()) == (True, False)
    wide = compare(truth(far, state, torch.bfloat16), Answer(other))
    assert (wide.tied.item(), wide.missed.item()) == (False, True)
    fine = compare(truth(near, state, torch.float32), Answer(other))
    assert (fine.tied.item(), fine.missed.item()) == (False, True)


def test_of_equal_logits_dense_takes_the_smallest_id() -> None:
    weight = torch.tensor([[1.0], [2.0], [2.0]])
    dense = truth(weight, torch.ones(1, 1), torch.float32)
    assert dense.token.item() == 1
    assert compare(dense, Answer(torch.tensor([[0.0, 3.0, 3.0]]))).tied.item() is False
    assert compare(dense, Answer(torch.tensor([[0.0, 3.0, 4.0]]))).tied.item() is True


def test_errors_of_the_rest_are_told_in_their_own_standard_deviations() -> None:
    generator = torch.Generator().manual_seed(2)
    weight, states = torch.randn(5000, 8, generator=generator) * 0.1, torch.randn(16, 8, generator=generator)
    reach, residual = torch.rand(16, generator=generator) + 0.5, torch.rand(5000, generator=generator) * 0.01
    dense = truth(weight, states, torch.float32)
    noise = torch.randn(16, 5000, generator=generator)
    noisy = dense.logits.float() + noise * reach[:, None] * residual
    noisy.scatter_(1, dense.top, dense.logits.float().gather(1, dense.top))
    found = summary(compare(dense, Answer(noisy, reach=reach, residual=residual.clamp_min(1e-3))))
    assert 0.8 < found["rest_sigma"] <= 1.02
    assert 3.5 < found["rest_sigma_largest"] < 6
    halved = summary(compare(dense, Answer(noisy, reach=reach / 2, residual=residual.clamp_min(1e-3))))
    assert halved["rest_sigma"] == pytest.approx(2 * found["rest_sigma"], rel=1e-3)


def test_the_rest_of_a_head_that_gives_only_candidates_has_no_error_to_tell(
    weight: torch.Tensor, states: States
) -> None:
    def cut(logits: torch.Tensor) -> None:
        logits[logits.argsort(descending=True)[20:]] = -math.inf

    found = summary(measure(weight, states, [Spoiled(weight, 1, cut)]).results["spoiled"])
    assert found["rest_error_mean"] == 0.0
    assert found["variation_mean"] > 0.01


def test_rescored_rows_and_fallbacks_are_averaged_over_states_and_the_tail_is_told() -> None:
    count = 200
    zero = torch.zeros(count)
    rescored = torch.arange(1, count + 1).float()
    fallback = (torch.arange(count) < 10).float()
    yes = zero.bool()
    found = summary(Results(yes, yes, zero, zero, zero, zero, zero, zero, rescored, fallback))
    assert (found["rescored_mean"], found["rescored_p99"], found["fallback_rate"]) == (100.5, 198.0, 0.05)


def test_blocks_make_no_difference(weight: torch.Tensor, states: States, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measure(weight, states, [Spoiled(weight, 5, swap_winner)]).results["spoiled"]
    monkeypatch.setattr("vplug_logits.evaluation.measuring.BLOCK_BYTES", 7 * 8 * V)
    told: list[tuple[str, int, int]] = []
    parts = measure(weight, states, [Spoiled(weight, 5, swap_winner)], progress=lambda *at: told.append(at))
    assert torch.equal(whole.missed, parts.results["spoiled"].missed)
    assert torch.allclose(whole.variation, parts.results["spoiled"].variation, atol=1e-6)
    assert told[0] == ("measure", 7, N) and told[-1] == ("measure", N, N)
