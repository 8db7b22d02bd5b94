"""NVML, asked in a process of its own: which devices the NVIDIA driver has, or why not.

`job` makes what `isolated.run` runs, `read` makes an answer of its end. Two backends, the same calls in the same
order: nvidia-ml-py's `pynvml`, which is what vLLM asks, and our own, which takes over where that one cannot.
"""

from __future__ import annotations

from vplug_rs.platforms import active
from vplug_rs.platforms.active import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.platforms.isolated import End, Job

__all__ = [
    "AUTO", "CUDA_ERRORS", "ERRORS", "NATIVE", "PYNVML", "Answer", "job", "read", "read_second_opinion",
    "second_opinion_job",
]  # fmt: skip

AUTO, PYNVML, NATIVE = "auto", "pynvml", "native"

ERRORS = {
    1: "Uninitialized",
    2: "InvalidArgument",
    3: "NotSupported",
    4: "NoPermission",
    5: "AlreadyInitialized",
    6: "NotFound",
    7: "InsufficientSize",
    8: "InsufficientPower",
    9: "DriverNotLoaded",
    10: "Timeout",
    11: "IrqIssue",
    12: "LibraryNotFound",
    13: "FunctionNotFound",
    14: "CorruptedInforom",
    15: "GpuIsLost",
    16: "ResetRequired",
    17: "OperatingSystem",
    18: "LibRmVersionMismatch",
    19: "InUse",
    20: "Memory",
    21: "NoData",
    22: "VgpuEccNotSupported",
    23: "InsufficientResources",
    24: "FreqNotSupported",
    25: "ArgumentVersionMismatch",
    26: "Deprecated",
    27: "NotReady",
    28: "GpuNotFound",
    29: "InvalidState",
    30: "ResetTypeNotSupported",
    999: "Unknown",
}
"""NVML's error codes. The library is never asked for their text: it may be what has just crashed."""

CUDA_ERRORS = {
    2: "OutOfMemory",
    3: "NotInitialized",
    34: "StubLibrary",
    100: "NoDevice",
    101: "InvalidDevice",
    500: "NotFound",
    802: "SystemNotReady",
    803: "SystemDriverMismatch",
    804: "CompatNotSupportedOnDevice",
    999: "Unknown",
}
"""Those of the CUDA driver that cuInit and cuDeviceGetCount give."""


def job(
    backend: str, pynvml: str | None, environment: dict[str, str] | None = None, *, integrated: bool = False
) -> Job:
    """What asks NVML.

    Args:
        backend: `PYNVML` or `NATIVE` for this one alone, `AUTO` for pynvml and, where it is missing, broken or finds
            that the driver is too old for it, our own.
        pynvml: The path of the file `pynvml.py`, or None where there is none.
        environment: All variables of the child, or None for those of this process.
        integrated: Whether the devices are known to share the host's memory: then that is theirs where NVML knows none.

    Raises:
        ValueError: There is no such backend.
    """
    if backend not in {AUTO, PYNVML, NATIVE}:
        raise ValueError(f"`{backend}` is no backend: it is {AUTO}, {PYNVML} or {NATIVE}")
    from vplug_rs.platforms.isolated import Job

    return Job(
        "The process that asks NVML",
        active.job_words("nvml", backend, pynvml or "", _core_path(), "1" if integrated else "0"),
        environment,
    )


def read(end: End) -> Answer:
    """What NVML answered. Never raises for what the child said."""
    return active.read(end, library="NVML", backend=PYNVML, errors=ERRORS)


def second_opinion_job(environment: dict[str, str] | None = None) -> Job:
    """What asks the CUDA driver itself, for WSL, where NVML may say that there is no driver."""
    from vplug_rs.platforms.isolated import Job

    return Job("The process that asks the CUDA driver", active.job_words("cuda"), environment)


def read_second_opinion(end: End) -> Answer:
    """What the CUDA driver answered: a number of devices, and nothing about them."""
    answer = active.read(end, library="The CUDA driver", backend="libcuda", errors=CUDA_ERRORS)
    answer.devices = []
    return answer


def _core_path() -> str:
    try:
        from vplug_rs import _core
    except ImportError:  # then the child says that our own backend is not here
        return ""
    return _core.__file__
