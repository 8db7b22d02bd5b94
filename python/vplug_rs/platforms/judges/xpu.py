"""Intel GPUs. Most Intel processors have one inside, so that a GPU alone makes no platform."""

from __future__ import annotations

from vplug_rs.platforms import hints, masks
from vplug_rs.platforms.judges.context import Case, counted, seen
from vplug_rs.platforms.model import ABSENT, PRESENT, STRONG, WEAK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_rs.platforms.judges.context import Context
    from vplug_rs.platforms.model import Device, Evidence, Probe

QUALNAME = "vllm.platforms.xpu.XPUPlatform"


def judge(evidence: Sequence[Evidence], devices: Sequence[Device], context: Context) -> Probe:
    """The judgement on XPU.

    Args:
        evidence: What the passive pass saw.
        devices: The GPUs that it saw.
        context: What else is known; torch's build decides on graphics inside a processor.
    """
    case = Case("xpu", evidence, devices, context)
    if not case.has(STRONG) and not case.has(WEAK):
        return case.nothing()
    case.add_torch()
    torch = context.torch
    weak = [one for one in case.evidence if one.weight == WEAK]
    if case.has(STRONG):
        discrete = sum(device.integrated is not True for device in case.devices)
        reason = f"{counted(discrete, 'Intel GPU')} seen" if discrete else "an Intel GPU is seen"
    elif torch is not None and torch.kind == "xpu":
        reason = f"graphics inside a processor ({seen(weak)}), and torch is built for XPU"
    else:
        built = f"torch is built for {torch.kind}" if torch else "there is no torch for XPU"
        return case.close(ABSENT, f"only graphics inside a processor ({seen(weak)}), and {built}")
    closed = case.those("render")
    hint = case.torch_hint()
    if closed:
        reason += f"; {seen(closed)} cannot be used: {closed[0].result}"
        hint = hints.advise("render-node", node=closed[0].subject)
    return case.close(PRESENT, reason, qualname=QUALNAME, hint=hint, hiding=masks.xpu(context.environment))
