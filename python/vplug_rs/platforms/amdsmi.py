"""AMD's SMI, asked in a process of its own, and only on request: its import prints, and its library may do anything.

`job` makes what `isolated.run` runs, `read` makes an answer of its end.
"""

from __future__ import annotations

from vplug_rs.platforms import active
from vplug_rs.platforms.active import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.platforms.isolated import End, Job

__all__ = ["ERRORS", "Answer", "job", "read"]

ERRORS = {
    1: "InvalidArguments",
    2: "NotSupported",
    3: "NotYetImplemented",
    4: "FailLoadModule",
    5: "FailLoadSymbol",
    6: "DrmError",
    7: "ApiFailed",
    8: "Timeout",
    9: "Retry",
    10: "NoPermission",
    11: "Interrupt",
    12: "InputOutput",
    13: "AddressFault",
    14: "FileError",
    15: "OutOfResources",
    16: "InternalException",
    17: "InputOutOfBounds",
    18: "InitError",
    19: "RefcountOverflow",
    20: "DirectoryNotFound",
    30: "Busy",
    31: "NotFound",
    32: "NotInitialized",
    33: "NoSlot",
    34: "DriverNotLoaded",
    40: "NoData",
    51: "NoDriver",
    52: "FileNotFound",
}
"""The library's error codes that its first calls give."""


def job(path: str, environment: dict[str, str] | None = None) -> Job:
    """What asks AMD's SMI.

    Args:
        path: The package's folder, or the module's file.
        environment: All variables of the child, or None for those of this process.
    """
    import os

    from vplug_rs.platforms.isolated import Job

    inside = os.path.join(path, "__init__.py")
    words = active.job_words("amdsmi", inside if os.path.isfile(inside) else path)
    return Job("The process that asks AMD's SMI", words, environment)


def read(end: End) -> Answer:
    """What it answered. Never raises for what the child said."""
    return active.read(end, library="AMD's SMI", backend="amdsmi", errors=ERRORS)
