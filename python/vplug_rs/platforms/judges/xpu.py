"""Intel GPUs. Most Intel processors have one inside, so that a GPU alone makes no platform."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms import masks
from vplug_rs.platforms.classes import CLASSES
from vplug_rs.platforms.judges import wsl
from vplug_rs.platforms.judges.context import Case, seen
from vplug_rs.platforms.model import ABSENT, PRESENT, STRONG, WEAK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_rs.platforms.judges.context import Context
    from vplug_rs.platforms.model import Device, Evidence, Probe

QUALNAME = CLASSES["xpu"]


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
    if case.those("wsl") and not case.has(STRONG):
        return wsl.judge(case, "XPU", qualname=QUALNAME, hiding=masks.xpu(context.environment))
    torch = context.torch
    weak = case.weighs(WEAK)
    if case.has(STRONG):
        discrete = sum(device.integrated is not True for device in case.devices)
        reason = f"{report.count(discrete, 'Intel GPU')} seen" if discrete else "an Intel GPU is seen"
    elif torch is not None and torch.kind == "xpu":
        reason = f"graphics inside a processor ({seen(weak)}), and torch is built for XPU"
    else:
        built = f"torch is built for {torch.kind}" if torch else "there is no torch for XPU"
        return case.close(ABSENT, f"only graphics inside a processor ({seen(weak)}), and {built}")
    told, hint = case.closed("render") or ("", case.torch_hint())
    return case.close(PRESENT, reason + told, qualname=QUALNAME, hint=hint, hiding=masks.xpu(context.environment))
