"""What NVML's answers mean: which errors are an answer, what each says and which hint it gets; devices put together."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from vplug_rs.platforms.model import Device, Evidence

NO_PERMISSION, NOT_LOADED, NO_LIBRARY, NO_FUNCTION, MISMATCH = 4, 9, 12, 13, 18
LOST, RESET, OPERATING_SYSTEM, UNKNOWN_ERROR = 15, 16, 17, 999

DEFINITE = frozenset({NO_PERMISSION, NOT_LOADED, NO_LIBRARY, NO_FUNCTION, MISMATCH})
"""The errors that say that no GPU can be used. After the others one may be there."""

NO_DEVICE = 100
"""The CUDA driver's own word for no GPU; its other errors say that it does not work."""

FORBIDDEN = "operation not permitted"
"""The result of looking at a node that a device cgroup refuses; one that its mode refuses is "permission denied"."""

HINTS = {
    NOT_LOADED: "driver-not-loaded",
    NO_FUNCTION: "driver-too-old",
    LOST: "gpu-lost",
    RESET: "reset-required",
    OPERATING_SYSTEM: "cgroup",
    UNKNOWN_ERROR: "cgroup",
}

MEANINGS = {
    NO_PERMISSION: "this user may not ask the driver",
    NOT_LOADED: "the kernel driver is not loaded",
    NO_LIBRARY: "libnvidia-ml.so.1 is not found",
    NO_FUNCTION: "libnvidia-ml.so.1 lacks a function",
    LOST: "a GPU has fallen off the bus",
    RESET: "a GPU needs a reset",
    OPERATING_SYSTEM: "the operating system refuses",
    MISMATCH: "library and kernel module are of different versions",
    UNKNOWN_ERROR: "an unknown error",
}


def wants_second_opinion(evidence: Iterable[Evidence], answer: Any) -> bool:
    """Whether libcuda may know better: under WSL, NVML has been seen to miss a driver that works."""
    return (
        answer.outcome == "error"
        and answer.code in {NOT_LOADED, NO_LIBRARY}
        and any(one.id == "cuda.wsl" for one in evidence)
    )


def merge(answered: Sequence[Device], passive: Sequence[Device]) -> list[Device]:
    """NVML's devices, with what the passive pass knows of those at the same PCI address."""
    known = {address(device.pci): device for device in passive if device.pci}
    for device in answered:
        other = known.get(address(device.pci)) if device.pci else None
        if other is not None:
            for field in ("name", "memory_bytes", "memory_source", "capability", "driver", "integrated"):
                if getattr(device, field) is None:
                    setattr(device, field, getattr(other, field))
    return list(answered)


def address(text: str | None) -> str:
    """A PCI address in one spelling: NVML writes eight digits for the domain, the kernel four."""
    domain, colon, rest = (text or "").lower().partition(":")
    return domain.lstrip("0").rjust(4, "0") + colon + rest
