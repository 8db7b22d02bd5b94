"""AMD GPUs: the kernel's own list (KFD), which needs no library; AMD's library is asked on request only."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms import hints, masks
from vplug_rs.platforms.classes import CLASSES
from vplug_rs.platforms.judges import wsl
from vplug_rs.platforms.judges.context import AMDSMI, Case, seen, sentence
from vplug_rs.platforms.model import ABSENT, INFO, PRESENT, STRONG, WEAK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from vplug_rs.platforms.judges.context import Context
    from vplug_rs.platforms.model import Device, Evidence, Probe

QUALNAME = CLASSES["rocm"]


def judge(evidence: Sequence[Evidence], devices: Sequence[Device], context: Context) -> Probe:
    """The judgement on ROCm.

    Args:
        evidence: What the passive pass saw.
        devices: The GPUs that it saw.
        context: What else is known; `answers` has that of amdsmi if it was asked.
    """
    case = Case("rocm", evidence, devices, context)
    answered = _add_amdsmi(case)
    if not case.has(STRONG) and not case.has(WEAK) and not answered:
        return case.nothing()
    case.add_torch()
    gpus, control = case.those("kfd"), case.those("control")
    if gpus:
        return _listed(case, gpus)
    if answered:
        return _present(case, f"amdsmi counts {report.count(answered, 'AMD GPU')}")
    if case.those("wsl"):
        return wsl.judge(case, "ROCm", qualname=QUALNAME, hiding=masks.rocm(context.environment))
    on_bus = [one for one in case.those("pci") if one.weight == STRONG]
    if on_bus and control:
        many = report.count(len(on_bus), "AMD GPU")
        return _present(case, f"{many} on the PCI bus, and /dev/kfd; the kernel lists none")
    if on_bus:
        reason = "an AMD GPU is on the PCI bus, and /dev/kfd is missing"
        return case.close(ABSENT, reason, hint=hints.advise("amdgpu-not-loaded"))
    if control and _is_hidden(case) and context.torch is not None and context.torch.kind == "rocm":
        return _present(case, "/dev/kfd, the kernel's list cannot be read, and torch is built for ROCm")
    weak = case.weighs(WEAK)
    hint = (_amdsmi_hint(case) if _is_hidden(case) else None) or hints.advise("kfd-without-gpu")
    return case.close(ABSENT, f"no GPU that computes, only {seen(weak)}", hint=hint if control else None)


def _listed(case: Case, gpus: Sequence[Evidence]) -> Probe:
    """GPUs in the kernel's list. Sysfs is the host's in every container, and nothing computes without /dev/kfd."""
    found = sum(one.weight == STRONG for one in gpus)
    reason = f"{report.count(found, 'AMD GPU')} in the kernel's list"
    if not found:
        reason = f"only graphics inside a processor ({seen(gpus)})"
    if case.those("control"):
        return _present(case, reason)
    return case.close(ABSENT, f"{reason}, and /dev/kfd is missing", hint=hints.advise("amdgpu-not-loaded"))


def _present(case: Case, reason: str) -> Probe:
    told, hint = case.closed("render", "access") or ("", case.torch_hint() or _amdsmi_hint(case))
    reason += told
    return case.close(PRESENT, reason, qualname=QUALNAME, hint=hint, hiding=masks.rocm(case.context.environment))


def _is_hidden(case: Case) -> bool:
    """Whether the kernel's list is there and this process may not read it."""
    return any("/kfd/topology/" in one.subject for one in case.those("unreadable"))


def _add_amdsmi(case: Case) -> int:
    """What AMD's library answered; its number of GPUs."""
    answer = case.context.answers.get(AMDSMI)
    if answer is None:
        return 0
    case.take_answer(AMDSMI)
    count = (answer.count or 0) if answer.outcome == "answered" else 0
    said = str(count) if answer.outcome == "answered" else f"error {answer.code}" if answer.code is not None else ""
    case.add("amdsmi", "call", answer.call, said, INFO, sentence(answer.text))
    if count and len(answer.devices) >= len(case.devices):
        case.devices = list(answer.devices)
    return count


def _amdsmi_hint(case: Case) -> str | None:
    return None if case.context.find("amdsmi") else hints.advise("amdsmi-missing")
