from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import backends
from backends import lengths_of_codes, named
from heads import head, hidden, sketch_of
from vplug_logits.clusters import balanced_clusters
from vplug_logits.kernels import plain
from vplug_logits.reference import clusters as reference_clusters
from vplug_logits.reference import dense
from vplug_logits.reference import sketch as reference

PLAIN = plain.PlainBackend()
each_backend = pytest.mark.parametrize("name", backends.NAMES)


@each_backend
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize(("vocabulary", "width"), [(1, 1), (63, 5), (64, 32), (65, 33), (1000, 70)])
@pytest.mark.parametrize("many", [1, 3])
def test_a_scan_gives_the_estimates_of_the_reference(
    bits: int, vocabulary: int, width: int, many: int, name: str
) -> None:
    backend = named(name)
    weight, states = head(vocabulary, width), hidden(many, width, seed=3)
    sketch = sketch_of(weight, hidden(50, width), bits)
    wanted, _ = reference.estimates(sketch, states)

    moved = backend.transform(sketch, states)
    values, lost = backend.scan(sketch, moved)
    found = values.double() + (states.double() @ sketch.mean.double())[:, None]

    assert torch.allclose(moved.double(), reference.transformed(sketch, states), rtol=1e-4, atol=1e-4)
    assert found.shape == (many, vocabulary)
    assert bool((lost == 0).all()) if name == "torch" else bool((lost <= 0.5 * width**0.5 * moved.abs().amax(1)).all())
    # What rounding h' changes is its length times that of the code, and no more.
    allowed = lost.double()[:, None] * lengths_of_codes(sketch) + 1e-4 * (wanted.abs() + wanted.abs().amax())
    assert bool(((found - wanted).abs() <= allowed).all())


@each_backend
def test_a_head_so_narrow_that_a_row_is_one_lane_is_scanned_from_memory_as_mapped(name: str) -> None:
    backend = named(name)
    weight, states = head(130, 5), hidden(3, 5, seed=3)
    sketch = sketch_of(weight, hidden(50, 5), 1)
    mapped = replace(sketch, codes=torch.frombuffer(bytearray(sketch.codes.numpy().tobytes()), dtype=torch.uint8))
    mapped = replace(mapped, codes=mapped.codes.view(3, 1, 64, 4))
    moved = backend.transform(sketch, states)
    assert torch.equal(backend.scan(mapped, moved)[0], backend.scan(sketch, moved)[0])


@each_backend
def test_at_eight_bits_the_transformed_states_are_rounded_once(name: str) -> None:
    states = hidden(20, 48, seed=3)
    sketch = sketch_of(head(200, 48), hidden(100, 48), 8)

    assert torch.equal(named(name).transform(sketch, states), reference.transformed(sketch, states).float())


def test_blocks_of_the_plain_backend_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, states = head(1000, 24), hidden(5, 24, seed=3)
    sketch, clusters = sketch_of(weight, hidden(50, 24), 2), balanced_clusters(weight, iterations=1)
    rows, owners = torch.arange(1000), torch.arange(1000) % 5

    def answers() -> list[torch.Tensor]:
        moved = PLAIN.transform(sketch, states)
        return [
            moved,
            PLAIN.scan(sketch, moved)[0],
            PLAIN.scan_centroids(clusters, states),
            PLAIN.rescore(weight, rows, owners, states),
        ]

    wanted = answers()
    monkeypatch.setattr(plain, "SCAN", 1)
    monkeypatch.setattr(plain, "SCRATCH", 5 * 24 * 4)
    for found, expected in zip(answers(), wanted, strict=True):
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rescored_pairs_are_the_dense_logits(dtype: torch.dtype, name: str) -> None:
    backend = named(name)
    weight, states = head(300, 33).to(dtype), hidden(4, 33, seed=3).to(dtype)
    wanted = dense.logits(weight, states)
    owners, rows = torch.nonzero(torch.rand(4, 300, generator=torch.Generator().manual_seed(0)) < 0.3, as_tuple=True)

    found = backend.rescore(weight, rows, owners, states.float())

    assert found.dtype is torch.float32
    assert torch.allclose(found.double(), wanted[owners, rows], rtol=1e-5, atol=1e-4)
    assert backend.rescore(weight, rows[:0], owners[:0], states.float()).shape == (0,)


def test_centroids_are_scored_as_by_the_reference() -> None:
    weight, states = head(203, 17), hidden(4, 17, seed=3)
    clusters = balanced_clusters(weight, iterations=1)

    found = PLAIN.scan_centroids(clusters, states)

    assert torch.allclose(found.double(), reference_clusters.scores(clusters, states), rtol=1e-5, atol=1e-4)
