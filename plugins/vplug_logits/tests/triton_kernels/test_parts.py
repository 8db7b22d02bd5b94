"""The small functions of the kernels, each in a kernel of its own."""

from __future__ import annotations

import pytest
import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

from vplug_logits import after
from vplug_logits.counters import REASONS
from vplug_logits.kernels import triton_ops as ops
from vplug_logits.kernels import triton_step

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy, of values that are not finite


@triton.jit  # type: ignore[untyped-decorator]
def bucket_fwd_kernel(values, out, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
    slot = tl.arange(0, SIZE)
    tl.store(out + slot, ops._bucket(tl.load(values + slot)))


@triton.jit  # type: ignore[untyped-decorator]
def floor_fwd_kernel(tops, out, cap, EPSILON: tl.constexpr, TINY: tl.constexpr, CAP: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, N803
    slot = tl.arange(0, SIZE)
    tl.store(out + slot, ops._floor(tl.load(tops + slot), cap, EPSILON, TINY, CAP))


def test_buckets_never_fall_and_never_leave_the_histogram() -> None:
    some = torch.randn(1000).mul(torch.randn(1000).mul(6).exp())
    values = torch.cat([some, torch.tensor([0.0, -0.0, 1e-40, torch.inf, -torch.inf, 3e38, -3e38])])
    values = torch.cat([values.sort().values, torch.full((1024 - len(values),), torch.nan)])
    found = torch.full((1024,), -1, dtype=torch.int32)
    bucket_fwd_kernel[(1,)](values, found, SIZE=1024)

    real = found[~values.isnan()]
    assert (real.diff() >= 0).all()
    assert found.min() == 0
    assert found.max() == ops.BUCKETS - 1
    assert (found >= 0).all()
    inner = real[(values[~values.isnan()].abs() > 2.0**-8) & (values[~values.isnan()].abs() < 2.0**7)]
    assert len(set(inner.tolist())) > 0.4 * len(inner)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cap", [None, 30.0, 5.0])
def test_the_floor_is_as_far_below_the_best_logit_as_rounding_may_reach(dtype: torch.dtype, cap: float | None) -> None:
    tops = torch.cat([torch.randn(32).mul(20), torch.tensor([0.0, 1e-6, -1e-6, 1e-30, 1.0, 29.0, 100.0, -100.0])])
    tops = torch.nn.functional.pad(tops, (0, 64 - len(tops)))
    found = torch.empty(64, dtype=torch.float64)
    info = torch.finfo(dtype)
    floor_fwd_kernel[(1,)](tops, found, cap or 1.0, EPSILON=info.eps, TINY=info.tiny, CAP=cap is not None, SIZE=64)

    wanted = tops.double() - after.After(cap).margin(tops, dtype)
    close = 1e-8 * (tops.double() - wanted).nan_to_num(posinf=0.0)
    assert (found <= wanted + close).all()
    assert (found >= wanted - close - 1e-12).all()


def test_the_kernels_share_their_numbers_with_the_rest() -> None:
    assert ops._STEPS.value == after.STEPS
    assert set(triton_step.FLAGS.values()) <= set(REASONS)
    assert len({*triton_step.FLAGS}) == 4
