"""Heads on small and odd matrices, against dense and against the float64 reference."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heads import head, hidden, sketch_of
from vplug_logits import digest
from vplug_logits.clusters import balanced_clusters
from vplug_logits.config import Config
from vplug_logits.counters import REASONS
from vplug_logits.errors import BadInputError, ConfigError
from vplug_logits.head import Head
from vplug_logits.kernels import registry
from vplug_logits.kernels.plain import PlainBackend
from vplug_logits.reference import clusters as reference_clusters
from vplug_logits.reference import dense
from vplug_logits.reference import sketch as reference
from vplug_logits.sketch import Clusters, Sketch

VOCABULARY, WIDTH = 2051, 46  # neither is a multiple of what the codes are packed in
STATES = 100
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
CERTAIN = [("exact", 8, 16), ("safe", 4, 32), ("safe", 2, 32)]
MODES = [*CERTAIN, ("fast", 2, 128), ("clusters", 2, 256)]


@pytest.fixture(scope="module", autouse=True, params=["cpu", "torch"])
def serving(request: pytest.FixtureRequest) -> Iterator[str]:
    """What holds for a head holds for each backend: the kernels' step in one, and rounds led from here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_ORDER", {"cpu": (request.param,)})
        yield request.param


@cache
def weight_of(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return head(VOCABULARY, WIDTH).to(dtype)


@cache
def states_of(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return hidden(STATES, WIDTH, seed=5).to(dtype)


@cache
def parts_of(dtype: torch.dtype, bits: int) -> Sketch:
    return sketch_of(weight_of(dtype), hidden(500, WIDTH), bits)


@cache
def clusters_of(dtype: torch.dtype) -> Clusters:
    return balanced_clusters(weight_of(dtype), iterations=1)


def made(mode: str, bits: int, rows: int, dtype: torch.dtype = torch.float32, **more: Any) -> Head:
    """A head of the usual weight."""
    config = Config.of(mode, bits=bits, rows=rows, outside=more.pop("outside", "estimates"))
    if mode == "clusters":
        more["clusters"] = clusters_of(dtype)
    elif mode != "dense":
        more["sketch"] = parts_of(dtype, bits)
    return Head(more.pop("weight", weight_of(dtype)), config, **more)


def linear(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(states, weight)


def unexplained(ours: torch.Tensor, theirs: torch.Tensor, logits: torch.Tensor) -> int:
    """Tokens that differ though their dense logits differ by more than a rounding step (and float32's sums)."""
    wide = logits.double()
    best, won = wide.gather(1, theirs[:, None]), wide.gather(1, ours[:, None])
    room = dense.rounding_step(best, logits.dtype) + 1e-5 * wide.abs().amax(1, keepdim=True)
    return int((best - won > room).sum())


# What the logits are.


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("mode", "bits", "rows"), CERTAIN)
def test_exact_and_safe_give_the_token_of_dense(mode: str, bits: int, rows: int, dtype: torch.dtype) -> None:
    states, ours = states_of(dtype), made(mode, bits, rows, dtype)
    wanted = linear(states, weight_of(dtype))

    logits = ours.logits(states)

    assert unexplained(logits.argmax(1), wanted.argmax(1), wanted) == 0
    assert int((logits.argmax(1) != wanted.argmax(1)).sum()) <= (0 if dtype is torch.float32 else 1)
    found = ours.counters.snapshot()
    # Two bits say little of a head this narrow: some states go dense, but far from all.
    assert found["fallback_rows"] <= (0 if bits > 2 else 0.75 * STATES)
    assert set(found["fallbacks"]) <= {"window"}
    assert found["rescored_rows"] >= rows * (found["rows"] - found["fallback_rows"])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("mode", "bits", "rows"), MODES)
def test_logits_are_fresh_contiguous_and_of_the_dense_dtype(
    mode: str, bits: int, rows: int, dtype: torch.dtype
) -> None:
    ours, states = made(mode, bits, rows, dtype), states_of(dtype)[:7]
    first = ours.logits(states)
    kept, weight = first.clone(), ours.weight.clone()
    first.fill_(-torch.inf)

    assert first.shape == (7, VOCABULARY)
    assert first.dtype is dtype
    assert first.is_contiguous()
    assert torch.equal(ours.logits(states), kept)
    assert torch.equal(ours.weight, weight)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("mode", "bits", "rows"), MODES)
def test_rescored_rows_are_exact_and_no_other_reaches_the_best(
    mode: str, bits: int, rows: int, dtype: torch.dtype
) -> None:
    states = states_of(dtype)
    wanted = dense.logits(weight_of(dtype), states).to(dtype)
    full = made(mode, bits, rows, dtype).logits(states)
    bare = made(mode, bits, rows, dtype, outside="-inf").logits(states)
    inside = torch.isfinite(bare)
    two_stage = inside.sum(1) < VOCABULARY
    step = dense.rounding_step(wanted, dtype) + 1e-5 * wanted.double().abs().amax()
    best = full.masked_fill(~inside, -torch.inf).amax(1, keepdim=True)

    assert int(two_stage.sum()) >= STATES / 4
    assert bool(((full.double() - wanted.double()).abs() <= step)[inside].all())
    assert torch.equal(full[inside], bare[inside])
    assert bool((full < best)[~inside].all())
    assert bool(torch.isfinite(full).all())


@pytest.mark.parametrize("bits", [1, 2])
def test_outside_stand_the_estimates_and_those_that_were_lowered_are_counted(bits: int) -> None:
    states, ours = states_of(), made("fast", bits, 8)
    wanted, _ = reference.estimates(parts_of(torch.float32, bits), states)
    assert ours._parts is not None
    found = ours._parts.estimate(states)
    coarse = found.coarse.double()[:, None]  # what rounding h' may change
    logits = ours.logits(states)
    outside = ~torch.isfinite(made("fast", bits, 8, outside="-inf").logits(states))
    best = logits.amax(1, keepdim=True)
    below = outside & (found.values < best - 1e-2)
    lowered = outside & (found.values > best + 1e-2)

    away = (logits.double() - wanted).abs()
    assert bool((away <= coarse + 1e-4 * wanted.abs() + 1e-3)[below].all())
    assert int(lowered.sum()) > 0
    assert bool((logits[lowered] > (best - 1e-3).expand_as(logits)[lowered]).all())
    assert ours.counters.snapshot()["clipped"] >= int(lowered.sum())


def test_clusters_score_what_the_reference_probes() -> None:
    states, ours = states_of(), made("clusters", 2, 256)
    wanted = reference_clusters.logits(clusters_of(torch.float32), weight_of(), states, 256 // 16)
    mask = reference_clusters.probed(clusters_of(torch.float32), states, 256 // 16)

    logits = ours.logits(states)
    best = wanted.masked_fill(~mask, -torch.inf).amax(1, keepdim=True)
    expected = torch.where(mask, wanted, torch.minimum(wanted, best))

    assert torch.allclose(logits.double(), expected, rtol=1e-4, atol=1e-3)
    assert ours.counters.snapshot()["rescored_most"] <= 256


@pytest.mark.parametrize(("mode", "bits", "rows"), MODES)
def test_the_answer_for_a_state_does_not_depend_on_its_batch(mode: str, bits: int, rows: int) -> None:
    ours, states = made(mode, bits, rows, outside="-inf"), states_of()[:40]
    together = ours.logits(states)
    alone = torch.cat([ours.logits(state[None]) for state in states])

    assert torch.equal(together.argmax(1), alone.argmax(1))
    assert torch.equal(torch.isfinite(together), torch.isfinite(alone))
    inside = torch.isfinite(together)
    assert torch.allclose(together[inside], alone[inside], rtol=1e-5, atol=1e-4)


def test_many_states_are_answered_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = made("safe", 4, 32).logits(states_of())
    monkeypatch.setattr("vplug_logits.head._SCRATCH", 4 * VOCABULARY * 7)
    ours = made("safe", 4, 32)

    assert torch.allclose(ours.logits(states_of()), wanted, rtol=1e-5, atol=1e-4)
    assert ours.counters.snapshot()["steps"] == 1


# Heads and states of any kind.


def _odd(kind: str, vocabulary: int, width: int, seed: int) -> torch.Tensor:
    weight = head(vocabulary, width, seed=seed)
    if kind == "twins":  # each row several times, far apart
        weight = weight[torch.arange(vocabulary) % max(1, vocabulary // 3)]
    elif kind == "zeros":
        weight[torch.arange(vocabulary) % 3 == 0] = 0.0
    elif kind == "one row":
        weight = weight[:1].expand(vocabulary, -1).clone()
    elif kind == "outliers":
        weight[:: max(1, vocabulary // 4)] *= 50.0
    elif kind == "tiny":
        weight *= 1e-3
    elif kind == "spikes":
        weight[:, 0] *= 100.0
    return weight


KINDS = ["plain", "twins", "zeros", "one row", "outliers", "tiny", "spikes"]


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    mode=st.sampled_from(CERTAIN),
    vocabulary=st.integers(1, 400),
    width=st.integers(1, 24),
    many=st.integers(1, 9),
    seed=st.integers(0, 1000),
    cap=st.sampled_from([None, 5.0, 30.0]),
)
def test_whatever_the_head_the_token_is_the_dense_one(
    kind: str,
    dtype: torch.dtype,
    mode: tuple[str, int, int],
    vocabulary: int,
    width: int,
    many: int,
    seed: int,
    cap: float | None,
) -> None:
    weight = _odd(kind, vocabulary, width, seed).to(dtype)
    states = (hidden(many, width, seed=seed + 1) / (1 + seed % 5)).to(dtype)
    name, bits, rows = mode
    config = Config.of(name, bits=bits, rows=min(rows, max(1, vocabulary // 32)))
    ours = Head(weight, config, sketch=sketch_of(weight, hidden(60, width), bits), cap=cap)

    logits = ours.logits(states)

    wanted = linear(states, weight)
    assert unexplained(logits.argmax(1), wanted.argmax(1), wanted) == 0
    assert "error" not in ours.counters.snapshot()["fallbacks"]
    # Of rows that are the same, the first one wins here as it does densely, also after a cap has made others equal.
    drawn = ours.sample(states, temperature=0.0, seed=0, steps=torch.arange(many))
    after = ours._after
    truth = after(dense.logits(weight, states).to(dtype))
    close = truth.gather(1, drawn[:, None]).double()
    best = truth.double().amax(1, keepdim=True)
    assert bool((best - close <= 2 * dense.rounding_step(best, dtype) + 1e-5 * best.abs()).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_equal_rows_the_smallest_id_wins(dtype: torch.dtype) -> None:
    weight = weight_of(dtype)[torch.arange(VOCABULARY) % 1000].contiguous()
    ours = Head(weight, Config.of("exact", rows=4), sketch=sketch_of(weight, hidden(500, WIDTH), 8))
    states = states_of(dtype)

    winners = ours.logits(states).argmax(1)

    assert bool((winners < 1000).all())
    assert torch.equal(winners, ours.logits(states)[:, :1000].argmax(1))
    assert ours.counters.snapshot()["fallback_rows"] == 0


def test_logits_that_only_rounding_makes_equal_are_all_rescored() -> None:
    # In bfloat16 logits around 100 lie 0.5 apart: rows that differ by less must all be looked at.
    weight = torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(0)) * 0.01
    weight[:, 0] = 1.0
    weight = weight.bfloat16()
    states = torch.zeros(1, WIDTH, dtype=torch.bfloat16)
    states[0, 0], states[0, 1] = 100.0, 1.0
    ours = Head(weight, Config.of("exact", rows=4), sketch=sketch_of(weight, hidden(500, WIDTH), 8))

    assert int(ours.logits(states).argmax(1)) == int(linear(states, weight).argmax(1)) == 0
    assert ours.counters.snapshot()["fallbacks"] == {"window": 1}


@pytest.mark.parametrize("cap", [2.0, 10.0, 30.0])
@pytest.mark.parametrize(("mode", "bits", "rows"), [("exact", 8, 16), ("safe", 4, 32)])
def test_under_a_soft_cap_in_bfloat16_the_token_is_the_dense_one(mode: str, bits: int, rows: int, cap: float) -> None:
    states = states_of(torch.bfloat16)
    ours = made(mode, bits, rows, torch.bfloat16, cap=cap)
    after = ours._after
    wanted = after(linear(states, weight_of(torch.bfloat16)))

    logits = after(ours.logits(states))

    assert int((logits.argmax(1) != wanted.argmax(1)).sum()) <= 1
    assert unexplained(logits.argmax(1), wanted.argmax(1), wanted) == 0


@pytest.mark.parametrize("vocabulary", [1, 2, 63, 64, 65])
@pytest.mark.parametrize("mode", ["exact", "safe", "fast", "clusters"])
def test_a_vocabulary_of_few_rows_is_answered(vocabulary: int, mode: str) -> None:
    weight, states = head(vocabulary, 7), hidden(3, 7, seed=2)
    config = Config.of(mode)
    sketch = None if mode == "clusters" else sketch_of(weight, hidden(20, 7), config.bits)
    clusters = balanced_clusters(weight) if mode == "clusters" else None
    logits = Head(weight, config, sketch=sketch, clusters=clusters).logits(states)

    if mode != "clusters" or vocabulary <= 16:
        assert torch.equal(logits.argmax(1), linear(states, weight).argmax(1))
    assert logits.shape == (3, vocabulary)


@pytest.mark.parametrize(("mode", "bits", "rows"), [*MODES, ("dense", 2, 0)])
def test_no_states_give_no_logits(mode: str, bits: int, rows: int) -> None:
    ours = made(mode, bits, rows, torch.bfloat16)
    empty = torch.empty(0, WIDTH, dtype=torch.bfloat16)

    assert ours.logits(empty).shape == (0, VOCABULARY)
    assert ours.logits(empty).dtype is torch.bfloat16
    assert ours.sample(empty, temperature=1.0, seed=0, steps=torch.empty(0, dtype=torch.int64)).shape == (0,)


@pytest.mark.parametrize(("mode", "bits", "rows"), MODES)
def test_states_and_weights_may_have_any_strides(mode: str, bits: int, rows: int) -> None:
    states = states_of()[:6]
    wanted = made(mode, bits, rows).logits(states)
    spread = torch.zeros(6, 2 * WIDTH)
    spread[:, ::2] = states
    turned = weight_of().T.contiguous().T

    assert not turned.is_contiguous()
    for found in (
        made(mode, bits, rows).logits(spread[:, ::2]),
        made(mode, bits, rows).logits(states.T.contiguous().T),
        made(mode, bits, rows, weight=turned).logits(states),
    ):
        assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-4)


# Padding.


@pytest.mark.parametrize("fill", [0.0, 7.0])
@pytest.mark.parametrize(("mode", "bits", "rows"), MODES)
def test_padding_rows_are_dense_and_hide_no_real_winner(mode: str, bits: int, rows: int, fill: float) -> None:
    # All real logits are negative, so zeros of the padding are the largest.
    states = states_of().abs()
    weight = torch.cat([-weight_of().abs(), torch.full((61, WIDTH), fill)])
    more: dict[str, Any] = (
        {"clusters": balanced_clusters(weight[:VOCABULARY], iterations=1)}
        if mode == "clusters"
        else {"sketch": sketch_of(weight[:VOCABULARY], states, bits)}
    )
    ours = Head(weight, Config.of(mode, bits=bits, rows=rows), **more)
    wanted = linear(states, weight)

    logits = ours.logits(states)

    assert logits.shape == (STATES, VOCABULARY + 61)
    assert torch.allclose(logits[:, VOCABULARY:], wanted[:, VOCABULARY:], rtol=1e-5, atol=1e-3)
    if mode in {"exact", "safe"}:
        assert torch.equal(logits.argmax(1), wanted.argmax(1))
        real, dense_real = logits[:, :VOCABULARY].argmax(1), wanted[:, :VOCABULARY].argmax(1)
        assert torch.equal(real, dense_real)
    drawn = ours.sample(states, temperature=1.0, seed=0, steps=torch.arange(STATES))
    assert int(drawn.max()) < VOCABULARY


def test_a_shard_that_is_all_padding_is_dense() -> None:
    sketch = parts_of(torch.float32, 8)
    nothing = replace(
        sketch, vocabulary=0, codes=sketch.codes[:0], scale=sketch.scale[:0], residual=sketch.residual[:0]
    )
    weight = torch.zeros(64, WIDTH)
    ours = Head(weight, Config.of("exact"), sketch=nothing, start=VOCABULARY)

    assert torch.equal(ours.logits(states_of()[:3]), torch.zeros(3, 64))
    assert ours.counters.snapshot()["fallback_rows"] == 3


# What goes dense, and why.


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(("mode", "bits", "rows"), [("exact", 8, 16), ("safe", 4, 32), ("clusters", 2, 256)])
def test_a_state_with_nan_is_dense_and_its_neighbours_are_not(mode: str, bits: int, rows: int, bad: float) -> None:
    ours, states = made(mode, bits, rows), states_of()[:5].clone()
    clean = ours.logits(states)
    ours.counters.reset()
    states[2, 3] = bad

    logits = ours.logits(states)

    assert torch.equal(logits[2:3].nan_to_num(7e7), linear(states[2:3], weight_of()).nan_to_num(7e7))
    others = torch.tensor([0, 1, 3, 4])
    assert torch.allclose(logits[others], clean[others], rtol=1e-5, atol=1e-4)
    assert ours.counters.snapshot()["fallbacks"] == {"states": 1}


@pytest.mark.parametrize("size", [1e30, 1e38])
def test_states_whose_logits_overflow_get_what_dense_gives(size: float) -> None:
    ours = made("exact", 8, 16)
    states = states_of()[:2].clone()
    states[0] *= size / float(states[0].abs().max())

    logits = ours.logits(states)

    wanted = linear(states, weight_of())
    assert torch.equal(logits.argmax(1), wanted.argmax(1))
    assert torch.equal(logits.isfinite(), wanted.isfinite())
    assert ours.counters.snapshot()["fallbacks"] in ({}, {"overflow": 1})


def test_logits_that_float16_cannot_hold_get_what_dense_gives() -> None:
    weight, states = (weight_of() * 4000).half(), states_of(torch.float16)
    ours = Head(weight, Config.of("exact", rows=16), sketch=sketch_of(weight, hidden(500, WIDTH), 8))
    wanted = linear(states, weight)

    logits = ours.logits(states)

    assert torch.equal(logits.argmax(1), wanted.argmax(1))
    assert ours.counters.snapshot()["fallbacks"] == {"overflow": int((wanted.amax(1) == torch.inf).sum())}
    assert int((wanted.amax(1) == torch.inf).sum()) >= 1


def test_a_state_of_zeros_has_all_rows_in_its_window() -> None:
    ours, states = made("exact", 8, 16), states_of()[:3].clone()
    states[1] = 0.0

    assert torch.equal(ours.logits(states)[1], torch.zeros(VOCABULARY))
    assert ours.counters.snapshot()["fallbacks"] == {"window": 1}


def test_fallback_rows_are_what_the_hosts_dense_gives() -> None:
    asked: list[int] = []

    def host(states: torch.Tensor) -> torch.Tensor:
        asked.append(states.shape[0])
        return torch.full((states.shape[0], VOCABULARY), 42.0)

    ours, states = made("safe", 4, 32, dense=host), states_of()[:6].clone()
    states[[1, 4]] = float("nan")

    logits = ours.logits(states)

    assert asked == [2]
    assert bool((logits[[1, 4]] == 42.0).all())
    assert not bool((logits[[0, 2, 3, 5]] == 42.0).any())


@pytest.mark.parametrize("bits", [2, 4])
def test_a_weight_that_is_written_to_is_answered_densely(bits: int) -> None:
    weight = weight_of().clone()
    ours, states = made("safe", bits, 32, weight=weight), states_of()
    ours.logits(states)
    ours.counters.reset()
    weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))

    assert torch.equal(ours.logits(states), linear(states, weight))
    assert ours.counters.snapshot()["fallbacks"] == {"weight": STATES}


def test_a_weight_that_is_written_to_past_torch_is_rescored_as_it_is_now() -> None:
    weight = weight_of().clone()
    ours, states = made("safe", 4, 32, weight=weight, outside="-inf"), states_of()
    ours.logits(states)
    weight.data += 1e-3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))

    logits = ours.logits(states)

    wanted = linear(states, weight)
    inside = torch.isfinite(logits)
    assert torch.equal(logits.argmax(1), wanted.argmax(1))
    assert torch.allclose(logits[inside], wanted[inside], rtol=1e-4, atol=1e-3)
    assert ours.counters.snapshot()["fallback_rows"] == 0


def test_rows_that_were_changed_past_torch_are_counted_on_request_and_make_the_head_dense() -> None:
    weight = weight_of().clone()
    ours = made("safe", 4, 32, weight=weight, digests=digest.of_rows(weight))
    assert ours.changed_rows() == 0
    weight.data[3, 0] += 1e-3
    weight.data[70:72] *= 1.001

    assert ours.changed_rows() == 3
    assert torch.equal(ours.logits(states_of()), linear(states_of(), weight))
    assert ours.counters.snapshot()["fallbacks"] == {"drift": STATES}


def test_a_head_without_digests_says_that_it_cannot_tell() -> None:
    with pytest.raises(BadInputError, match="without digests"):
        made("safe", 4, 32).changed_rows()


@pytest.mark.parametrize(("mode", "bits", "rows"), [("exact", 8, 16), ("safe", 4, 32), ("fast", 4, 32)])
def test_a_weight_that_became_another_is_noticed_and_answered_densely(mode: str, bits: int, rows: int) -> None:
    weight = weight_of().clone()
    ours = made(mode, bits, rows, weight=weight)
    weight.data.copy_(head(VOCABULARY, WIDTH, seed=77))

    logits = ours.logits(states_of())

    assert torch.equal(logits.argmax(1), linear(states_of(), weight).argmax(1))
    assert set(ours.counters.snapshot()["fallbacks"]) <= {"drift", "window"}
    assert ours.counters.snapshot()["fallbacks"]["drift"] > STATES / 2


def test_one_logit_that_no_code_allows_makes_all_that_follow_dense() -> None:
    weight = weight_of().clone()
    ours, states = made("safe", 2, 32, weight=weight), states_of()
    ours.logits(states)
    ours.counters.reset()
    weight.data += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    ours.logits(states[:50])

    logits = ours.logits(states[50:])

    assert ours.drifted
    assert torch.equal(logits, linear(states[50:], weight))
    assert set(ours.counters.snapshot()["fallbacks"]) <= {"drift", "window"}
    assert ours.counters.snapshot()["fallback_rows"] == STATES


def test_nan_that_came_into_the_weight_is_given_as_dense_gives_it() -> None:
    weight = weight_of().clone()
    ours = made("exact", 8, 16, weight=weight)
    winner = int(ours.logits(states_of()[:1]).argmax(1))
    weight.data[winner] = float("nan")

    assert int(ours.logits(states_of()[:1]).argmax(1)) == winner
    assert ours.counters.snapshot()["fallbacks"] == {"overflow": 1}


@pytest.mark.parametrize("change", ["data", "dtype"])
def test_a_replaced_weight_is_answered_densely(change: str) -> None:
    weight = torch.nn.Parameter(weight_of().clone(), requires_grad=False)
    ours = made("exact", 8, 16, weight=weight)
    weight.data = head(VOCABULARY, WIDTH, seed=8) if change == "data" else weight.data.bfloat16()
    states = states_of()[:3].to(weight.dtype)

    assert torch.equal(ours.logits(states), linear(states, weight))
    assert ours.counters.snapshot()["fallbacks"] == {"weight": 3}


def test_gradients_pass_through_the_dense_head() -> None:
    weight = torch.nn.Parameter(weight_of().clone())
    ours = made("exact", 8, 16, weight=weight)
    states = states_of()[:2].clone().requires_grad_()
    ours.logits(states).sum().backward()  # type: ignore[no-untyped-call]

    assert weight.grad is not None
    assert states.grad is not None
    assert ours.counters.snapshot()["fallbacks"] == {"grad": 2}
    with torch.no_grad():
        assert not ours.logits(states).requires_grad
    assert ours.counters.snapshot()["fallback_rows"] == 2


def test_under_autocast_the_answer_is_the_one_autocast_gives() -> None:
    ours, states = made("exact", 8, 16), states_of()[:2]
    with torch.autocast("cpu", torch.bfloat16):
        logits = ours.logits(states)

    assert logits.dtype is torch.bfloat16
    assert ours.counters.snapshot()["fallbacks"] == {"autocast": 2}


def test_states_of_another_dtype_raise_what_dense_raises() -> None:
    ours = made("exact", 8, 16, torch.bfloat16)

    with pytest.raises(RuntimeError, match="dtype"):
        ours.logits(states_of()[:2])
    assert ours.counters.snapshot()["fallbacks"] == {"dtype": 2}


def test_a_host_that_widens_for_its_head_gets_the_wide_dtype() -> None:
    # vLLM's head_dtype=float32 over a bfloat16 weight.
    weight, states = weight_of(torch.bfloat16), states_of(torch.bfloat16)

    def host(given: torch.Tensor) -> torch.Tensor:
        return linear(given.float(), weight.float())

    sketch = parts_of(torch.bfloat16, 8)
    ours = Head(weight, Config.of("exact", rows=16), sketch=sketch, dense=host, dtype=torch.float32)
    logits = ours.logits(states)

    assert logits.dtype is torch.float32
    assert torch.equal(logits.argmax(1), host(states).argmax(1))
    assert torch.allclose(logits.amax(1), host(states).amax(1), rtol=1e-5)
    assert ours.counters.snapshot()["fallback_rows"] == 0


def test_a_compiled_graph_keeps_its_dense_head() -> None:
    ours, states = made("exact", 8, 16), states_of()[:3]
    compiled = torch.compile(ours.logits, backend="eager", fullgraph=True)

    assert torch.allclose(compiled(states), linear(states, weight_of()), rtol=1e-5, atol=1e-4)


class _Broken(PlainBackend):
    def scan(self, sketch: Sketch, transformed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        raise RuntimeError("no such kernel")


def test_a_backend_that_raises_is_told_once_and_the_answer_is_dense(caplog: pytest.LogCaptureFixture) -> None:
    ours, states = made("exact", 8, 16, backend=_Broken()), states_of()[:3]
    with caplog.at_level(logging.ERROR, logger="vplug_logits"):
        first, second = ours.logits(states), ours.logits(states)
        drawn = ours.sample(states, temperature=0.0, seed=0, steps=torch.arange(3))

    assert torch.equal(first, linear(states, weight_of()))
    assert torch.equal(second, first)
    assert torch.equal(drawn, first.argmax(1))
    assert ours.counters.snapshot()["fallbacks"] == {"error": 9}
    assert len(caplog.records) == 1
    assert "no such kernel" in str(caplog.records[0].exc_info)


def test_products_in_less_than_float32_widen_the_window_and_change_no_token() -> None:
    ours, states = made("exact", 8, 16), states_of()
    before = torch.get_float32_matmul_precision()
    usual = ours._parts.estimate(states).slack  # type: ignore[union-attr]
    try:
        torch.set_float32_matmul_precision("medium")
        logits = ours.logits(states)
        wider = ours._parts.estimate(states).slack  # type: ignore[union-attr]
    finally:
        torch.set_float32_matmul_precision(before)

    assert torch.equal(logits.argmax(1), dense.argmax(dense.logits(weight_of(), states)))
    assert bool((wider > 100 * usual).all())


@pytest.mark.skipif(not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="it came with torch 2.9")
@pytest.mark.parametrize(
    ("setting", "widens"),
    [("cuda.matmul.fp32_precision = 'tf32'", False), ("mkldnn.matmul.fp32_precision = 'bf16'", True)],
)
def test_so_does_the_newer_setting_of_products_on_this_device(setting: str, widens: bool) -> None:
    # In a process of its own: once it was set, torch raises where the older one is read.
    program = f"""
import torch
from test_head import made, states_of
ours = made("exact", 8, 16)
usual = ours._parts.estimate(states_of()).slack
torch.backends.{setting}
wider = ours._parts.estimate(states_of()).slack
ours.logits(states_of())
print(bool((wider > 100 * usual).all()), "error" in ours.counters.snapshot()["fallbacks"])
"""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent / "python")])
    environment = os.environ | {"PYTHONPATH": paths}
    child = subprocess.run(  # this interpreter
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert child.stdout.split() == [str(widens), "False"]


def test_dense_mode_is_dense_and_no_fallback() -> None:
    ours, states = made("dense", 2, 0), states_of()[:4]

    assert torch.equal(ours.logits(states), linear(states, weight_of()))
    assert ours.counters.snapshot()["rows"] == 4
    assert ours.counters.snapshot()["fallback_rows"] == 0


def test_the_seconds_of_a_step_hold_those_of_dense_for_the_states_that_were_given_up() -> None:
    def slow(states: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return linear(states, weight_of())

    ours, states = made("safe", 4, 32, dense=slow), states_of()[:3].clone()
    states[1] = float("nan")
    ours.logits(states)
    assert ours.counters.snapshot()["seconds"] >= 0.05


@pytest.mark.parametrize("kind", [torch.float64, torch.float16])
def test_a_host_that_rounds_in_its_own_dense_head_may_hand_over_any_floats(kind: torch.dtype) -> None:
    states = states_of()[:6].to(kind)
    ours = made("safe", 4, 32, dense=lambda given: linear(given.float(), weight_of()))

    logits = ours.logits(states)

    assert torch.equal(logits.argmax(1), linear(states.float(), weight_of()).argmax(1))
    assert ours.error is None
    assert set(ours.counters.snapshot()["fallbacks"]) <= {"window"}


def test_counters_say_what_was_done() -> None:
    ours, states = made("safe", 4, 32), states_of()[:10].clone()
    states[3] = float("nan")
    ours.logits(states)
    ours.logits(states[:1])
    found = ours.counters.snapshot()

    assert (found["steps"], found["rows"], found["fallback_steps"]) == (2, 11, 1)
    assert found["fallbacks"] == {"states": 1}
    assert 10 * 32 <= found["rescored_rows"] <= 10 * found["rescored_most"]
    assert found["seconds"] >= (found["scan_seconds"] + found["rescore_seconds"]) * (1 - 1e-9) > 0
    assert set(found["fallbacks"]) <= set(REASONS)


# What is refused.


@pytest.mark.parametrize("shape", [(3,), (3, WIDTH + 1), (1, 3, WIDTH)])
def test_states_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInputError, match="do not fit a head of width 46"):
        made("exact", 8, 16).logits(torch.zeros(shape))


def test_parts_that_are_missing_or_do_not_fit_are_refused() -> None:
    weight, sketch = weight_of(), parts_of(torch.float32, 8)
    exact = Config.of("exact")
    refused: list[tuple[str, Any]] = [
        ("needs a sketch", lambda: Head(weight, exact)),
        ("needs clusters", lambda: Head(weight, Config.of("clusters"), sketch=sketch)),
        ("2 bits", lambda: Head(weight, exact, sketch=parts_of(torch.float32, 2))),
        ("does not fit", lambda: Head(weight[:-1], exact, sketch=sketch)),
        ("does not fit", lambda: Head(weight[:, :-1], exact, sketch=sketch)),
        ("no sketch of 2051 x 46", lambda: Head(weight, exact, sketch=replace(sketch, codes=sketch.codes[:-1]))),
        ("no sketch of 2051 x 46", lambda: Head(weight, exact, sketch=replace(sketch, mean=sketch.mean[:-1]))),
        ("matrix of float32", lambda: Head(weight.long(), exact, sketch=sketch)),
        ("matrix of float32", lambda: Head(weight.double(), exact, sketch=sketch)),
        ("float64", lambda: Head(weight, exact, sketch=sketch, dtype=torch.float64)),
        ("width", lambda: Head(weight[:, :-1], Config.of("clusters"), clusters=clusters_of(torch.float32))),
    ]
    for text, make in refused:
        with pytest.raises(BadInputError, match=text):
            make()
    with pytest.raises(ConfigError, match="cap"):
        Head(weight, exact, sketch=sketch, cap=-1.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_weight_with_nan_or_infinity_is_refused(bad: float) -> None:
    weight = weight_of().clone()
    weight[17, 3] = bad

    with pytest.raises(BadInputError, match="NaN"):
        made("exact", 8, 16, weight=weight)


# Draws.


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("mode", "bits", "rows"), [("exact", 8, 16), ("safe", 4, 32)])
def test_a_draw_is_the_one_of_the_dense_logits_with_the_same_noise(
    mode: str, bits: int, rows: int, dtype: torch.dtype
) -> None:
    from vplug_logits.noise import gumbel

    states = states_of(dtype)
    wanted = linear(states, weight_of(dtype)).double()
    for temperature, seed in ((0.3, 1), (1.0, 2), (1.5, 3)):
        ours = made(mode, bits, rows, dtype)
        steps = torch.arange(STATES) * 3
        drawn = ours.sample(states, temperature=temperature, seed=seed, steps=steps)
        noise = gumbel(seed, steps, range(VOCABULARY))

        assert int((drawn != (wanted / temperature + noise).argmax(1)).sum()) <= (0 if dtype is torch.float32 else 1)
        assert ours.counters.snapshot()["fallback_rows"] <= STATES / 2


def test_none_of_five_thousand_draws_differs() -> None:
    from vplug_logits.noise import gumbel

    weight, states, steps = head(1027, 24), hidden(2600, 24, seed=31), torch.arange(2600)
    wanted = (linear(states, weight).double() + gumbel(9, steps, range(1027))).argmax(1)
    for mode, bits in (("exact", 8), ("safe", 4)):
        sketch = sketch_of(weight, hidden(500, 24), bits)
        ours = Head(weight, Config.of(mode, bits=bits, rows=16), sketch=sketch)

        assert torch.equal(ours.sample(states, temperature=1.0, seed=9, steps=steps), wanted)
        assert ours.counters.snapshot()["fallback_rows"] < 130


def test_it_is_the_window_that_finds_the_winner() -> None:
    from vplug_logits.noise import gumbel

    states, steps = states_of(), torch.arange(STATES)
    dense_logits = linear(states, weight_of())
    wanted = dense_logits.argmax(1), (dense_logits.double() + gumbel(2, steps, range(VOCABULARY))).argmax(1)
    for mode, bits in (("fast", 4), ("safe", 4)):
        ours = made(mode, bits, 1)
        found = ours.logits(states).argmax(1), ours.sample(states, temperature=1.0, seed=2, steps=steps)
        misses = [int((mine != theirs).sum()) for mine, theirs in zip(found, wanted, strict=True)]

        # With one row, the best estimate, it often is not.
        assert misses == [0, 0] if mode == "safe" else min(misses) >= 3
        assert ours.counters.snapshot()["fallback_rows"] <= STATES / 5


def test_each_state_has_its_temperature_and_zero_is_greedy() -> None:
    ours, states = made("exact", 8, 16), states_of()[:60]
    heat = torch.tensor([0.0, 1.0, 0.5]).repeat(20)
    steps = torch.arange(60)

    together = ours.sample(states, temperature=heat, seed=3, steps=steps)

    assert torch.equal(together[::3], linear(states[::3], weight_of()).argmax(1))
    for offset, temperature in ((1, 1.0), (2, 0.5)):
        part = slice(offset, None, 3)
        alone = ours.sample(states[part], temperature=temperature, seed=3, steps=steps[part])
        assert torch.equal(together[part], alone)


@pytest.mark.parametrize(("cap", "scale"), [(5.0, 1.0), (None, 0.25), (20.0, 2.0)])
def test_a_draw_is_of_the_logits_after_the_hosts_cap_and_scale(cap: float | None, scale: float) -> None:
    from vplug_logits.noise import gumbel

    states = states_of()
    ours = made("exact", 8, 16, cap=cap, scale=scale)
    steps = torch.arange(STATES)
    wanted = ours._after(linear(states, weight_of()))

    drawn = ours.sample(states, temperature=1.0, seed=1, steps=steps)

    noise = gumbel(1, steps, range(VOCABULARY))
    assert torch.equal(drawn, (wanted.double() + noise).argmax(1))


def test_a_state_with_nan_is_drawn_as_dense_does() -> None:
    ours, states = made("exact", 8, 16), states_of()[:3].clone()
    clean = ours.sample(states, temperature=1.0, seed=1, steps=torch.arange(3))
    states[1, 0] = float("nan")

    drawn = ours.sample(states, temperature=1.0, seed=1, steps=torch.arange(3))

    assert drawn.tolist() == [int(clean[0]), 0, int(clean[2])]
    assert ours.counters.snapshot()["fallbacks"] == {"states": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1.0, "steps": torch.arange(3)},
        {"temperature": float("nan"), "steps": torch.arange(3)},
        {"temperature": torch.ones(2), "steps": torch.arange(3)},
        {"temperature": 1.0, "steps": torch.arange(2)},
        {"temperature": 1.0, "steps": torch.zeros(3)},
    ],
    ids=["negative", "nan", "temperatures", "steps", "float steps"],
)
def test_temperatures_and_steps_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="temperature"):
        made("exact", 8, 16).sample(states_of()[:3], seed=0, **wrong)
