from __future__ import annotations

import hashlib
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sketches import head
from vplug_logits import digest
from vplug_logits.errors import BadInputError


def test_a_row_is_digested_as_its_little_endian_floats() -> None:
    weight = torch.tensor([[1.5, -2.0, 3.25]])
    golden = hashlib.blake2b(struct.pack("<3f", 1.5, -2.0, 3.25), digest_size=8).digest()
    assert digest.of_rows(weight).tolist() == [int.from_bytes(golden, "little", signed=True)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_same_values_have_the_same_digest_in_any_type(dtype: torch.dtype) -> None:
    narrow = head(70, 9, dtype=dtype)
    assert torch.equal(digest.of_rows(narrow), digest.of_rows(narrow.float()))


@given(vocabulary=st.integers(1, 90), width=st.integers(1, 40), cut=st.integers(0, 90))
@settings(max_examples=30, deadline=None)
def test_parts_of_a_head_have_the_digests_of_its_rows(vocabulary: int, width: int, cut: int) -> None:
    weight, cut = head(vocabulary, width), min(cut, vocabulary)
    parts = [digest.of_rows(weight, 0, cut), digest.of_rows(weight[cut:])]
    assert torch.equal(torch.cat(parts), digest.of_rows(weight))


def test_blocks_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = head(100, 7)
    whole = digest.of_rows(weight)
    monkeypatch.setattr(digest, "_BLOCK_BYTES", 3 * 28)
    assert torch.equal(digest.of_rows(weight), whole)


def test_strides_leave_no_trace() -> None:
    weight = head(40, 12)
    assert torch.equal(digest.of_rows(weight.T.contiguous().T), digest.of_rows(weight))
    assert torch.equal(digest.of_rows(weight[::2]), digest.of_rows(weight[::2].contiguous()))


def test_one_changed_bit_changes_one_row() -> None:
    weight = head(50, 33)
    changed = weight.clone()
    changed.view(torch.int16)[17, 32] ^= 1
    differing = digest.of_rows(weight) != digest.of_rows(changed)
    assert differing.nonzero().tolist() == [[17]]
    assert digest.of_head(digest.of_rows(weight)) != digest.of_head(digest.of_rows(changed))


def test_a_head_is_its_rows_in_their_order() -> None:
    rows = digest.of_rows(head(20, 4))
    assert digest.of_head(rows) != digest.of_head(rows.flip(0))
    assert len(digest.of_head(rows)) == 32


def test_parameters_are_taken_as_they_are() -> None:
    weight = torch.nn.Parameter(head(5, 4, dtype=torch.float32))
    assert torch.equal(digest.of_rows(weight), digest.of_rows(weight.detach()))


@pytest.mark.parametrize(
    "weight", [torch.zeros(3), torch.zeros(3, 0), torch.zeros(3, 2, dtype=torch.int8), torch.zeros(3, 2, 2)]
)
def test_what_is_no_head_is_refused(weight: torch.Tensor) -> None:
    with pytest.raises(BadInputError):
        digest.of_rows(weight)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 4)])
def test_rows_that_are_not_there_are_refused(start: int, stop: int) -> None:
    with pytest.raises(BadInputError, match="rows"):
        digest.of_rows(torch.zeros(3, 2), start, stop)


def test_no_rows_have_no_digests() -> None:
    assert digest.of_rows(torch.zeros(3, 2), 1, 1).shape == (0,)
