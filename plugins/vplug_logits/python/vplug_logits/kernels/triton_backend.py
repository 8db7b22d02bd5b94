"""The backend for NVIDIA GPUs: whether it can be used here, and its fused step.

Neither Triton nor a device is looked at before it is asked for.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.kernels.plain import PlainBackend

if TYPE_CHECKING:
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

    def step(self, weight: torch.Tensor, sketch: Sketch, **how: Any) -> TritonStep:
        """The fused step of a head; parameters and errors as `triton_step.TritonStep`."""
        from vplug_logits.kernels.triton_step import TritonStep

        return TritonStep(weight, sketch, **how)
