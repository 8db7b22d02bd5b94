from __future__ import annotations

import sys

import pytest
import torch

from vplug_logits import codes
from vplug_logits.codes import Encoded, encode, levels, quantise, room
from vplug_logits.errors import BadInputError
from vplug_logits.layout import unpack

BITS = [1, 2, 4, 8]


@pytest.fixture(params=["compiled", "torch"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who codes the rows of a test: each test runs both ways."""
    way: str = request.param
    if way == "torch":
        monkeypatch.setattr(codes, "_compiled", lambda: None)
    elif codes._compiled() is None:
        pytest.skip("the compiled kernels are not installed")
    return way


def by_torch(rows: torch.Tensor, bits: int) -> Encoded:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codes, "_compiled", lambda: None)
        return encode(rows, bits)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def odd_rows(width: int) -> torch.Tensor:
    """Rows as heads have them and as they should not have them."""
    spike = torch.zeros(width, dtype=torch.float64)
    spike[width // 2] = -3.0
    extra = [torch.zeros(width, dtype=torch.float64), spike, torch.full((width,), 0.25, dtype=torch.float64)]
    scales = torch.logspace(-12, 3, 40, dtype=torch.float64)[:, None]
    return torch.cat([normal(60, width), normal(40, width, seed=1) * scales, torch.stack(extra)])


def levels_of(encoded: Encoded, bits: int, width: int) -> torch.Tensor:
    return levels(unpack(encoded.codes, bits, width)[: len(encoded.scale)], bits)


def decoded(encoded: Encoded, bits: int, scale: torch.Tensor, width: int) -> torch.Tensor:
    return levels_of(encoded, bits, width) * scale[:, None]


def cosines(encoded: Encoded, rows: torch.Tensor, bits: int) -> torch.Tensor:
    return torch.cosine_similarity(levels_of(encoded, bits, rows.shape[1]), rows, dim=1, eps=1e-300)


@pytest.mark.parametrize("width", [1, 3, 64, 577])
@pytest.mark.parametrize("bits", BITS)
def test_norms_and_residuals_are_those_of_the_coded_rows(bits: int, width: int) -> None:
    rows = odd_rows(width)
    encoded = encode(rows, bits)
    assert encoded.codes.dtype == torch.uint8 and encoded.codes.is_contiguous()
    coded = decoded(encoded, bits, encoded.scale, width)
    assert ((encoded.residual - (coded - rows).norm(dim=1)).abs() <= 1e-13 * rows.norm(dim=1)).all()
    torch.testing.assert_close(encoded.norm, coded.norm(dim=1))


@pytest.mark.parametrize("width", [1, 3, 64, 577])
@pytest.mark.parametrize("bits", BITS)
def test_the_numbers_that_are_kept_bound_what_the_rounded_scale_gives(bits: int, width: int) -> None:
    rows = odd_rows(width)
    encoded = encode(rows, bits)
    kept = quantise(encoded)
    scale, residual, norm = (part.double() * kept.unit for part in (kept.scale, kept.residual, kept.norm))
    assert all(torch.isfinite(part).all() for part in (scale, residual, norm))
    coded = decoded(encoded, bits, scale, width)
    true = (coded - rows).norm(dim=1)
    assert (residual >= true).all() and (norm >= coded.norm(dim=1)).all()
    # Not more than the rounding up of float16 costs, a unit of its smallest number included.
    smallest = kept.unit * 2.0**-24
    assert (residual <= true * (1 + 2**-10) + smallest + 1e-11 * rows.norm(dim=1)).all()
    assert (norm <= coded.norm(dim=1) * (1 + 2**-10) + smallest).all()


@pytest.mark.parametrize("bits", BITS)
def test_rows_of_zeros_have_scale_and_residual_zero(bits: int) -> None:
    kept = quantise(encode(torch.zeros(5, 7, dtype=torch.float64), bits))
    assert not kept.scale.any() and not kept.residual.any() and not kept.norm.any() and kept.unit == 1.0


@pytest.mark.parametrize("factor", [1e-30, 1e30, 1e-160, 1e160])
@pytest.mark.parametrize("bits", BITS)
def test_tiny_and_huge_rows_keep_their_codes_and_stay_finite(bits: int, factor: float) -> None:
    rows = normal(30, 48, seed=2)
    plain, scaled = encode(rows, bits), encode(rows * factor, bits)
    assert (unpack(plain.codes, bits, 48) == unpack(scaled.codes, bits, 48)).double().mean() > 0.999
    kept = quantise(scaled)
    for part in (kept.scale, kept.residual, kept.norm):
        assert torch.isfinite(part).all() and (part > 0).all()
    torch.testing.assert_close(kept.scale.double() * kept.unit / factor, plain.scale, rtol=2e-3, atol=0)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_the_scale_makes_the_estimate_of_a_row_with_itself_exact(bits: int) -> None:
    rows = normal(50, 96, seed=3)
    encoded = encode(rows, bits)
    coded = decoded(encoded, bits, encoded.scale, 96)
    torch.testing.assert_close((coded * rows).sum(1), rows.square().sum(1))


def test_at_8_bits_no_other_scale_has_a_smaller_residual() -> None:
    rows = normal(50, 96, seed=4)
    encoded = encode(rows, 8)
    for factor in (0.999, 1.001):
        other = (decoded(encoded, 8, encoded.scale * factor, 96) - rows).norm(dim=1)
        assert (other > encoded.residual).all()
    # The unbiased scale differs from it by a share of the squared relative residual.
    assert ((encoded.residual / rows.norm(dim=1)) ** 2).amax() < 1e-4


@pytest.mark.parametrize(("bits", "loss"), [(1, 0.37), (2, 0.1195), (4, 0.0117), (8, 7e-5)])
def test_codes_lose_as_little_as_uniform_levels_can_on_gaussian_rows(bits: int, loss: float) -> None:
    # 1 - cosine^2: 1 - 2 / pi at one bit, 0.1188 and 0.01154 for the best uniform step at two and four.
    rows = normal(200, 512, seed=5)
    assert 1 - cosines(encode(rows, bits), rows, bits).square().mean() < loss


@pytest.mark.parametrize("bits", BITS)
def test_a_row_is_coded_by_itself(bits: int) -> None:
    rows = odd_rows(40)
    whole = encode(rows, bits)
    parts = [encode(part, bits) for part in torch.split(rows, 17)]
    assert torch.equal(levels_of(whole, bits, 40), torch.cat([levels_of(part, bits, 40) for part in parts]))
    assert torch.equal(whole.residual, torch.cat([part.residual for part in parts]))


@pytest.mark.parametrize("bits", BITS)
def test_whole_blocks_join_without_a_seam(bits: int) -> None:
    rows = normal(200, 40)
    whole, parts = encode(rows, bits), room(200, 40, bits)
    for start in (128, 0, 64):
        parts.put(start, encode(rows[start : start + (64 if start < 128 else 72)], bits))
    for name in ("codes", "scale", "residual", "norm", "slope"):
        assert torch.equal(getattr(whole, name), getattr(parts, name)), name


@pytest.mark.parametrize("bits", BITS)
def test_no_rows_have_no_codes(bits: int) -> None:
    encoded = encode(normal(0, 40), bits)
    assert encoded.codes.shape == (0, *encode(normal(1, 40), bits).codes.shape[1:]) and encoded.scale.shape == (0,)


@pytest.mark.parametrize("width", [1, 3, 64, 577])
@pytest.mark.parametrize("bits", BITS)
def test_whoever_codes_the_rows_the_answer_is_the_same(bits: int, width: int) -> None:
    rows = odd_rows(width)
    one, other = encode(rows, bits), by_torch(rows, bits)
    differ = (levels_of(one, bits, width) != levels_of(other, bits, width)).any(1)
    # Steps that are equally good: rows of one or three numbers, of equal ones, or with a single one.
    assert not bool(differ[:100].any()) or width <= 3
    assert ((cosines(one, rows, bits) - cosines(other, rows, bits)).abs() <= 1e-12).all()
    length = rows.norm(dim=1)
    size = levels_of(one, bits, width).norm(dim=1)
    for name, allowed in [("scale", one.scale), ("residual", length), ("norm", one.norm), ("slope", length * size)]:
        apart = (getattr(one, name) - getattr(other, name)).abs()
        assert (apart <= 1e-12 * allowed)[~differ].all(), name


def test_rows_in_any_order_of_memory_and_type_are_coded() -> None:
    rows = normal(40, 70, seed=6).float().requires_grad_()
    expected = encode(rows.detach().double().T.contiguous(), 2)
    assert torch.equal(encode(rows.double().T, 2).codes, expected.codes)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rows_with_nan_or_infinity_are_refused(bad: float) -> None:
    rows = normal(3, 8)
    rows[1, 2] = bad
    with pytest.raises(BadInputError):
        encode(rows, 2)


def test_codes_of_three_bits_are_refused() -> None:
    with pytest.raises(BadInputError):
        encode(normal(2, 8), 3)


def test_without_compiled_kernels_torch_codes_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = normal(70, 33, seed=7)
    expected = encode(rows, 4)
    monkeypatch.undo()
    codes._compiled.cache_clear()
    monkeypatch.setitem(sys.modules, "vplug_logits._kernels", None)
    monkeypatch.delattr("vplug_logits._kernels", raising=False)
    try:
        assert codes._compiled() is None
        assert torch.equal(encode(rows, 4).codes, expected.codes)
    finally:
        codes._compiled.cache_clear()
