"""The binding of the encoder: buffers are checked before one byte of them is read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

kernels: Any = pytest.importorskip("vplug_logits._kernels", reason="the compiled kernels are not installed")


def wrong_buffers() -> list[ParameterSet]:
    rows, packed, numbers = np.ones((70, 17)), np.zeros((2, 2, 64, 4), np.uint8), np.zeros((4, 70))
    frozen = numbers.copy()
    frozen.setflags(write=False)
    both = np.zeros(4 * 70)
    cases = {
        "rows: float32": (rows.astype(np.float32), 2, packed, numbers, "f64"),
        "rows: byte order": (rows.astype(">f8"), 2, packed, numbers, "rows has numbers in another byte order|f64"),
        "rows: a vector": (rows[0], 2, packed, numbers, "rows has 1 dimensions, not 2"),
        "rows: no row": (rows[:0], 2, packed[:0], numbers[:, :0], "a head of 0 rows"),
        "rows: no coordinate": (rows[:, :0], 2, packed, numbers, "states of 0 numbers"),
        "rows: with gaps": (np.ones((70, 34))[:, ::2], 2, packed, numbers, "rows has gaps"),
        "rows: Fortran order": (np.asfortranarray(rows), 2, packed, numbers, "rows has gaps, or another order"),
        "bits": (rows, 3, packed, numbers, "there are no codes of 3 bits"),
        "codes: int8": (rows, 2, packed.view(np.int8), numbers, "u8"),
        "codes: a block less": (
            rows,
            2,
            packed[:1],
            numbers,
            r"codes has the shape \[1, 2, 64, 4\], not \[2, 2, 64, 4\]",
        ),
        "codes: of other bits": (rows, 8, packed, numbers, r"not \[2, 5, 64, 4\]"),
        "numbers: transposed": (rows, 2, packed, np.zeros((70, 4)), r"numbers has the shape \[70, 4\], not \[4, 70\]"),
        "numbers: a row less": (rows, 2, packed, numbers[:, :69], r"numbers has the shape \[4, 69\], not \[4, 70\]"),
        "numbers: read-only": (rows, 2, packed, frozen, "numbers has no leave to be written to"),
        "overlap": (both[:70].reshape(70, 1), 8, packed[:, :1].copy(), both.reshape(4, 70), "buffers overlap"),
    }
    return [pytest.param(*arguments, id=name) for name, arguments in cases.items()]


@pytest.mark.parametrize(("rows", "bits", "packed", "numbers", "message"), wrong_buffers())
def test_buffers_that_do_not_fit_are_refused(
    rows: np.ndarray, bits: int, packed: np.ndarray, numbers: np.ndarray, message: str
) -> None:
    with pytest.raises(BufferError, match=message):
        kernels.encode(rows, bits, packed, numbers)
    assert not packed.any() and not numbers.any()


def test_buffers_that_fit_are_filled() -> None:
    packed, numbers = np.zeros((2, 2, 64, 4), np.uint8), np.zeros((4, 70))
    kernels.encode(np.ones((70, 17)), 2, packed, numbers)
    assert packed[0].all() and packed[1, :, :6].any(axis=2).all() and not packed[1, :, 6:].any()
    assert (numbers[0] > 0).all() and (numbers[2] > 0).all()


def test_the_row_that_is_not_finite_is_told() -> None:
    rows = np.ones((70, 17))
    rows[66, 3] = np.nan
    with pytest.raises(ValueError, match="row 66 holds NaN or infinity"):
        kernels.encode(rows, 2, np.zeros((2, 2, 64, 4), np.uint8), np.zeros((4, 70)))


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises(TypeError):
        kernels.encode([[1.0]], 2, np.zeros((1, 1, 64, 4), np.uint8), np.zeros((4, 1)))
