"""An engine in one process: every feature in the modes that promise the tokens of vLLM's own head, beside that head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engines
import pytest
import torch
from engines import MODES, Started

from vplug_logits import artefact
from vplug_logits.kernels import choose

SUITES = ["alone", "together", "features", "prompt_logprobs", "distributions", "states"]


@pytest.fixture(scope="module")
def answer(started: Started, model: Path, artefacts: dict[str, Path]) -> Any:
    more = {"VPLUG_LOGITS_CACHE": str(artefacts["exact"].parent), "VPLUG_LOGITS_BUILD": "never"}
    return started("one process", model, SUITES, ["exact", engines.OFF, "safe"], **more)


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_of_one_says_the_same(answer: Any, mode: str) -> None:
    engines.was_served(answer, mode, workers=1)
    engines.says_the_same(answer, "alone", mode, at_least=256)


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_of_eight_says_the_same(answer: Any, mode: str) -> None:
    engines.says_the_same(answer, "together", mode, at_least=512)


@pytest.mark.parametrize("mode", MODES)
def test_features_that_change_logits_choose_the_same(answer: Any, mode: str) -> None:
    ours, theirs = (answer["modes"][one]["answers"]["features"] for one in (mode, engines.OFF))
    assert len(theirs) == 12
    assert ours == theirs
    plain = answer["modes"][engines.OFF]["answers"]["together"]
    assert theirs["frequency penalty"] != plain[0][:24]  # the features do something
    assert theirs["logit bias out of reach"] == [theirs["logit bias out of reach"][0]] * 24
    assert len(theirs["min tokens"]) >= 40


@pytest.mark.parametrize("mode", MODES)
def test_prompt_logprobs_are_the_dense_ones(answer: Any, mode: str) -> None:
    ours, theirs = (answer["modes"][one]["answers"]["prompt_logprobs"] for one in (mode, engines.OFF))
    assert ours == theirs


@pytest.mark.parametrize("mode", MODES)
def test_what_is_drawn_differs_by_a_total_variation_of_two_hundredths_at_most(
    answer: Any, mode: str, figures: list[str]
) -> None:
    worst = {}
    for name, theirs in answer["modes"][engines.OFF]["answers"]["distributions"].items():
        ours = answer["modes"][mode]["answers"]["distributions"][name]
        torch.testing.assert_close(theirs.exp().sum(1), torch.ones(len(theirs)), rtol=0, atol=1e-3)
        worst[name] = float((ours.exp() - theirs.exp()).abs().sum(1).max() / 2)
    figures.append(f"total variation, {mode}: " + ", ".join(f"{name} {value:.1e}" for name, value in worst.items()))
    assert max(worst.values()) <= 0.02


@pytest.mark.parametrize(("mode", "bound"), [("exact", 0.001), ("safe", 0.02)])
def test_the_twenty_best_logprobs_are_within_the_bound_and_the_others_within_six_sigma(
    answer: Any, mode: str, bound: float, artefacts: dict[str, Path], figures: list[str]
) -> None:
    ours, theirs = (answer["modes"][one]["answers"]["distributions"]["temperature 1"] for one in (mode, engines.OFF))
    errors = ours - theirs
    best = torch.topk(theirs, 20, dim=1).indices
    top = float(errors.gather(1, best).abs().max())
    sketch = artefact.read(str(artefacts[mode])).sketch
    states = answer["modes"][engines.OFF]["answers"]["states"].float()
    length = torch.linalg.vector_norm(choose(torch.device("cpu")).transform(sketch, states), dim=1)
    residual = sketch.residual[: sketch.vocabulary].float() * sketch.unit
    sigma = length[:, None] * residual[None] / sketch.width**0.5
    scores = (errors.abs() - bound).clamp_min(0) / sigma
    figures.append(f"logprobs, {mode}: twenty best within {top:.1e}, others within {float(scores.max()):.1f} sigma")
    assert top <= bound
    assert float(scores.max()) <= 6
    assert float((scores > 5).double().mean()) < 1e-5


def test_it_is_told_once_by_the_process_that_does_it(answer: Any) -> None:
    for mode in MODES:
        assert answer["log"].count(f"of rank 0 is active: mode {mode}") == 1
