"""What is to be said of probes and resolutions: reasons, warnings, and the one hint that helps most."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.platforms.classes import CLASSES, spoken_of
from vplug_rs.platforms.model import (
    ABSENT,
    AGAINST,
    MASKED,
    OOT,
    OVERRIDE,
    PRESENT,
    SKIPPED,
    STRONG,
    UNKNOWN,
    WEAK,
    Probe,
    Resolution,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_BUILDS = ("cuda", "rocm", "xpu")
NOTHING_SEEN = (
    "No accelerator that vLLM can use is seen here. "
    "To run on the CPU, set VLLM_TARGET_DEVICE=cpu or install a CPU build of vLLM."
)


def named(probe: Probe) -> str:
    """A platform for people: `cuda`, or `npu of acme-npu 1.0`."""
    return probe.platform if probe.source == "builtin" else f"{probe.platform} of {probe.source}"


def full_name(probe: Probe) -> str:
    """What `VPLUG_PLATFORM` has to say for it, come what may: `builtin:cuda`, `acme-npu:npu`."""
    return f"{probe.source.partition(' ')[0]}:{probe.platform}"


def why_not(probe: Probe, chosen: Probe | None, why: str) -> str:
    """Why a platform does not count.

    Args:
        probe: It.
        chosen: The one that counts, or None.
        why: The reason for the built-in ones that are here and lost.
    """
    if probe.status not in {PRESENT, MASKED}:
        return probe.reason
    if not probe.qualname:
        return f"{probe.reason}; vLLM has no class for it, and no plugin for it is active".removeprefix("; ")
    if chosen is None:
        return why or probe.reason
    if chosen.source != "builtin":
        if probe.source != "builtin":
            return f"{named(chosen)} names the same class"
        return f"{named(chosen)} is a plugin, and that wins over every built-in platform"
    return why or f"{named(chosen)} counts"


def failed(probe: Probe) -> str:
    """The warning of a plugin that could not say whether its platform is here."""
    hint = f" ({probe.hint})" if probe.hint else ""
    return f"the platform plugin {named(probe)} does not count, for it gave no usable answer: {probe.reason}{hint}"


def unanswered(probe: Probe, *, matters: bool) -> str:
    """The warning of a driver that did not answer, with what was seen all the same."""
    seen = [row for row in probe.evidence if row.weight in {STRONG, WEAK}]
    told = "; ".join(dict.fromkeys(f"{row.subject}: {row.text or row.result}" for row in seen[:4]))
    less = "" if matters else "; what counts would count all the same"
    said = f", though there is {told}" if told else ", and nothing of it was seen"
    return f"whether the platform {probe.platform} is here is not known{said} ({probe.reason}){less}"


def unfounded(chosen: Probe, builtin: Sequence[Probe]) -> list[str]:
    """The warning of a plugin that claims hardware of which nothing is seen, while others' is."""
    own = spoken_of(chosen.platform, chosen.source, chosen.qualname or "")
    mine = next((probe for probe in builtin if probe.platform == own), None)
    if mine is None or mine.weighs(STRONG) or mine.weighs(WEAK):
        return []
    others = [probe for probe in builtin if probe.platform not in {own, "cpu"} and probe.strong]
    if not others:
        return []
    there = " and ".join(f"{probe.platform} ({_devices(probe)})" for probe in others)
    return [f"the platform plugin {named(chosen)} claims {own}, of which nothing is seen here; what is seen is {there}"]


def agreement(chosen: Probe, active: Sequence[Probe]) -> list[str]:
    """The warning of plugins of several names that name one class: vLLM, which counts names, starts with none."""
    others = sorted(named(probe) for probe in active if probe.platform != chosen.platform)
    if not others:
        return []
    told = " and ".join([named(chosen), *others])
    return [f"the platform plugins {told} name one class, which vLLM takes for a conflict: uninstall all but one"]


def _devices(probe: Probe) -> str:
    if probe.devices:
        return report.count(len(probe.devices), "device")
    return probe.reason or probe.weighs(STRONG)[0].text


def mismatch(chosen: Probe | None, torch: Any) -> list[str]:
    """The warning of a torch that cannot use the platform that counts."""
    if chosen is None or torch is None or chosen.platform not in _BUILDS:
        return []
    if torch.kind in {chosen.platform, "unknown"}:
        return []
    is_built = f"the installed torch {torch.version} is built for {torch.kind}"
    return [f"the platform is {chosen.platform}, and {is_built}: install the build for {chosen.platform}"]


def is_broken(probe: Probe) -> bool:
    """Whether a device was seen, and its driver answered with an error, or counted it and then hung, died or lost it.

    That it counts none is no error, nor is a device that is lost while others answer.
    """
    if any(row.id.endswith((".cut-short", ".all-lost")) for row in probe.evidence):
        return True
    errors = (row for row in probe.weighs(AGAINST) if row.kind == "call" and row.result.startswith("error"))
    return probe.status == ABSENT and probe.strong and any(errors)


def hint(resolution: Resolution) -> str | None:
    """The one next step that helps most, or None where a platform counts and nothing is to be done."""
    probes = resolution.probes
    failures = [probe for probe in probes if probe.source != "builtin" and probe.status == UNKNOWN]
    chosen = resolution.probe(resolution.platform) if resolution.platform else None
    # whoever forces a platform, or names a class, knows what is here
    forced = resolution.rule == OVERRIDE and (chosen is None or chosen.status not in {PRESENT, MASKED})
    if forced or resolution.rule == OOT:
        return failures[0].hint if failures else None
    if chosen is not None:
        return chosen.hint or (failures[0].hint if failures else None)
    builtin = [probe for probe in probes if probe.source == "builtin" and probe.status != SKIPPED]
    plain = [probe for probe in builtin if probe.platform != "cpu"]
    ranks = (
        [probe for probe in plain if probe.status == UNKNOWN],
        [probe for probe in plain if is_broken(probe)],
        failures,
        [probe for probe in probes if probe.source != "builtin" and probe.status == SKIPPED],
        [probe for probe in plain if probe.strong],
        [probe for probe in plain if probe.weighs(WEAK)],
    )
    for rank in ranks:
        for probe in rank:
            if probe.hint:
                return probe.hint
            if probe.status == PRESENT and probe.platform not in CLASSES:
                return f"{_there(probe)}, and vLLM uses it by a plugin only: install the plugin for {probe.platform}."
    return NOTHING_SEEN


def _there(probe: Probe) -> str:
    return f"{probe.platform} is here ({probe.reason.rstrip('.')})" if probe.reason else f"{probe.platform} is here"
