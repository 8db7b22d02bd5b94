from __future__ import annotations

import pytest
import torch

from vplug_logits.layout import pack, segments, unpack
from vplug_logits.sketch import padded_rows, padded_width


def some_codes(rows: int, width: int, bits: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows * width + bits)
    return torch.randint(0, 2**bits, (rows, width), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("width", [1, 7, 32, 33, 576])
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_codes_come_back_and_padding_is_zero(bits: int, rows: int, width: int) -> None:
    codes = some_codes(rows, width, bits)
    packed = pack(codes, bits)
    assert packed.dtype == torch.uint8 and packed.is_contiguous()
    assert packed.shape == (padded_rows(rows) // 64, padded_width(width, bits) * bits // 32, 64, 4)
    wide = unpack(packed, bits, padded_width(width, bits))
    assert torch.equal(wide[:rows, :width], codes)
    assert not wide[rows:].any() and not wide[:, width:].any()
    assert torch.equal(unpack(packed, bits, width)[:rows], codes)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_the_place_of_each_code_is_the_documented_one(bits: int) -> None:
    rows, width = 70, 45
    codes = some_codes(rows, width, bits)
    packed = pack(codes, bits)
    count = padded_width(width, bits) * bits // 8
    for row in (0, 5, 63, 64, 69):
        for coordinate in (0, 1, 31, 44):
            segment, k = divmod(coordinate, count)
            byte = int(packed[row // 64, k // 4, row % 64, k % 4])
            assert byte >> (segment * bits) & (2**bits - 1) == int(codes[row, coordinate])


def test_states_are_split_as_codes_are() -> None:
    codes, state = some_codes(3, 45, 2), torch.arange(45.0)
    split = segments(state, 2)
    assert split.shape == (4, padded_width(45, 2) // 4)
    expected = codes.float() @ state
    assert torch.equal((segments(codes, 2).float() * split).sum((1, 2)), expected)
