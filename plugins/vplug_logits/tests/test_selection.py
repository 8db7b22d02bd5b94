from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vplug_logits import selection
from vplug_logits.peers import Alone
from vplug_logits.reference import window


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 2**31))
def test_the_best_rows_are_those_of_the_reference(vocabulary: int, rows: int, seed: int) -> None:
    values = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(seed))

    assert torch.equal(selection.best(values, rows, Alone()), window.best(values, rows))


def test_all_that_tie_with_the_last_of_the_best_are_among_them() -> None:
    values = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0]])

    assert selection.best(values, 2, Alone()).tolist() == [[True, False, True, True, True, False]]


def test_pairs_come_by_state_and_then_by_id() -> None:
    owners, ids = selection.pairs(torch.tensor([[False, True, True], [False, False, False], [True, False, True]]))

    assert owners.tolist() == [0, 0, 2, 2]
    assert ids.tolist() == [1, 2, 0, 2]


def test_a_state_without_pairs_has_no_best_and_nan_is_not_lost() -> None:
    values = torch.tensor([1.0, 5.0, float("nan"), 2.0])
    top = selection.top_of(values, torch.tensor([0, 0, 2, 2]), 4)

    assert top[0] == 5.0
    assert top[1] == top[3] == -torch.inf
    assert torch.isnan(top[2])
    assert selection.counted(torch.tensor([0, 0, 2, 2]), 4).tolist() == [2, 0, 2, 0]
