"""vLLM's platform functions by name: what each says, from evidence and without a library opened in this process.

Equal to vLLM 0.33's where those are right; docs/compatibility.md has the differences.
"""

from __future__ import annotations

from vplug_rs.notices import warn
from vplug_rs.platforms.classes import UNSPECIFIED


def tpu_platform_plugin() -> str | None:
    """The class for TPUs, or None."""
    return _ask("tpu")


def cuda_platform_plugin() -> str | None:
    """The class for NVIDIA's GPUs, or None; a driver that does not answer is None with a warning."""
    return _ask("cuda")


def rocm_platform_plugin() -> str | None:
    """The class for AMD's GPUs, or None."""
    return _ask("rocm")


def xpu_platform_plugin() -> str | None:
    """The class for Intel's GPUs, or None."""
    return _ask("xpu")


def cpu_platform_plugin() -> str | None:
    """The class for CPUs, or None where neither the build nor the environment says CPU."""
    return _ask("cpu")


def resolve_current_platform_cls_qualname() -> str:
    """The dotted name of the class that counts now; that of vLLM's unspecified platform where there is none.

    Raises:
        PlatformError: several platforms are here, or `VPLUG_PLATFORM` cannot be followed.
        PlatformUnknownError: a driver did not answer, and `VPLUG_ON_UNKNOWN` is "error".
        PolicyError: the policy for plugins cannot be read, or what is installed breaks it.
    """
    from vplug_rs.platforms.resolution import resolve

    resolution = resolve()
    for warning in resolution.warnings:
        warn(warning)
    return resolution.qualname or UNSPECIFIED


def _ask(platform: str) -> str | None:
    from vplug_rs.platforms import advice
    from vplug_rs.platforms.model import MASKED, PRESENT, UNKNOWN
    from vplug_rs.platforms.probing import DRIVERS, probe

    for found in probe(active=None if platform in DRIVERS else False):
        if found.platform == platform:
            if found.status == UNKNOWN:
                warn(advice.unanswered(found, matters=True))
            return found.qualname if found.status in {PRESENT, MASKED} else None
    return None
