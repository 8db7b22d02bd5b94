"""Out-of-tree platform plugins (`vllm.platform_plugins`): each is asked once in a process, and becomes a `Probe`.

A plugin counts by distribution and name, so that one called as a built-in platform, or as another plugin, hides
nobody. What one raises is its own probe's status `unknown`, which nobody takes for "not my hardware".
"""

from __future__ import annotations

import sys

from vplug_rs import _core, env
from vplug_rs._core import Loaded
from vplug_rs.groups import PLATFORM, check_answer, owner, whose
from vplug_rs.loader import PluginLoader
from vplug_rs.loading import process
from vplug_rs.loading.attempt import is_executing
from vplug_rs.loading.plugin import FILTERED, Failure, Plugin
from vplug_rs.platforms import hints
from vplug_rs.platforms.model import ABSENT, AGAINST, INFO, PRESENT, SKIPPED, UNKNOWN, WEAK, Evidence, Probe, _Record
from vplug_rs.policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    Key = tuple[str, str]  # distribution as `_core.normalize` has it, and name

OURS = "vplug_rs.vllm.doors:platform"
SECONDS = 60.0
"""How long a plugin may take in a process of its own: most of them import torch."""

_NOT_ASKED = "not asked", "it is installed, and nobody asked it"


class Asked(_Record):
    """What plugins said.

    Attributes:
        probes: One for each plugin, in loading order, then those that were kept out.
        warnings: What somebody should look at: a name in `VLLM_PLUGINS` that names nothing, for instance.
    """

    __slots__ = ("probes", "warnings")

    def __init__(self, probes: Sequence[Probe], warnings: Sequence[str] = ()) -> None:
        self.probes, self.warnings = list(probes), list(warnings)


class PlatformLoader(PluginLoader):
    """The platform plugins of a path under the policy of an environment; our own door is none of them.

    Args:
        environment: Where `VLLM_PLUGINS` and `VPLUG_POLICY` stand, if not in this process's environment.
        path: Where to look, if not on `sys.path`. Such plugins can be listed here, and asked only in another process.

    Raises:
        PolicyError: the file in `VPLUG_POLICY` cannot be read.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, path: Sequence[str] | None = None) -> None:
        super().__init__(PLATFORM, policy=_policy(environment), kind="callable", call=True)
        self._path = None if path is None or list(path) == sys.path else list(path)
        self.told: list[str] = []

    def rows(self) -> tuple[list[Plugin], list[Plugin]]:
        """The plugins that may load, in loading order, and those that may not.

        Raises:
            PolicyError: the policy is broken by what is installed.
        """
        allowed = self._judged()
        return allowed, [row for row in self._rows.values() if row not in allowed]

    def ask(self, plugin: Plugin) -> Probe:
        """Loads and calls a plugin, unless that has been done in this process."""
        end = self._object(plugin)
        if isinstance(end, Loaded):
            end = self._call(plugin, end)
        answered = isinstance(end, Loaded)
        if isinstance(end, Loaded):
            end = self._questioned(plugin, end)
        return _probe(plugin, end, answered=answered)

    def _questioned(self, plugin: Plugin, end: Loaded) -> Loaded | Failure:
        """The same answer, or why it is none."""
        wrong = check_answer(plugin, end.value)
        if wrong is not None:
            failure = Failure(plugin, "call", TypeError(wrong.reason), hint=wrong.hint)
            failure.seconds = end.seconds
            return failure
        half = _half_imported(plugin) if end.value is None else None
        if half is None:
            return end
        # what it says of itself while it is not yet all there says nothing of the hardware
        error = ImportError(
            f"it declined while `{half}` is only partly initialised, which is being imported further out"
        )
        failure = Failure(plugin, "call", error, hint=f"Ask for the platform after the import of `{half}`.")
        failure.seconds = end.seconds
        process.retract(plugin, process.CALL, end, failure)
        return failure

    def _found(self) -> list[Plugin]:
        if self._path is None:
            found = super()._found()
        else:
            found = [Plugin.of(point) for point in _points(self._path) if point.group == self.group]
        return [plugin for plugin in found if plugin.value.replace(" ", "") != OURS]

    def _elsewhere(self) -> tuple[list[tuple[str, str]], set[str] | None]:
        if self._path is None or not self.policy.names_any:
            return super()._elsewhere()
        offers = [Plugin.of(point) for point in _points(self._path)]
        others = {(offer.name, offer.label) for offer in offers if offer.group != self.group}
        return sorted(others), {offer.group for offer in offers}

    def _warn(self, text: str) -> None:
        self.told.append(text)


def key_of(probe: Probe) -> Key:
    """What a plugin's probe counts by."""
    return _core.normalize(probe.source.partition(" ")[0]), probe.platform


def may_be_asked(probe: Probe, only: Collection[Key] | None = None) -> bool:
    """Whether a listed plugin is meant, and is not kept out.

    Args:
        probe: As `listed` has it.
        only: As for `ask`.
    """
    return probe.evidence[0].result == _NOT_ASKED[0] and (only is None or key_of(probe) in only)


def listed(environment: Mapping[str, str] | None = None, path: Sequence[str] | None = None) -> Asked:
    """The plugins that are installed, all of them `skipped`; nothing is imported.

    Args:
        environment: Whose policy counts, if not this process's.
        path: Where to look, if not on `sys.path`.

    Raises:
        PolicyError: as `PlatformLoader` and its `rows`.
    """
    loader = PlatformLoader(environment, path)
    allowed, others = loader.rows()
    return Asked([_skipped(plugin) for plugin in (*allowed, *others)], loader.told)


def ask(only: Collection[Key] | None = None) -> Asked:
    """Asks the plugins of this process, in this process, each once.

    Args:
        only: Those that are to be asked; None asks all that the policy allows.

    Raises:
        PolicyError: as `listed`.
    """
    loader = PlatformLoader()
    allowed, others = loader.rows()
    probes = [loader.ask(plugin) if _is_meant(plugin, only) else _skipped(plugin) for plugin in allowed]
    return Asked([*probes, *map(_skipped, others)], loader.told)


def ask_isolated(
    only: Collection[Key] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    path: Sequence[str] | None = None,
    seconds: float = SECONDS,
) -> Asked:
    """Asks each plugin in a process of its own, all at the same time: they may print, exit, hang, fork or crash.

    Args:
        only: As for `ask`.
        environment: What those processes get, if not this one's.
        path: Their `sys.path`, if not this one's.
        seconds: How long they may take.

    Raises:
        PolicyError: as `listed`.
    """
    from vplug_rs.platforms import isolated
    from vplug_rs.platforms.children import plugins

    loader = PlatformLoader(environment, path)
    allowed, others = loader.rows()
    due = [plugin for plugin in allowed if _is_meant(plugin, only)]
    jobs = [plugins.job(plugin, environment, path) for plugin in due]
    ends = dict(zip(map(id, due), isolated.run(jobs, seconds) if jobs else (), strict=True))
    probes = []
    for plugin in allowed:
        end = ends.get(id(plugin))
        probes.append(_skipped(plugin) if end is None else plugins.read(end, _undone(plugin)))
    return Asked([*probes, *map(_skipped, others)], loader.told)


def _policy(environment: Mapping[str, str] | None) -> Policy:
    path = env.path(env.POLICY, environment)
    if path is not None:
        return Policy.from_file(path)
    return Policy.vllm(collision="all", environment=environment)


def _points(path: list[str]) -> list[Any]:
    """The entry points of each project's first copy on a path."""
    from vplug_rs import metadata

    seen: set[str] = set()
    points: list[Any] = []
    for found in metadata.distributions(path=path):
        name = _core.normalize(found.name or "")
        if name not in seen:
            seen.add(name)
            points += found.entry_points
    return points


def _is_meant(plugin: Plugin, only: Collection[Key] | None) -> bool:
    return only is None or (plugin.label, plugin.name) in only


def _half_imported(plugin: Plugin) -> str | None:
    """The plugin's module, or a package around it, if its import is still going on further out."""
    name = plugin.value.partition(":")[0].strip()
    while name:
        if is_executing(sys.modules.get(name)):
            return name
        name = name.rpartition(".")[0]
    return None


def _probe(plugin: Plugin, end: Loaded | Failure | None, *, answered: bool) -> Probe:
    if end is None:
        return _made(plugin, UNKNOWN, "is being asked", INFO, "it is being loaded further out in this very thread")
    if isinstance(end, Failure):
        # one that gave an answer has not failed at anything
        reason = str(end.exception) if answered else f"it failed at {end.phase}: {end.cause}"
        probe = _made(plugin, UNKNOWN, "no usable answer" if answered else end.cause, INFO, reason)
        probe.hint = end.hint or hints.advise("plugin-failed", owner=owner(plugin), name=plugin.name)
        probe.ms = 1000 * end.seconds
        return probe
    if end.value is None:
        probe = _made(plugin, ABSENT, "None", AGAINST, "the plugin says that its hardware is not here")
    else:
        probe = _made(plugin, PRESENT, end.value, WEAK, "the plugin says that its platform is to be used")
        probe.qualname = end.value
    probe.ms = 1000 * plugin.seconds
    return probe


def _skipped(plugin: Plugin) -> Probe:
    kept_out = plugin.state == FILTERED
    result, reason = ("kept out", f"it is kept out: {plugin.rule}") if kept_out else _NOT_ASKED
    probe = _made(plugin, SKIPPED, result, INFO, reason)
    probe.evidence[0].kind = "dist"
    if kept_out:
        probe.hint = hints.advise("plugin-kept-out", name=plugin.name, owner=owner(plugin), rule=plugin.rule)
    return probe


def _undone(plugin: Plugin) -> Probe:
    """What is known of a plugin whose process has not answered."""
    probe = _made(plugin, UNKNOWN, "no answer", INFO, f"{whose(plugin)} has not answered")
    probe.hint = f"Report it to the author of {owner(plugin)}, or uninstall it."
    return probe


def _made(plugin: Plugin, status: str, result: str, weight: str, reason: str) -> Probe:
    evidence = Evidence(f"{plugin.name}.plugin", "call", plugin.value, result, weight, reason)
    return Probe(
        plugin.name, status, source=owner(plugin), reason=reason, evidence=[evidence], backend="plugin",
    )  # fmt: skip
