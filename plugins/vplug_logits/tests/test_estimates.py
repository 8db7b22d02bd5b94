from __future__ import annotations

import pytest
import torch

import backends
from backends import lengths_of_codes
from heads import head, hidden, sketch_of
from vplug_logits.clusters import balanced_clusters
from vplug_logits.errors import BadInputError
from vplug_logits.estimates import ClusterEstimates, SketchEstimates
from vplug_logits.kernels import choose
from vplug_logits.reference import dense
from vplug_logits.reference import sketch as reference

BACKEND = choose(torch.device("cpu"))


@pytest.mark.parametrize("name", backends.NAMES)
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["usual", "one row", "steep"])
def test_no_logit_is_beyond_the_bound_that_always_holds(kind: str, bits: int, name: str) -> None:
    weight, states = head(700, 40), hidden(60, 40, seed=4)
    if kind == "one row":  # all residuals are zero: what is left is float32's own
        weight = weight[:1].expand(700, -1).contiguous()
    elif kind == "steep":
        weight = weight * torch.logspace(0, -5, 40)
    sketch = sketch_of(weight, hidden(200, 40), bits)
    estimate = SketchEstimates(weight, sketch, backends.named(name))
    truth, found = dense.logits(weight, states), estimate(states)
    upper, centre = estimate.upper(found, 1.0).double(), found.values.double()

    assert bool((upper >= truth).all())
    assert bool((2 * centre - upper <= truth).all())
    # And it is no looser than what the residuals say, but for the rounding of h' and float32's slack.
    moved = reference.transformed(sketch, states)
    steps = {"torch": torch.inf}.get(name, 127.0 * 128.0 if bits == 8 else 127.0)
    outermost = float(sketch.scale.amax()) * sketch.unit * (2**bits - 1) / 2 * 40**0.5
    longest = float(lengths_of_codes(sketch).amax()) if bits == 8 else outermost  # norms are kept at 8 bits only
    coarse = moved.abs().amax(1) / steps / 2 * 40**0.5 * longest
    assert bool((found.coarse.double() <= 1.001 * coarse).all())
    bound = reference.rigorous_bound(sketch, states) + found.coarse.double()[:, None]
    slack = found.slack.double()[:, None]
    assert bool((upper - centre <= 1.001 * bound + 2 * slack).all())
    assert float(slack.amax()) < 1e-3 * float(truth.abs().amax())


@pytest.mark.parametrize("name", backends.NAMES)
def test_a_share_of_the_bound_is_so_many_standard_deviations(name: str) -> None:
    weight, states = head(700, 40), hidden(5, 40, seed=4)
    sketch = sketch_of(weight, hidden(200, 40), 2)
    estimate = SketchEstimates(weight, sketch, backends.named(name))
    found = estimate(states)
    _, sigma = reference.estimates(sketch, states)

    width = estimate.upper(found, 3 / 40**0.5).double() - found.values.double() - found.slack.double()[:, None]
    width -= 3 / 40**0.5 * found.coarse.double()[:, None]

    assert torch.allclose(width, 3 * sigma, rtol=1e-3, atol=1e-3)


def test_a_logit_that_no_code_allows_is_beyond() -> None:
    weight, states = head(700, 40), hidden(3, 40, seed=4)
    estimate = SketchEstimates(weight, sketch_of(weight, hidden(200, 40), 8), BACKEND)
    found, truth = estimate(states), dense.logits(weight, states).float()
    owners, ids = torch.tensor([0, 1, 2]), torch.tensor([5, 600, 13])
    exact = truth[owners, ids]

    assert not bool(estimate.beyond(found, 1.0, owners, ids, exact).any())
    moved = exact + torch.tensor([0.0, 1e3, -1e3])
    assert estimate.beyond(found, 1.0, owners, ids, moved).tolist() == [False, True, True]


def test_a_shard_takes_its_own_rows_of_the_clusters() -> None:
    weight, states = head(203, 17), hidden(4, 17, seed=3)
    clusters = balanced_clusters(weight, iterations=1)
    whole = ClusterEstimates(weight, clusters, BACKEND, 3, 0)(states)
    parts = [
        ClusterEstimates(weight[start:stop], clusters, BACKEND, 3, start)(states)
        for start, stop in ((0, 100), (100, 203))
    ]

    assert whole.chosen is not None
    assert torch.equal(torch.cat([part.values for part in parts], dim=1), whole.values)
    assert torch.equal(torch.cat([part.chosen for part in parts if part.chosen is not None], dim=1), whole.chosen)


def test_clusters_with_an_id_in_two_of_them_are_refused() -> None:
    weight = head(64, 17)
    clusters = balanced_clusters(weight, iterations=1)
    clusters.members[0, 0] = clusters.members[1, 1]

    with pytest.raises(BadInputError, match="two clusters or in none"):
        ClusterEstimates(weight, clusters, BACKEND, 3, 0)
