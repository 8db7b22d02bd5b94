"""The backend for NVIDIA GPUs: whether it can be used here, and its fused step.

Neither Triton nor a device is looked at before it is asked for.
"""

from __future__ import annotations

import importlib.util
import threading
from typing import TYPE_CHECKING

import torch

from vplug_logits.kernels.plain import PlainBackend
from vplug_logits.kernels.rules import OUTCOMES, Report

if TYPE_CHECKING:
    from vplug_logits.kernels.rules import Fused, Rules
    from vplug_logits.kernels.triton_step import TritonStep
    from vplug_logits.sketch import Sketch

_CAPABILITY = (8, 0)  # the first whose tensor cores know bfloat16


def available() -> str | None:
    """Why the kernels cannot run in this process, as a sentence; None: they can.

    A call starts torch's CUDA runtime where there is one, so it is not for a process that forks later.
    """
    if importlib.util.find_spec("triton") is None:
        return "the package triton is not installed."
    if torch.version.cuda is None:
        return f"torch {torch.__version__} was built without CUDA."
    if not torch.cuda.is_available():
        return "torch finds no CUDA device."
    capability = torch.cuda.get_device_capability()
    if capability < _CAPABILITY:
        have, want = (".".join(map(str, version)) for version in (capability, _CAPABILITY))
        return f"{torch.cuda.get_device_name()} has compute capability {have}, the kernels need {want}."
    import triton  # type: ignore[import-untyped]

    if not hasattr(triton, "knobs"):
        return f"triton {triton.__version__} is too old; the kernels need 3.5."
    if triton.knobs.runtime.interpret:
        return "TRITON_INTERPRET is set, so kernels run on the CPU."
    try:
        triton.runtime.driver.active.get_current_target()
    except Exception as error:  # noqa: BLE001  # drivers raise whatever their loading raised
        return f"triton {triton.__version__} finds no driver: {error}"
    return None


class TritonBackend(PlainBackend):
    """torch's own operations for single calls, and the fused step of `triton_step`.

    Draws, and whatever else asks for estimates alone, is served by torch: it is on no path that is hot.
    """

    name = "triton"

    def fused(self, weight: torch.Tensor, sketch: Sketch, rules: Rules) -> Fused | None:
        """As `Backend.fused`; None where the numbers of a row do not lie side by side."""
        if not sketch.vocabulary or weight.stride(1) != 1:
            return None
        from vplug_logits.kernels.triton_step import TritonStep

        step = TritonStep(
            weight.detach(),
            sketch,
            rows=rules.rows,
            limit=rules.limit,
            share=rules.share,
            possible=rules.possible,
            dtype=rules.dtype,
            outside="estimates" if rules.estimates else "-inf",
            cap=rules.cap,
        )
        return _Step(step)


class _Step:
    """The step of one head, for one thread at a time: it works in buffers of its own."""

    def __init__(self, step: TritonStep) -> None:
        self._step, self._lock = step, threading.Lock()

    def step(self, states: torch.Tensor, out: torch.Tensor, lost: float) -> Report:
        """As `Fused.step`; waits for the device, since what fell back is known there only."""
        if states.stride(1) != 1:
            states = states.contiguous()
        with self._lock:
            every = self._step.run(states, out, lost).read()
        outcomes = bytes(OUTCOMES.index(slug) for slug, _, _ in every)
        if any(outcome and OUTCOMES[outcome] == "drift" for outcome in outcomes):  # changed under one, so under all
            outcomes = bytes(outcome or OUTCOMES.index("drift") for outcome in outcomes)
        fine = [one for one, outcome in zip(every, outcomes, strict=True) if not outcome]
        return Report(
            outcomes=outcomes,
            rescored=sum(rescored for _, rescored, _ in fine),
            most=max((rescored for _, rescored, _ in fine), default=0),
            clipped=sum(clipped for _, _, clipped in fine),
            rescore_seconds=0.0,
            seconds=0.0,
        )
