from collections.abc import Callable

import pytest
import torch

from heads import head, hidden
from vplug_logits.clusters import balanced_clusters
from vplug_logits.evaluation import baselines
from vplug_logits.evaluation.traffic import Shape

V, D = 500, 40


@pytest.fixture(scope="module")
def weight() -> torch.Tensor:
    return head(V, D)


@pytest.fixture(scope="module")
def states() -> torch.Tensor:
    return hidden(20, D)


@pytest.mark.parametrize(("make", "levels", "group"), [(baselines.int8, 127, D), (baselines.int4, 7, 32)])
def test_coded_rows_are_off_by_half_a_step_at_most(
    weight: torch.Tensor, make: Callable[[torch.Tensor], baselines.Coded], levels: int, group: int
) -> None:
    coded = make(weight)
    error = (coded.rows(0, V) - weight).abs()
    padded = torch.nn.functional.pad(weight, (0, -D % group)).view(V, -1, group)
    step = padded.abs().amax(2) / levels
    allowed = (step / 2).repeat_interleave(group, 1)[:, :D] * (1 + 1e-5)
    assert bool((error <= allowed).all())
    assert float(error.max()) > 0


@pytest.mark.parametrize("make", [baselines.int8, baselines.int4])
def test_coded_logits_are_those_of_the_coded_rows(
    weight: torch.Tensor, states: torch.Tensor, make: Callable[[torch.Tensor], baselines.Coded]
) -> None:
    coded = make(weight)
    assert torch.allclose(coded.answer(states).logits, states @ coded.rows(0, V).T, atol=1e-4)


@pytest.mark.parametrize("make", [baselines.int8, baselines.int4])
def test_rows_of_zeros_stay_zeros(make: Callable[[torch.Tensor], baselines.Coded]) -> None:
    coded = make(torch.zeros(3, D))
    assert torch.equal(coded.rows(0, 3), torch.zeros(3, D))


def test_bfloat16_is_what_torch_computes_in_bfloat16(weight: torch.Tensor, states: torch.Tensor) -> None:
    found = baselines.dense_bfloat16(weight).answer(states).logits
    expected = torch.nn.functional.linear(states.bfloat16(), weight.bfloat16())
    assert found.dtype is torch.bfloat16
    assert torch.allclose(found.float(), expected.float(), rtol=2**-7, atol=1e-3)


def test_many_rows_are_taken_in_pieces_without_a_seam(states: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = head(70, D)
    whole = baselines.int8(weight).answer(states).logits
    monkeypatch.setattr(baselines, "_CHUNK", 16)
    assert torch.allclose(baselines.int8(weight).answer(states).logits, whole, atol=1e-5)


def test_clusters_score_the_best_clusters_exactly_and_nothing_else(weight: torch.Tensor, states: torch.Tensor) -> None:
    clusters = balanced_clusters(weight, kind="cosine", iterations=2)
    allowed = Shape(V, D).clusters(len(clusters.members), 5 * 16, centroid_bytes=2)
    rule = baselines.cosine_clusters(weight, clusters, allowed + 1)
    answer = rule.answer(states)
    assert rule.probes == 5 and rule.bytes == allowed
    given = torch.isfinite(answer.logits)
    assert answer.rescored is not None and torch.equal(given.sum(1), answer.rescored)
    assert int(answer.rescored.max()) <= 5 * 16
    assert torch.allclose(answer.logits[given], (states @ weight.T)[given], atol=1e-4)
    best = (states @ clusters.centroids.float().T).argmax(1)
    ids = clusters.members[best]
    assert bool(given.gather(1, ids.clamp_min(0).long())[ids >= 0].all())


def test_all_clusters_probed_are_the_dense_head(weight: torch.Tensor, states: torch.Tensor) -> None:
    rule = baselines.cosine_clusters(weight, balanced_clusters(weight, kind="cosine", iterations=0), 1e12)
    assert torch.allclose(rule.answer(states).logits, states @ weight.T, atol=1e-4)


def test_bytes_are_what_the_formulas_say() -> None:
    shape = Shape(49_152, 576)
    assert shape.dense == 2 * 49_152 * 576
    assert shape.int8() / shape.dense == pytest.approx(0.5, abs=0.002)
    assert shape.int4() / shape.dense == pytest.approx(0.28125)
    assert shape.sketch(2, 0, numbers=0) == 49_152 * 576 / 4 + 2 * 576 * 576 + 4 * 576
    with_rows = shape.sketch(2, 128, numbers=2, fallback=0.01)
    assert with_rows - shape.sketch(2, 0, numbers=0) == pytest.approx(4 * 49_152 + 128 * 2 * 576 + 0.01 * shape.dense)
    probed = shape.clusters(3072, 288 * 16, centroid_bytes=1)
    assert probed / shape.dense == pytest.approx(0.125, abs=0.001)
