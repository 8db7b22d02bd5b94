"""Which hint a case about NVIDIA GPUs gets: by files alone, by NVML's error, by how it fell silent."""

from __future__ import annotations

from vplug_rs.platforms import hints, masks
from vplug_rs.platforms.judges import codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.platforms.judges.context import Case


def of_files(case: Case) -> str | None:
    """What files tell of a GPU on the bus that no driver serves, or whose nodes nobody has handed over."""
    if not case.those("pci") or case.those("node", "tegra"):
        return None
    if not case.those("driver"):
        return hints.advise("nouveau" if _has_nouveau(case) else "driver-not-loaded")
    return None if case.those("library") else hints.advise("container-without-runtime")


def of_error(case: Case, code: int) -> str:
    """What cures an error of NVML; the same code has several causes, and files tell them apart."""
    if code == codes.MISMATCH:
        return of_mismatch(case)
    if code in {codes.NOT_LOADED, codes.NO_LIBRARY} and _has_nouveau(case):
        return hints.advise("nouveau")
    if code == codes.NO_LIBRARY:
        behind = case.those("pci", "node", "driver", "control")
        if case.those("wsl") and not behind:
            return hints.advise("wsl")
        return hints.advise("container-without-runtime" if behind else "library-missing")
    if case.those("wsl"):
        return hints.advise("wsl")
    if code == codes.NO_PERMISSION or (code in {codes.OPERATING_SYSTEM, codes.UNKNOWN_ERROR} and case.those("access")):
        return of_closed(case)
    return hints.advise(codes.HINTS.get(code, "driver-error"))


def of_closed(case: Case) -> str:
    """What opens nodes that this process may not open: their mode is one thing, a container's device cgroup another."""
    if any(one.result == codes.FORBIDDEN for one in case.those("access")):
        return hints.advise("cgroup")
    return hints.advise("no-permission", nodes="/dev/nvidia*")


def of_silence(case: Case, who: str) -> str:
    """What to do where the driver hung, or the process that asked it died or said nothing of use."""
    how = case.context.ends.get(who)
    if how == "timeout":
        return hints.advise("timeout", seconds=case.context.seconds)
    return hints.advise("crash" if how == "signal" else hints.NEVER_STARTED.get(how or "", "no-answer"))


def of_cut_short(case: Case, who: str) -> str:
    """What to do where the driver had begun to answer: then it was no fault of how its process was started."""
    return of_silence(case, who) if case.context.ends.get(who) == "timeout" else hints.advise("crash")


def of_mismatch(case: Case) -> str:
    """Both versions and how to make them one."""
    facts = case.context.facts
    kernel, library = facts.get("cuda.kernel") or "(unknown)", facts.get("cuda.library") or "(unknown)"
    return hints.advise("driver-mismatch", kernel=kernel, library=library)


def of_mig(case: Case) -> str | None:
    """Only where an instance is asked for: that a GPU has none says nothing of whether MIG is on."""
    asked = any(str(item).startswith("MIG-") for mask in masks.cuda(case.context.environment) for item in mask.items)
    listed = case.those("mig")
    if asked and listed and all(one.result.split(" ")[0] == "0" for one in listed):
        return hints.advise("mig-without-instance", variable=masks.CUDA)
    return None


def of_shadow(case: Case) -> str | None:
    """Which folder to remove, if one stands before NVIDIA's `pynvml.py`."""
    shadow = case.those("shadow")
    return hints.advise("pynvml-shadowed", folder=shadow[0].subject) if shadow else None


def _has_nouveau(case: Case) -> bool:
    return any(device.driver == "nouveau" for device in case.devices)


def versions(case: Case) -> str:
    """Both versions, where they are known without NVML."""
    kernel, library = (case.context.facts.get(name) for name in ("cuda.kernel", "cuda.library"))
    return f"user-space library {library}, kernel module {kernel}" if kernel and library else ""
