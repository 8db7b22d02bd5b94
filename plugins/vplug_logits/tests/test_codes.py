from __future__ import annotations

import pytest
import torch

from vplug_logits.codes import Encoded, encode, joined, levels, quantise
from vplug_logits.errors import BadInputError

BITS = [1, 2, 4, 8]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def odd_rows(width: int) -> torch.Tensor:
    """Rows as heads have them and as they should not have them."""
    spike = torch.zeros(width, dtype=torch.float64)
    spike[width // 2] = -3.0
    extra = [torch.zeros(width, dtype=torch.float64), spike, torch.full((width,), 0.25, dtype=torch.float64)]
    scales = torch.logspace(-12, 3, 40, dtype=torch.float64)[:, None]
    return torch.cat([normal(60, width), normal(40, width, seed=1) * scales, torch.stack(extra)])


def decoded(encoded: Encoded, bits: int, scale: torch.Tensor) -> torch.Tensor:
    return levels(encoded.codes, bits) * scale[:, None]


@pytest.mark.parametrize("width", [1, 3, 64, 577])
@pytest.mark.parametrize("bits", BITS)
def test_norms_and_residuals_are_those_of_the_coded_rows(bits: int, width: int) -> None:
    rows = odd_rows(width)
    encoded = encode(rows, bits)
    assert encoded.codes.dtype == torch.uint8 and int(encoded.codes.amax()) < 2**bits
    coded = decoded(encoded, bits, encoded.scale)
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
    coded = decoded(encoded, bits, scale)
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
    assert (plain.codes == scaled.codes).double().mean() > 0.999
    kept = quantise(scaled)
    for part in (kept.scale, kept.residual, kept.norm):
        assert torch.isfinite(part).all() and (part > 0).all()
    torch.testing.assert_close(kept.scale.double() * kept.unit / factor, plain.scale, rtol=2e-3, atol=0)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_the_scale_makes_the_estimate_of_a_row_with_itself_exact(bits: int) -> None:
    rows = normal(50, 96, seed=3)
    encoded = encode(rows, bits)
    coded = decoded(encoded, bits, encoded.scale)
    torch.testing.assert_close((coded * rows).sum(1), rows.square().sum(1))


def test_at_8_bits_no_other_scale_has_a_smaller_residual() -> None:
    rows = normal(50, 96, seed=4)
    encoded = encode(rows, 8)
    for factor in (0.999, 1.001):
        other = (decoded(encoded, 8, encoded.scale * factor) - rows).norm(dim=1)
        assert (other > encoded.residual).all()
    # The unbiased scale differs from it by a share of the squared relative residual.
    assert ((encoded.residual / rows.norm(dim=1)) ** 2).amax() < 1e-4


@pytest.mark.parametrize(("bits", "loss"), [(1, 0.37), (2, 0.1195), (4, 0.0117), (8, 7e-5)])
def test_codes_lose_as_little_as_uniform_levels_can_on_gaussian_rows(bits: int, loss: float) -> None:
    # 1 - cosine^2: 1 - 2 / pi at one bit, 0.1188 and 0.01154 for the best uniform step at two and four.
    rows = normal(200, 512, seed=5)
    u = levels(encode(rows, bits).codes, bits)
    cosine = (u * rows).sum(1) / (u.norm(dim=1) * rows.norm(dim=1))
    assert 1 - cosine.square().mean() < loss


@pytest.mark.parametrize("bits", BITS)
def test_a_row_is_coded_by_itself(bits: int) -> None:
    rows = odd_rows(40)
    whole = encode(rows, bits)
    parts = joined(encode(part, bits) for part in torch.split(rows, 17))
    assert torch.equal(whole.codes, parts.codes)
    assert torch.equal(quantise(whole).residual, quantise(parts).residual)
    assert encode(rows[:0], bits).codes.shape == (0, 40)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rows_with_nan_or_infinity_are_refused(bad: float) -> None:
    rows = normal(3, 8)
    rows[1, 2] = bad
    with pytest.raises(BadInputError):
        encode(rows, 2)


def test_codes_of_three_bits_are_refused() -> None:
    with pytest.raises(BadInputError):
        encode(normal(2, 8), 3)
