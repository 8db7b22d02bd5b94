"""The processor as a platform: only where vLLM is built for it, on macOS, or where the environment says so."""

from __future__ import annotations

from vplug_rs.platforms.classes import CLASSES, ZEN
from vplug_rs.platforms.judges.context import Case
from vplug_rs.platforms.model import ABSENT, INFO, PRESENT, STRONG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_rs.platforms.judges.context import Context
    from vplug_rs.platforms.model import Device, Evidence, Probe

QUALNAME = CLASSES["cpu"]


def judge(evidence: Sequence[Evidence], devices: Sequence[Device], context: Context) -> Probe:
    """The judgement on CPU.

    Args:
        evidence: What the passive pass saw.
        devices: None; a processor is not counted.
        context: What else is known; zentorch is looked for, never imported.
    """
    case = Case("cpu", evidence, devices, context)
    reason = _why(case)
    if reason is None:
        vllm = context.vllm
        said = f"{vllm.distribution} {vllm.version}".rstrip() + " is no build for CPUs" if vllm else "no vLLM is here"
        return case.close(ABSENT, f"{said}, and nothing asks for the CPU")
    return case.close(PRESENT, reason, qualname=_qualname(case))


def _why(case: Case) -> str | None:
    """The first of vLLM's three reasons, or None."""
    target, vllm = case.those("target"), case.context.vllm
    is_build = vllm is not None and vllm.is_cpu
    if vllm is not None and is_build:
        case.add("build", "dist", vllm.distribution, vllm.version, STRONG, "this vLLM is a build for CPUs")
    if case.context.system == "darwin":
        case.add("darwin", "call", "sys.platform", "darwin", STRONG, "on macOS vLLM runs on the CPU")
    if target:
        return f"{target[0].subject} is {target[0].result or 'cpu'}"
    if vllm is not None and is_build:
        return f"{vllm.distribution} {vllm.version} is a build for CPUs"
    return "this is macOS" if case.context.system == "darwin" else None


def _qualname(case: Case) -> str:
    if not any(one.result == "yes" for one in case.those("zen")):
        return QUALNAME
    found = case.context.find("zentorch")
    if found is None:
        case.add("zentorch", "module", "zentorch", "", INFO, "an AMD Zen with AVX-512, and zentorch is not installed")
        return QUALNAME
    case.add("zentorch", "module", found.path, "", INFO, "an AMD Zen with AVX-512, and zentorch is installed")
    return ZEN
