"""The Triton step of a head beside torch's dense bfloat16 head, on the GPU that is here."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.config import DEFAULTS, Mode
from vplug_logits.kernels.registry import made
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vplug_logits.benchmark.beds import Bed
    from vplug_logits.benchmark.timing import Plan
    from vplug_logits.kernels.triton_step import TritonStep
    from vplug_logits.sketch import Sketch

MODES = (Mode.SAFE, Mode.FAST)
_SHARE = 16  # as in `head`: states that want more than a row in so many go dense


def run(beds: Sequence[Callable[[], Bed]], plan: Plan, *, progress: Progress = silent) -> list[dict[str, Any]]:
    """Measure heads in bfloat16.

    Args:
        beds: Makers of heads.
        plan: Its batches and rounds.
        progress: Called with "gpu".

    Returns:
        For each head, mode and batch size: gpu (its name), vocabulary, width, mode, batch; misses: states whose winner
        is more than a rounding step of bfloat16 below that in float32; dense: states that were given up; launches (by
        name), step, dense_head: seconds, medians.

    Raises:
        BackendError: Triton cannot serve a GPU here; with the reason.
    """
    device = torch.device("cuda")
    made("triton", device)
    found = []
    for number, make in enumerate(beds):
        found += _of(make(), plan, device)
        progress("gpu", number + 1, len(beds))
    return found


def _of(bed: Bed, plan: Plan, device: torch.device) -> list[dict[str, Any]]:
    from vplug_logits.kernels import triton_bench

    weight = bed.weight.to(device, torch.bfloat16)
    found = []
    for mode in MODES:
        step = _step(weight, _placed(bed.sketch(DEFAULTS[mode].bits), device), mode)
        for batch in plan.batches:
            states = bed.states[:batch].to(device, torch.bfloat16)
            told = {
                "gpu": torch.cuda.get_device_name(device),
                "vocabulary": bed.vocabulary,
                "width": bed.width,
                "mode": str(mode),
                "batch": len(states),
                **_right(step, weight, states),
            }
            times = asdict(triton_bench.measure(step, weight, states, rounds=plan.rounds))
            found.append(told | {"launches": times["launches"], "step": times["step"], "dense_head": times["dense"]})
    return found


def _step(weight: torch.Tensor, sketch: Sketch, mode: Mode) -> TritonStep:
    from vplug_logits.kernels.triton_step import TritonStep

    default = DEFAULTS[mode]
    return TritonStep(
        weight,
        sketch,
        rows=default.rows,
        limit=sketch.vocabulary // _SHARE,
        share=min(1.0, default.z / math.sqrt(sketch.width)) if mode is Mode.SAFE else None,
        possible=1.0,
    )


def _right(step: TritonStep, weight: torch.Tensor, states: torch.Tensor) -> dict[str, int]:
    out = states.new_empty(len(states), weight.shape[0])
    answered = torch.tensor([slug is None for slug, _, _ in step.run(states, out).read()], device=out.device)
    exact = states.float() @ weight.float().T
    best, chosen = exact.amax(1), exact.gather(1, out.argmax(1, keepdim=True))[:, 0]
    missed = best - chosen > torch.finfo(out.dtype).eps * best.abs()
    return {"misses": int((missed & answered).sum()), "dense": int((~answered).sum())}


def _placed(sketch: Sketch, device: torch.device) -> Sketch:
    names = ("codes", "scale", "residual", "norm", "transform", "mean")
    tensors = {name: getattr(sketch, name) for name in names}
    return replace(sketch, **{name: one.to(device) for name, one in tensors.items() if one is not None})
