"""What a head competes with: torch's dense heads, int8 of torch and of our own, and nothing but reading the bytes."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.benchmark import machine
from vplug_logits.layout import pack
from vplug_logits.sketch import Sketch, padded_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = Callable[[torch.Tensor], Any]

_ENGINES = ("fbgemm", "onednn")  # of torch.ao; "x86" is one of the two, by the size
_CHUNK = 8192  # rows that are coded at a time


def torch_int8(weight: torch.Tensor) -> dict[str, tuple[Answer, torch.dtype]]:
    """The ways in which torch's own operations multiply int8 weights: a name, the head, the dtype of its states.

    Symmetric codes with one scale for each row; float logits of all rows come out.

    Args:
        weight: float32 `(V, d)`.
    """
    codes, scale = _symmetric(weight)
    half = scale.to(torch.bfloat16)
    return {
        "_weight_int8pack_mm": (lambda states: torch._weight_int8pack_mm(states, codes, half), torch.bfloat16),  # noqa: SLF001
        "_int_mm": (lambda states: _integer_product(states, codes, scale), torch.float32),
    }


def torch_ao(weight: torch.Tensor) -> dict[str, Answer]:
    """The dynamically quantised linear layer of torch.ao, by engine: int8 weights, float32 states in and logits out.

    States become 7 bits, as in torch.ao's own layer (without VNNI sums of 8 bits overflow), with one scale for all of
    them, so that outliers cost the others their precision.

    Args:
        weight: float32 `(V, d)`.
    """
    _, scale = _symmetric(weight)
    quantised: Any = torch.ops.quantized
    backend: Any = torch.backends.quantized
    before = backend.engine
    ways: dict[str, Answer] = {}
    for engine in _ENGINES:
        if engine not in backend.supported_engines:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it tells that it will move to another package
            backend.engine = engine
            made: Any = torch.quantize_per_channel
            rows = made(weight, scale.double(), torch.zeros(len(scale), dtype=torch.int64), 0, torch.qint8)
            packed = quantised.linear_prepack(rows, None)
        ways[engine] = functools.partial(quantised.linear_dynamic, W_prepack=packed, reduce_range=True)
    backend.engine = before
    return ways


def own_int8(weight: torch.Tensor) -> Sketch:
    """The raw rows in 8 bits, in the layout of a sketch: what a dense int8 head of our own scans.

    No metric, no mean and no certificate: `backend.scan(sketch, states)` are its logits.

    Args:
        weight: float32 `(V, d)`.
    """
    vocabulary, width = weight.shape
    missing = padded_rows(vocabulary) - vocabulary
    scale = weight.abs().amax(1) / 127.5
    unit = 2.0 ** int(torch.frexp(scale.amax()).exponent)  # the largest scale is in 1/2..1
    kept = (scale / unit).to(torch.float16)
    exact = kept.float() * unit
    parts = []
    for start in range(0, vocabulary, _CHUNK):
        rows = weight[start : start + _CHUNK]
        levels = (rows / _nonzero(exact[start : start + _CHUNK])[:, None]).floor_() + 128
        parts.append(pack(levels.clamp_(0, 255).to(torch.uint8), 8))
    padded = torch.nn.functional.pad(kept, (0, missing))
    codes = torch.cat(parts)
    nothing = torch.zeros_like(padded)
    return Sketch(
        bits=8,
        vocabulary=vocabulary,
        width=width,
        codes=codes,
        scale=padded,
        residual=nothing,
        norm=nothing,
        unit=unit,
        transform=torch.eye(width, dtype=torch.bfloat16),
        mean=torch.zeros(width),
    )


def readers(codes: torch.Tensor) -> dict[str, Answer]:
    """Ways to read bytes and do next to nothing with them; the fastest is the limit of whatever reads them.

    Args:
        codes: uint8, contiguous.
    """
    flat = codes.reshape(-1)
    flat = flat[: flat.numel() // 8 * 8]
    ways: dict[str, Answer] = {
        "sum of float32": lambda _: flat.view(torch.float32).sum(),
        "sum of int64": lambda _: flat.view(torch.int64).sum(),
        "maximum of int32": lambda _: flat.view(torch.int32).amax(),
    }
    kernels = machine.kernels()
    if kernels is not None:
        lent = torch.utils.dlpack.to_dlpack  # type: ignore[attr-defined]
        ways["our own read"] = lambda _: kernels.read(lent(flat), torch.get_num_threads())
    return ways


def _integer_product(states: torch.Tensor, codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    step = states.abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / 127
    whole = (states / step).round_().to(torch.int8)
    return torch._int_mm(whole, codes.T).to(torch.float32).mul_(step).mul_(scale)  # noqa: SLF001


def _symmetric(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = _nonzero(weight.abs().amax(1) / 127)
    parts = [
        (rows / some[:, None]).round_().to(torch.int8)
        for rows, some in zip(torch.split(weight, _CHUNK), torch.split(scale, _CHUNK), strict=True)
    ]
    return torch.cat(parts), scale


def _nonzero(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale > 0, scale, torch.ones_like(scale))
