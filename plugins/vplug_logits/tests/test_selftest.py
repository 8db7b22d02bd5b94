from __future__ import annotations

import pytest
import torch

from heads import head, hidden, sketch_of
from vplug_logits.clusters import balanced_clusters
from vplug_logits.config import Config
from vplug_logits.head import Head
from vplug_logits.kernels.plain import PlainBackend
from vplug_logits.selftest import selftest
from vplug_logits.sketch import Sketch

WIDTH, VOCABULARY = 40, 2000
WEIGHT, KEPT = head(VOCABULARY, WIDTH), hidden(64, WIDTH, seed=5)
CALIBRATION = hidden(500, WIDTH)


def _head(mode: str, bits: int, rows: int, weight: torch.Tensor = WEIGHT, seed: int = 0) -> Head:
    return Head(WEIGHT, Config.of(mode, bits=bits, rows=rows), sketch=sketch_of(weight, CALIBRATION, bits, seed=seed))


@pytest.mark.parametrize(("mode", "bits", "rows"), [("exact", 8, 16), ("safe", 4, 32), ("fast", 4, 32)])
def test_a_sound_head_passes_and_its_counters_do_not_see_it(mode: str, bits: int, rows: int) -> None:
    sound = _head(mode, bits, rows)
    verdict = selftest(sound, KEPT)

    assert verdict.passed, verdict
    assert verdict.misses == 0
    assert verdict.states == 64 + 32
    assert sound.counters.snapshot()["steps"] == 0


def test_without_real_states_made_up_ones_are_compared() -> None:
    verdict = selftest(_head("exact", 8, 16), random=7)

    assert verdict.passed
    assert verdict.states == 7


def test_the_sketch_of_another_head_fails() -> None:
    other = head(VOCABULARY, WIDTH, seed=9)
    for mode, bits in (("exact", 8), ("safe", 4), ("fast", 4)):
        verdict = selftest(_head(mode, bits, 32, weight=other), KEPT)

        assert not verdict.passed
        assert "drift" in verdict.reason


def test_a_fast_head_that_misses_too_often_fails() -> None:
    verdict = selftest(_head("fast", 1, 1), KEPT)

    assert not verdict.passed
    assert "another token wins" in verdict.reason
    assert verdict.misses > 3


def test_a_head_whose_states_mostly_go_dense_fails_for_it_gains_nothing() -> None:
    verdict = selftest(_head("safe", 1, 32), KEPT)

    assert not verdict.passed
    assert "answered densely" in verdict.reason
    assert verdict.fallbacks["window"] > 32


def test_clusters_are_judged_by_their_own_bar() -> None:
    every = Config.of("clusters", rows=VOCABULARY)
    few = Config.of("clusters", rows=16)
    clusters = balanced_clusters(WEIGHT, iterations=1)

    assert selftest(Head(WEIGHT, every, clusters=clusters), KEPT).passed
    assert not selftest(Head(WEIGHT, few, clusters=clusters), KEPT).passed


def test_a_head_that_gives_another_dtype_than_dense_fails() -> None:
    sketch = sketch_of(WEIGHT, CALIBRATION, 8)
    odd = Head(WEIGHT, Config.of("exact"), sketch=sketch, dense=lambda states: (states @ WEIGHT.T).bfloat16())

    verdict = selftest(odd, KEPT)

    assert not verdict.passed
    assert "bfloat16" in verdict.reason


def test_logits_that_are_not_the_dense_ones_fail() -> None:
    sketch = sketch_of(WEIGHT, CALIBRATION, 8)
    odd = Head(WEIGHT, Config.of("exact"), sketch=sketch, dense=lambda states: 1.01 * (states @ WEIGHT.T))

    verdict = selftest(odd, KEPT)

    assert not verdict.passed
    assert "winner's logit" in verdict.reason


def test_a_backend_that_raises_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(PlainBackend):
        def transform(self, sketch: Sketch, states: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no such kernel")

    broken = Head(WEIGHT, Config.of("exact"), sketch=sketch_of(WEIGHT, CALIBRATION, 8), backend=Broken())

    verdict = selftest(broken, KEPT)

    assert not verdict.passed
    assert "'error'" in verdict.reason
