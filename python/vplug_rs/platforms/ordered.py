"""The platform that somebody has named: `VPLUG_PLATFORM`, or vLLM's `VLLM_TARGET_DEVICE=cpu`. Nobody else is asked."""

from __future__ import annotations

from vplug_rs import _core, env
from vplug_rs.groups import is_dotted
from vplug_rs.platforms import advice
from vplug_rs.platforms.answers import PlatformAbsentError, PlatformError, PlatformUnknownError
from vplug_rs.platforms.classes import CLASSES, KNOWN, OUT_OF_TREE, platform_of
from vplug_rs.platforms.model import MASKED, NONE, OVERRIDE, PRESENT, SKIPPED, UNKNOWN, Probe, Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vplug_rs.platforms.resolution import Sources

_DEVICE = "VLLM_TARGET_DEVICE"


def is_given(variables: Mapping[str, str]) -> bool:
    """Whether the environment orders a platform."""
    return env.word(env.PLATFORM, variables) is not None or _orders_cpu(variables)


def _orders_cpu(variables: Mapping[str, str]) -> bool:
    return variables.get(_DEVICE, "").lower() == "cpu"  # as vLLM reads it


def read(sources: Sources, warnings: list[str], *, strict: bool) -> Order | None:
    """The order that the environment gives, or None.

    Args:
        sources: Whom to ask, and whose environment counts.
        warnings: Where to put what is odd about it.
        strict: Whether only vLLM's own variable counts.
    """
    named = env.word(env.PLATFORM, sources.variables)
    cpu = _orders_cpu(sources.variables)
    if named is not None and strict:
        warnings.append(f"{env.PLATFORM} is {named!r}, which vLLM's own rule does not know; it does not count")
        named = None
    if named is None:
        return Order("builtin:cpu", _DEVICE, sources, warnings) if cpu else None
    if cpu:
        warnings.append(f"{_DEVICE} is cpu, and {env.PLATFORM} is {named!r}; the latter counts")
    return Order(named, env.PLATFORM, sources, warnings)


class Order:
    """A platform that is ordered.

    Attributes:
        wish: `name`, `distribution:name`, `builtin:name`, or the dotted name of a class.
        variable: Who says so.
    """

    def __init__(self, wish: str, variable: str, sources: Sources, warnings: list[str]) -> None:
        self.wish, self.variable, self.sources, self.warnings = wish, variable, sources, warnings
        self.force = env.switch(env.PLATFORM_FORCE, sources.variables) is True
        if (odd := env.unknown_word(env.PLATFORM_FORCE, sources.variables)) is not None:
            known = f"neither {', '.join(env.ON)} nor {', '.join(env.OFF)}"
            warnings.append(f"{env.PLATFORM_FORCE} is {odd!r}, which is {known}; it does not count")

    def follow(self) -> Resolution:
        """Asks that one platform.

        Raises:
            PlatformError: the wish names nothing, or several things, or what the policy keeps out.
            PlatformAbsentError: it is not here, and it is not forced.
            PlatformUnknownError: it is a plugin that failed, or a driver did not answer and that is an error.
        """
        whose, colon, name = self.wish.rpartition(":")
        if self.variable == _DEVICE or (whose == "builtin" and name in CLASSES):
            return self._builtin(name)
        listed = self.sources.listed()
        plugins = [probe for probe in listed if probe.platform == name and (not colon or _belongs(probe, whose))]
        builtin = not colon and name in CLASSES
        if builtin + len({advice.full_name(probe) for probe in plugins}) > 1:
            choices = [advice.full_name(probe) for probe in plugins] + (["builtin:" + name] if builtin else [])
            several = f"which several platforms are called: {', '.join(sorted(choices))}"
            raise self._refusal(several, f"Say which one: {env.PLATFORM}={min(choices)}.")
        if builtin:
            return self._builtin(name)
        if plugins:
            return self._plugin(plugins[0])
        if not colon and is_dotted(self.wish):
            return self._named_class()
        names = [*CLASSES, *(probe.platform for probe in listed), *(advice.full_name(probe) for probe in listed)]
        near = _core.nearest(self.wish, names)
        known = [*CLASSES, *sorted(f"{probe.platform} (a plugin of {probe.source})" for probe in listed)]
        if self.wish in OUT_OF_TREE:
            text = f"and vLLM has no such platform of its own; there are {', '.join(known)}"
            raise self._refusal(text, f"Install the plugin for {self.wish}, and name that.")
        meant = f"Did you mean `{near}`?" if near else "The dotted name of a class will do as well."
        raise self._refusal(f"and no platform is called so; there are {', '.join(known)}", meant)

    def _refusal(self, reason: str, hint: str | None) -> PlatformError:
        return PlatformError(f"{self.variable} is `{self.wish}`, {reason}", hint=hint)

    def _builtin(self, name: str, qualname: str | None = None) -> Resolution:
        """One of vLLM's own platforms, with another class of it where that was named."""
        # what is forced counts whatever its driver says, so that is not bothered
        found = self.sources.builtin(name, passive=self.force)
        probe = next((one for one in found if one.platform == name), None)
        if probe is None:
            probe = Probe(name, SKIPPED, reason="it was not asked")
        ordered_cpu = self.variable == _DEVICE
        if probe.status not in {PRESENT, MASKED} and not self.force and not ordered_cpu:
            return self._not_here(probe)
        if probe.status not in {PRESENT, MASKED}:
            # vLLM's own variable needs nothing to be seen; a word of force is told
            self.warnings += [] if ordered_cpu else [f"{name} counts by force, and {probe.status}: {probe.reason}"]
        return self._made(probe, qualname)

    def _not_here(self, probe: Probe) -> Resolution:
        from vplug_rs.platforms import resolution

        force = f"Unset {env.PLATFORM}, or take it all the same with {env.PLATFORM_FORCE}=1."
        if probe.status != UNKNOWN:
            text = f"{self.variable} is `{self.wish}`, and {probe.platform} is not here: {probe.reason}"
            raise PlatformAbsentError(text, hint=f"{probe.hint.rstrip('.')}. {force}" if probe.hint else force)
        word = resolution.on_unknown(self.sources, self.warnings)
        if word == "assume" and probe.strong:
            self.warnings.append(advice.unanswered(probe, matters=True))
            self.warnings.append(f"{probe.platform} is assumed to be here ({env.ON_UNKNOWN}=assume)")
            return self._made(probe)
        if word == "error":
            text = (
                f"{self.variable} is `{self.wish}`, and whether {probe.platform} is here is not known: {probe.reason}"
            )
            raise PlatformUnknownError(text, hint=force)
        self.warnings.append(advice.unanswered(probe, matters=True))
        return resolution.made(NONE, None, [probe], self.warnings)

    def _plugin(self, listed: Probe) -> Resolution:
        from vplug_rs.platforms import outside

        key = outside.key_of(listed)
        asked = self.sources.outside({key})
        self.warnings += asked.warnings
        those = [probe for probe in asked.probes if outside.key_of(probe) == key]
        probe = next((one for one in those if one.status == PRESENT), those[0] if those else listed)
        if probe.status == PRESENT and probe.qualname:
            return self._made(probe)
        text = f"{self.variable} is `{self.wish}`, and the plugin {advice.named(probe)}"
        if probe.status == UNKNOWN:
            raise PlatformUnknownError(f"{text} gave no usable answer: {probe.reason}", hint=probe.hint)
        if probe.status == SKIPPED and outside.may_be_asked(probe):
            raise PlatformUnknownError(f"{text} was not asked", hint="`vplug doctor --platform` asks it.")
        if probe.status == SKIPPED:
            raise PlatformError(f"{text} cannot be used: {probe.reason}", hint=probe.hint)
        hint = "Its class's dotted name in the variable takes it without asking the plugin."
        raise PlatformAbsentError(f"{text} names no class: {probe.reason}", hint=hint)

    def _named_class(self) -> Resolution:
        name = platform_of(self.wish)
        if name is not None:
            return self._builtin(name, self.wish)
        # nobody can be asked about it: whether it can be used shows when it is loaded
        near = _core.nearest(self.wish, KNOWN)
        if near:
            self.warnings.append(f"{self.variable} names the class `{self.wish}`, which vLLM does not have: `{near}`?")
        return Resolution(OVERRIDE, qualname=self.wish, platform=self.wish, warnings=self.warnings)

    def _made(self, probe: Probe, qualname: str | None = None) -> Resolution:
        from vplug_rs.platforms.resolution import made

        return made(OVERRIDE, probe, [probe], self.warnings, qualname=qualname)


def _belongs(probe: Probe, distribution: str) -> bool:
    return _core.normalize(probe.source.partition(" ")[0]) == _core.normalize(distribution)
