from __future__ import annotations

import pytest
import torch

from vplug_logits.after import After
from vplug_logits.errors import ConfigError

MAPS = [After(), After(cap=30.0), After(scale=1 / 13), After(cap=50.0, scale=0.3)]


@pytest.mark.parametrize("after", MAPS, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_nothing_below_the_margin_meets_the_best_after_the_host_has_rounded(after: After, dtype: torch.dtype) -> None:
    # Each number of the 16-bit types between -100 and 100; of float32 the neighbours of a few numbers.
    if dtype is torch.float32:
        starts = torch.linspace(-90, 90, 181).repeat_interleave(200).view(torch.int32)
        values = (starts + torch.arange(200, dtype=torch.int32).repeat(181)).view(torch.float32)
    else:
        values = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    values = torch.unique(values[values.abs() <= 100].to(torch.float64)).to(dtype)
    mapped = after(values).to(torch.float64)
    first = torch.searchsorted(mapped, mapped, side="left")  # the smallest number that becomes the same
    lowest = values[first].to(torch.float64)
    margin = after.margin(values, dtype)

    assert bool((mapped.diff() >= 0).all())
    assert bool((margin > 0).all())
    assert bool((lowest > values.to(torch.float64) - margin).all())


def test_the_margin_is_a_few_rounding_steps_and_not_more() -> None:
    margin = After().margin(torch.tensor([20.0]), torch.bfloat16)

    assert 0.125 <= float(margin) <= 1.0


def test_a_cap_that_makes_all_large_logits_equal_gives_a_margin_that_holds_them() -> None:
    margin = After(cap=30.0).margin(torch.tensor([400.0]), torch.bfloat16)

    assert 400.0 - float(margin) < 100.0


@pytest.mark.parametrize("wrong", [{"cap": 0.0}, {"cap": -1.0}, {"scale": 0.0}, {"scale": float("nan")}], ids=str)
def test_a_cap_or_scale_that_turns_the_order_around_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="positive"):
        After(**wrong)
