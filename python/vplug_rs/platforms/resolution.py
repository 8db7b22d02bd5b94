"""What probes and plugins found -> one platform, why it, and why not the others; or a reasoned refusal.

1. What is named counts: `VPLUG_PLATFORM`, or `VLLM_TARGET_DEVICE=cpu`; nobody else is asked then (`ordered`).
2. A plugin that is active wins over every built-in platform; two with different classes are an error.
3. Of built-in ones: a CPU build means cpu; the one that is here; of several the one whose device was seen, then the one
   that the installed torch is built for; else an error with vLLM's words.
4. Nothing: no class, and the most useful hint.

A driver that did not answer is none of these by itself. Where its platform, if it were here, would change the outcome,
`VPLUG_ON_UNKNOWN` says what counts.
"""

from __future__ import annotations

import os
import sys

from vplug_rs import env
from vplug_rs.platforms import advice
from vplug_rs.platforms.answers import PlatformError, PlatformUnknownError
from vplug_rs.platforms.classes import CLASSES
from vplug_rs.platforms.model import BUILTIN, MASKED, NONE, OOT, PRESENT, TIE_BREAK, UNKNOWN, Probe, Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from vplug_rs.platforms.outside import Asked

    Asker = Callable[[Collection[tuple[str, str]] | None], Asked]

ONLY_ONE = "Only one platform plugin can be activated, but got: "


class Sources:
    """Whom to ask, and in whose environment; what was given beforehand is not asked again.

    Attributes: as the arguments of `resolve`, and `heard`, what plugins have said.
    """

    def __init__(self, **given: Any) -> None:
        self.probes: Sequence[Probe] | None = given["probes"]
        self.plugins: Sequence[Probe] | None = given["plugins"]
        self.asker: Asker | None = given["asker"]
        self.environment: Mapping[str, str] | None = given["environment"]
        self.path: Sequence[str] | None = given["path"]
        self.root: str = given["root"]
        self.timeout: float | None = given["timeout"]
        self.active: bool | None = given["active"]
        self.variables = os.environ if self.environment is None else self.environment
        self.heard: list[Probe] = []

    def builtin(self, *only: str, passive: bool = False) -> list[Probe]:
        """What is known of the built-in platforms, or of those that are named."""
        if self.probes is not None:
            return [probe for probe in self.probes if not only or probe.platform in only]
        from vplug_rs.platforms.probing import DRIVERS
        from vplug_rs.platforms.probing import probe as ask

        quiet = passive or bool(only and DRIVERS.isdisjoint(only))
        active = False if quiet else self.active
        found = ask(self.root, environment=self.environment, path=self.path, timeout=self.timeout, active=active)
        return [probe for probe in found if not only or probe.platform in only]

    def listed(self) -> list[Probe]:
        """The plugins that are installed; none is imported."""
        if self.plugins is not None:
            return list(self.plugins)
        from vplug_rs.platforms import outside

        return outside.listed(self.environment, self.path).probes

    def outside(self, only: Collection[tuple[str, str]] | None = None) -> Asked:
        """What the plugins say: in this process, but for another environment or path in processes of their own."""
        asked = self._asked(only)
        self.heard = asked.probes
        return asked

    def _asked(self, only: Collection[tuple[str, str]] | None) -> Asked:
        from vplug_rs.platforms import outside

        if self.plugins is not None:
            return outside.Asked(self.plugins)
        if self.asker is not None:
            return self.asker(only)
        here = self.path is None or list(self.path) == sys.path
        if here and (self.environment is None or dict(self.environment) == dict(os.environ)):
            return outside.ask(only)
        seconds = self.timeout or outside.SECONDS
        return outside.ask_isolated(only, environment=self.environment, path=self.path, seconds=seconds)

    def torch(self) -> Any:
        """The torch that is installed, as `modules.torch_build` reads it, or None."""
        from vplug_rs.platforms import modules

        if self.path is None:
            return modules.torch_build(sys.path, sys.meta_path)
        return modules.torch_build(self.path)


def resolve(  # noqa: PLR0913  # keywords, each with its default
    *,
    strict: bool = False,
    probes: Sequence[Probe] | None = None,
    plugins: Sequence[Probe] | None = None,
    asker: Asker | None = None,
    environment: Mapping[str, str] | None = None,
    path: Sequence[str] | None = None,
    root: str = "/",
    timeout: float | None = None,
    active: bool | None = None,
) -> Resolution:
    """Asks what is needed and decides.

    Args:
        strict: vLLM's rule and words alone: no tie-breaks, two plugins are an error though they agree, and of our
            variables only `VPLUG_ON_UNKNOWN` counts, where nothing else is here.
        probes: What is known of the built-in platforms, if they have been asked.
        plugins: What the plugins have said, if they have been asked.
        asker: Who asks plugins, by default `outside.ask` in this process. It gets those that are meant, None for all.
        environment: Whose variables count, if not this process's.
        path: Where plugins, torch and vLLM are looked for, if not on `sys.path`.
        root: Where the file system begins.
        timeout: How many seconds a driver may take, by default `VPLUG_PROBE_TIMEOUT`.
        active: Whether drivers are asked at all; by default only where `root` is `/`.

    Raises:
        PlatformError: several platforms are here, or `VPLUG_PLATFORM` cannot be followed.
        PlatformUnknownError: a driver did not answer, and `VPLUG_ON_UNKNOWN` is "error".
        PolicyError: the policy for plugins cannot be read, or what is installed breaks it.
    """
    sources = Sources(
        probes=probes,
        plugins=plugins,
        asker=asker,
        environment=environment,
        path=path,
        root=root,
        timeout=timeout,
        active=active,
    )
    warnings: list[str] = []
    try:
        return _resolved(sources, warnings, strict=strict)
    except PlatformError as error:
        error.plugins, error.warnings = sources.heard, list(dict.fromkeys(warnings))
        raise


def _resolved(sources: Sources, warnings: list[str], *, strict: bool) -> Resolution:
    from vplug_rs.platforms import ordered

    if (odd := env.unknown_seconds(env.PROBE_TIMEOUT, sources.variables)) is not None:
        warnings.append(f"{env.PROBE_TIMEOUT} is {odd!r}, which is no number of seconds; the default counts")
    order = ordered.read(sources, warnings, strict=strict)
    if order is not None:
        return order.follow()
    asked = sources.outside()
    warnings += asked.warnings
    active_ones = [probe for probe in asked.probes if probe.status == PRESENT and probe.qualname]
    warnings += [advice.failed(probe) for probe in asked.probes if probe.status == UNKNOWN]
    if active_ones:
        chosen = _agreed(active_ones, strict=strict)
        warnings += advice.agreement(chosen, active_ones)
        # it wins whatever the drivers say, so none of them is bothered
        builtin = sources.builtin(passive=True)
        warnings += advice.unfounded(chosen, builtin)
        return made(OOT, chosen, [*builtin, *asked.probes], warnings)
    return _of_builtin(sources, sources.builtin(), asked.probes, warnings, strict=strict)


def made(  # noqa: PLR0913, PLR0917
    rule: str,
    chosen: Probe | None,
    probes: Sequence[Probe],
    warnings: Sequence[str],
    why: str = "",
    qualname: str | None = None,
) -> Resolution:
    """A resolution with its rejected platforms.

    Args:
        rule: The rule that decided.
        chosen: The platform that counts, or None.
        probes: All that were asked.
        warnings: What somebody should look at.
        why: Why not the other built-in platforms that are here.
        qualname: The class, where it is not the probe's own.
    """
    if chosen is not None and qualname is None:
        # where it counts although it was not found, nobody has named the class
        qualname = chosen.qualname or CLASSES.get(chosen.platform)
    return Resolution(
        rule,
        qualname=qualname,
        platform=None if chosen is None else chosen.platform,
        probes=probes,
        rejected=[(advice.named(probe), advice.why_not(probe, chosen, why)) for probe in probes if probe is not chosen],
        warnings=list(dict.fromkeys(warnings)),
    )


def on_unknown(sources: Sources, warnings: list[str]) -> str:
    """What `VPLUG_ON_UNKNOWN` says; a word that is none is told."""
    word, odd = env.choice(env.ON_UNKNOWN, env.ON_UNKNOWN_WORDS, sources.variables)
    if odd is not None:
        warnings.append(f"{env.ON_UNKNOWN} is {odd!r}, which is none of {', '.join(env.ON_UNKNOWN_WORDS)}; none counts")
    return word


def exit_status(resolution: Resolution) -> int:
    """What a command that shows it ends with: 0 a platform, 1 nothing usable, 3 unknown or a broken driver.

    A plugin that failed is unknown, also where a built-in platform counts in its place; a driver that counts its
    devices and then hangs, or has lost them all, is broken, though they count. 2, a conflict, is the `exit_status` of
    the `PlatformError`.
    """
    plugin_failed = any(probe.status == UNKNOWN and probe.source != "builtin" for probe in resolution.probes)
    if resolution.qualname is not None:
        chosen = resolution.probe(resolution.platform or "")
        return 3 if plugin_failed or (chosen is not None and advice.is_broken(chosen)) else 0
    unknown = any(probe.status == UNKNOWN for probe in resolution.probes)
    return 3 if unknown or any(map(advice.is_broken, resolution.probes)) else 1


def is_certain(resolution: Resolution) -> bool:
    """Whether nothing in it is unknown that could change it: only then it may be kept, or handed on."""
    if any(probe.status == UNKNOWN and probe.source != "builtin" for probe in resolution.probes):
        return False
    if resolution.qualname is None:
        return all(probe.status != UNKNOWN for probe in resolution.probes)
    if resolution.rule == OOT:
        return True
    chosen = resolution.probe(resolution.platform or "")
    return chosen is None or chosen.status != UNKNOWN


def _agreed(active: list[Probe], *, strict: bool) -> Probe:
    """The one plugin that counts: several with one class agree."""
    active = sorted(active, key=lambda probe: (probe.platform, probe.source))
    if strict:
        active = list({probe.platform: probe for probe in active}.values())  # vLLM knows names alone
    if len(active) == 1 or (not strict and len({probe.qualname for probe in active}) == 1):
        return active[0]
    doubles = len({probe.platform for probe in active}) < len(active)
    choices = [advice.full_name(probe) if doubles else probe.platform for probe in active]
    if strict:
        raise PlatformError(f"{ONLY_ONE}{choices}")
    told = "; ".join(f"{advice.named(probe)} is {probe.qualname}" for probe in active)
    raise PlatformError(
        f"{ONLY_ONE}{choices} ({told})",
        hint=f"Say which one is meant: {env.PLATFORM}={choices[0]}, or {choices[1]}; or uninstall the other one.",
    )


class _Pick:
    """What the rules for built-in platforms come to: one, none, or several that nothing decides between."""

    def __init__(self, rule: str, chosen: Probe | None, rest: Sequence[Probe] = (), why: str = "") -> None:
        self.rule, self.chosen, self.rest, self.why = rule, chosen, list(rest), why

    @property
    def outcome(self) -> Any:
        """What two picks are compared by."""
        return self.chosen.platform if self.chosen else sorted(probe.platform for probe in self.rest)


def _pick(here: list[Probe], torch: Any, *, strict: bool) -> _Pick:
    if not here:
        return _Pick(NONE, None)
    if len(here) == 1:
        return _Pick(BUILTIN, here[0])
    if strict:
        return _Pick(NONE, None, here)
    build = next((one for one in here if any(row.id == "cpu.build" for row in one.weighs("strong"))), None)
    if build is not None:
        return _Pick(BUILTIN, build, why="the installed vLLM is a CPU build")
    seen = [probe for probe in here if probe.strong]
    if len(seen) == 1:
        why = f"a device of {seen[0].platform} was seen, and of this only what often comes with one"
        return _Pick(TIE_BREAK, seen[0], why=why)
    rest = seen or here
    fitting = [probe for probe in rest if torch is not None and probe.platform == torch.kind]
    if fitting:
        return _Pick(TIE_BREAK, fitting[0], why=f"torch {torch.version} is built for {torch.kind}")
    return _Pick(NONE, None, rest)


def _of_builtin(
    sources: Sources, builtin: list[Probe], plugins: Sequence[Probe], warnings: list[str], *, strict: bool
) -> Resolution:
    everything = [*builtin, *plugins]
    here = [probe for probe in builtin if probe.status in {PRESENT, MASKED} and probe.qualname]
    unknown = [probe for probe in builtin if probe.status == UNKNOWN and probe.platform in CLASSES]
    torch = sources.torch() if here or unknown else None
    pick = _pick(here, torch, strict=strict)
    if unknown:
        word = on_unknown(sources, warnings)
        # vLLM takes a driver that failed for one that is not there
        matters = not here if strict else _pick([*here, *unknown], torch, strict=False).outcome != pick.outcome
        warnings += [advice.unanswered(probe, matters=matters) for probe in unknown]
        if matters and word == "error":
            raise PlatformUnknownError(
                f"whether the platform {unknown[0].platform} is here is not known: {unknown[0].reason}",
                hint=unknown[0].hint or f"{env.ON_UNKNOWN}=assume takes what was seen for present.",
            )
        assumed = [probe for probe in unknown if probe.strong] if word == "assume" else []
        if matters and not assumed:
            return made(NONE, None, everything, warnings, "an unknown platform could count in its place")
        if matters:
            pick = _pick([*here, *assumed], torch, strict=strict)
            if pick.chosen is not None and pick.chosen.status == UNKNOWN:
                warnings.append(f"{pick.chosen.platform} is assumed to be here ({env.ON_UNKNOWN}=assume)")
    if pick.rest:
        raise _conflict(pick.rest, strict=strict)
    warnings += advice.mismatch(pick.chosen, torch)
    return made(pick.rule, pick.chosen, everything, warnings, pick.why)


def _conflict(rest: list[Probe], *, strict: bool) -> PlatformError:
    rest = sorted(rest, key=lambda probe: probe.platform)
    names = [probe.platform for probe in rest]
    if strict:
        return PlatformError(f"{ONLY_ONE}{names}")
    told = "; ".join(f"{probe.platform}: {probe.reason}" for probe in rest)
    hint = f"Say which one is meant: {env.PLATFORM}={names[0]}, or {names[1]}."
    return PlatformError(f"{ONLY_ONE}{names} ({told})", hint=hint)
