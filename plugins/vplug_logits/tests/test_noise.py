from __future__ import annotations

import math

import pytest
import torch

from vplug_logits.noise import gumbel, philox, uniform


def word(value: int) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.int64)


# The known answers that come with Random123 for philox4x32-10.
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
            (0xFFFFFFFF, 0xFFFFFFFF),
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_the_integers_are_those_of_philox(
    counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    words = philox(tuple(word(value) for value in counter), key)
    assert tuple(int(value) for value in words) == expected


def test_a_value_depends_on_seed_step_and_id_alone() -> None:
    steps = torch.tensor([3, 0, 2**40, -1])
    whole = gumbel(11, steps, range(1001))
    assert whole.shape == (4, 1001) and whole.dtype == torch.float64
    ids = torch.tensor([1000, 0, 7, 8, 7])
    assert torch.equal(gumbel(11, steps, ids), whole[:, ids])
    own = torch.stack([ids, ids + 0, ids.flip(0), ids.roll(1)])
    assert torch.equal(gumbel(11, steps, own), whole.gather(1, own))
    for part in (range(17, 400), range(18, 401), range(5, 6), range(3, 3)):
        assert torch.equal(gumbel(11, steps, part), whole[:, part.start : part.stop])
    assert torch.equal(gumbel(11, steps[1:2], range(1001)), whole[1:2])
    # Many rows at once are made in pieces.
    assert torch.equal(gumbel(11, steps.repeat(200), range(1001))[:4], whole)


def test_other_seeds_steps_and_ids_give_other_values() -> None:
    steps = torch.arange(50)
    values = torch.cat([uniform(seed, steps, range(100)).flatten() for seed in (0, 1, 2**32, -1)])
    assert torch.unique(values).numel() == values.numel()


def test_golden_values() -> None:
    # Words 0 and 1, and 2 and 3, of the known answer for counter 0 and key 0.
    expected = [
        (((0x6627E8D5 << 20) | (0xE169C58D >> 12)) + 0.5) / 2**52,
        (((0xBC57AC4C << 20) | (0x9B00DBD8 >> 12)) + 0.5) / 2**52,
    ]
    assert uniform(0, torch.tensor([0]), range(2))[0].tolist() == expected
    noise = gumbel(0, torch.tensor([0]), range(2))[0].tolist()
    assert noise == pytest.approx([-math.log(-math.log(value)) for value in expected], rel=1e-12)


@pytest.mark.parametrize("along", ["ids", "steps", "seeds"])
def test_numbers_are_uniform_along_ids_steps_and_seeds(along: str) -> None:
    count = 100_000
    if along == "ids":
        values = uniform(5, torch.tensor([9]), range(count))
    elif along == "steps":
        values = uniform(5, torch.arange(count), range(77, 78))
    else:
        values = torch.cat([uniform(seed, torch.tensor([1]), range(100)) for seed in range(count // 100)])
    bins = (values.flatten() * 256).long()
    counts = torch.bincount(bins, minlength=256).double()
    chi = float(((counts - count / 256) ** 2 / (count / 256)).sum())
    assert 160 < chi < 372  # 255 degrees of freedom: beyond is 1e-6 on each side
    # Neighbours are as independent as their pairs in a 16 x 16 table.
    first, second = (values.flatten() * 16).long()[:-1], (values.flatten() * 16).long()[1:]
    pairs = torch.bincount(first * 16 + second, minlength=256).double()
    chi = float(((pairs - (count - 1) / 256) ** 2 / ((count - 1) / 256)).sum())
    assert 160 < chi < 372


def test_gumbel_noise_draws_from_the_softmax() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 0.5], dtype=torch.float64)
    count = 50_000
    drawn = (logits + gumbel(3, torch.arange(count), range(5))).argmax(1)
    expected = torch.softmax(logits, 0) * count
    chi = float(((torch.bincount(drawn, minlength=5) - expected) ** 2 / expected).sum())
    assert chi < 33.4  # 4 degrees of freedom, 1e-6
