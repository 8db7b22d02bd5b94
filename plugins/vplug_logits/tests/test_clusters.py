from __future__ import annotations

import pytest
import torch

from heads import head, hidden
from vplug_logits.clusters import Kind, _matched, balanced_clusters
from vplug_logits.errors import BadInputError
from vplug_logits.metric import second_moment
from vplug_logits.reference import clusters as reference
from vplug_logits.reference import dense
from vplug_logits.sketch import Clusters


def square_root(moment: torch.Tensor) -> torch.Tensor:
    energy, directions = torch.linalg.eigh(moment)
    root: torch.Tensor = directions * energy.clamp_min(0).sqrt()
    return root


@pytest.mark.parametrize("vocabulary", [1, 15, 16, 17, 500, 1024])
@pytest.mark.parametrize("kind", ["weighted", "cosine"])
def test_each_row_stands_in_exactly_one_cluster_and_gaps_at_the_end(kind: Kind, vocabulary: int) -> None:
    weight = head(vocabulary, 24)
    made = balanced_clusters(weight, kind=kind, iterations=2)
    count = -(-vocabulary // 16)
    assert made.members.shape == (count, 16) and made.members.dtype == torch.int32
    flat = made.members.flatten()
    assert torch.equal(torch.sort(flat[:vocabulary]).values, torch.arange(vocabulary, dtype=torch.int32))
    assert (flat[vocabulary:] == -1).all()


def test_no_row_is_turned_away_for_one_with_less_to_lose() -> None:
    generator = torch.Generator().manual_seed(4)
    claims = torch.sort(torch.randn(200, 24, generator=generator), dim=1).values
    near = torch.stack([torch.randperm(40, generator=generator)[:24] for _ in range(200)])
    room = torch.full((40,), 4)
    owners = _matched(claims, near, room)
    held = torch.bincount(owners[owners >= 0], minlength=40)
    assert (held <= room).all() and held.sum() > 150 and (owners < 0).any()
    for row in range(200):
        place = 24 if owners[row] < 0 else int((near[row] == owners[row]).nonzero())
        for better in range(place):
            others = (owners == near[row, better]).nonzero().flatten()
            theirs = torch.stack([claims[other][near[other] == near[row, better]][0] for other in others])
            assert len(others) == 4 and (theirs <= claims[row, better]).all()


def test_rows_that_are_like_no_others_are_not_left_over() -> None:
    weight = head(1008, 24)
    weight[:16] += 8 * torch.randn(24, generator=torch.Generator().manual_seed(6))
    made = balanced_clusters(weight, iterations=3)
    assert any(sorted(members) == list(range(16)) for members in made.members.tolist())


def test_rows_that_are_all_equal_are_shared_out() -> None:
    made = balanced_clusters(torch.ones(100, 8), iterations=2)
    assert torch.equal(torch.sort(made.members.flatten()[:100]).values, torch.arange(100, dtype=torch.int32))
    torch.testing.assert_close(made.centroids * made.scale[:, None], torch.ones(7, 8))


def test_zero_rows_have_zero_centroids() -> None:
    made = balanced_clusters(torch.zeros(32, 8), iterations=1)
    assert not made.centroids.any() and not made.scale.any()


def test_centroids_are_the_means_of_raw_rows_to_eight_bits() -> None:
    weight = head(320, 24)
    made = balanced_clusters(weight.to(torch.bfloat16), iterations=1)
    means = weight.to(torch.bfloat16).float()[made.members.long()].mean(1)
    assert made.centroids.dtype == torch.int8 and made.scale.dtype == torch.float32
    assert ((made.centroids * made.scale[:, None] - means).abs() <= made.scale[:, None] * 0.501).all()


def test_centroids_of_the_cosine_rule_have_length_one() -> None:
    made = balanced_clusters(head(320, 24), kind="cosine", iterations=1)
    assert made.centroids.dtype == torch.bfloat16
    torch.testing.assert_close(made.centroids.float().norm(dim=1), torch.ones(20), rtol=1e-2, atol=0)


def test_clusters_that_are_there_are_found() -> None:
    generator = torch.Generator().manual_seed(5)
    middles = torch.randn(20, 32, generator=generator)
    true = torch.arange(320) % 20
    made = balanced_clusters(middles[true] + 0.05 * torch.randn(320, 32, generator=generator), iterations=8)
    pure = (true[made.members.long()] == true[made.members[:, :1].long()]).all(1)
    assert pure.double().mean() >= 0.8


def test_steps_do_not_make_the_clustering_worse() -> None:
    generator = torch.Generator().manual_seed(7)
    middles = 0.3 * torch.randn(40, 24, generator=generator)
    weight = middles[torch.randint(0, 40, (1024,), generator=generator)] + 0.1 * head(1024, 24)

    def spread(iterations: int) -> float:
        members = weight[balanced_clusters(weight, iterations=iterations).members.long()]
        return float((members - members.mean(1, keepdim=True)).square().sum())

    assert spread(8) < 0.98 * spread(0) and spread(8) <= spread(2)


def test_the_same_seed_gives_the_same_clusters_and_progress_is_told() -> None:
    weight, told = head(500, 24), []
    one = balanced_clusters(weight, iterations=3, seed=1, progress=lambda done, of: told.append((done, of)))
    assert torch.equal(one.members, balanced_clusters(weight, iterations=3, seed=1).members)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_clusters_in_the_metric_of_the_queries_miss_less_than_by_cosine() -> None:
    weight, states = head(4000, 48), hidden(600, 48)
    expected = dense.argmax(dense.logits(weight, states))

    def misses(made: Clusters) -> int:
        inside = reference.probed(made, states[300:], 16)
        return int((~inside[torch.arange(300), expected[300:]]).sum())

    weighted = balanced_clusters(weight, weights=square_root(second_moment([states[:300]])), iterations=4)
    cosine = balanced_clusters(weight, kind="cosine", iterations=4)
    assert misses(weighted) < 0.7 * misses(cosine)


def test_the_reference_scores_probed_rows_exactly_and_others_by_their_centroid() -> None:
    weight, states = head(203, 24), hidden(30, 24)
    made = balanced_clusters(weight, iterations=2)
    inside = reference.probed(made, states, 3)
    got, truth = reference.logits(made, weight, states, 3), dense.logits(weight, states)
    assert torch.equal(got[inside], truth[inside])
    assert torch.equal(got[~inside], reference.scores(made, states)[:, reference.owner(made)][~inside])
    assert ((inside.sum(1) == 48) | (inside.sum(1) == 32 + 11)).all()
    assert reference.probed(made, states, len(made.members)).all()


def test_no_rows_and_nan_are_refused() -> None:
    with pytest.raises(BadInputError):
        balanced_clusters(torch.zeros(0, 4))
    with pytest.raises(BadInputError):
        balanced_clusters(torch.full((4, 4), float("nan")))
