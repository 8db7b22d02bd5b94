"""Google's TPUs: Pathways, a chip, or libtpu on the path, which vLLM takes for enough."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms import hints, masks
from vplug_rs.platforms.classes import CLASSES, PATHWAYS
from vplug_rs.platforms.judges.context import Case, seen
from vplug_rs.platforms.model import ABSENT, PRESENT, STRONG, WEAK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_rs.platforms.judges.context import Context
    from vplug_rs.platforms.model import Device, Evidence, Probe

QUALNAME = CLASSES["tpu"]


def judge(evidence: Sequence[Evidence], devices: Sequence[Device], context: Context) -> Probe:
    """The judgement on TPU.

    Args:
        evidence: What the passive pass saw.
        devices: The chips that it saw.
        context: What else is known; libtpu is looked for, never imported.
    """
    case = Case("tpu", evidence, devices, context)
    pathways = case.those("pathways")
    chip = any(one.weight == STRONG for one in case.those("pci", "accel", "vfio"))
    libtpu = context.find("libtpu")
    if libtpu is not None:
        text = "libtpu is installed, which alone makes vLLM take this for a TPU host"
        case.add("libtpu", "module", libtpu.path, "", WEAK, text)
    hiding = masks.tpu(context.environment)
    if pathways:
        reason = f"{pathways[0].subject} asks for Pathways"
        return case.close(PRESENT, reason, qualname=PATHWAYS, hint=_hint(case), hiding=hiding)
    if chip:
        chips = report.count(len(case.devices), "TPU chip") if case.devices else "a TPU chip"
        reason = f"{chips} seen" + ("" if libtpu else "; libtpu is not installed")
        return case.close(PRESENT, reason, qualname=QUALNAME, hint=_hint(case), hiding=hiding)
    if libtpu is not None:
        reason = "libtpu is installed, and no chip is seen"
        return case.close(PRESENT, reason, qualname=QUALNAME, hiding=hiding)
    weak = case.weighs(WEAK)
    if weak:
        return case.close(ABSENT, f"no TPU that is known, only {seen(weak)}")
    return case.nothing()


def _hint(case: Case) -> str | None:
    """VLLM's class is tpu_inference's under another name."""
    if case.context.vllm is None or case.context.find("tpu_inference"):
        return None
    return hints.advise("tpu-inference-missing")
