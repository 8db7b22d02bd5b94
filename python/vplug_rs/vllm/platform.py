"""The platform beside vLLM's own probes: what is ordered, what `vplug run` has found, and why there is none."""

from __future__ import annotations

from vplug_rs import env
from vplug_rs.platforms.classes import CLASSES
from vplug_rs.vllm.selection import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.platforms.model import Resolution

# Of the others vLLM's own probe does more than answer (XPU's chooses a back end), or asks another library (amdsmi).
_HANDED_ON = {"cuda", "cpu"}


def settled(unspecified: str) -> str | None:
    """The class that counts without a probe of vLLM's being asked; None where nothing is settled.

    Args:
        unspecified: What counts where `VPLUG_PLATFORM` names a platform of which nobody knows whether it is here.

    Raises:
        VplugError: `VPLUG_PLATFORM` cannot be followed.
    """
    from vplug_rs.platforms import handover, resolution

    if env.word(env.PLATFORM) is not None:
        found = resolution.resolve()
        _warn(found)
        log.debug("The platform %s is ordered", found.platform, extra={"vplug": ("ordered", found.platform)})
        return found.qualname or unspecified
    handed = handover.from_environment()
    if handed is None or handed.platform not in _HANDED_ON or handed.qualname not in CLASSES.values():
        return None
    log.debug(
        "The platform is %s: %s", handed.platform, handed.probes[0].reason, extra={"vplug": ("handed", handed.platform)}
    )
    return handed.qualname


def tell_why_none() -> None:
    """Warns with what files tell, where no probe of vLLM's has found a platform. No driver is asked."""
    from vplug_rs.platforms import advice
    from vplug_rs.platforms.model import NONE, Resolution
    from vplug_rs.platforms.probing import probe

    probes = probe(active=False)
    seen = [f"{one.platform}: {one.reason}" for one in probes if one.evidence and one.platform != "cpu"]
    hint = advice.hint(Resolution(NONE, probes=probes))
    text = "No platform was found" + (f" ({'; '.join(seen)})" if seen else ", and no trace of an accelerator")
    log.warning("%s. `vplug doctor --platform` asks the drivers%s", text, f". {hint}" if hint else "", extra=_WARNING)


def _warn(found: Resolution) -> None:
    for text in found.warnings:
        log.warning("%s", text, extra=_WARNING)


_WARNING = {"vplug": ("warning", None)}
