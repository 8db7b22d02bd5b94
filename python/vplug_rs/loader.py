"""`PluginLoader`: the plugins of a group, each judged before import and run once in a process, failures as records.

loader = vplug_rs.PluginLoader("myapp.plugins", policy=vplug_rs.Policy.from_env("MYAPP_PLUGINS"))
for plugin in loader.load():
    plugin.object(app)
print(loader.report())
"""

from __future__ import annotations

import os
import sys
from time import perf_counter

from vplug_rs import _core, metadata, notices
from vplug_rs._core import Loaded
from vplug_rs.errors import (
    LoadCycleError,
    LoadTimeoutError,
    PluginLoadError,
    PluginNotFoundError,
    PluginRefusedError,
    PolicyError,
)
from vplug_rs.loading import attempt, process
from vplug_rs.loading.plugin import FAILED, FILTERED, FOUND, LOADED, LOADING, Failure, Plugin
from vplug_rs.loading.shadowed import shadowed
from vplug_rs.metadata._search_path import strings
from vplug_rs.policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from vplug_rs._core import Judgement
    from vplug_rs.loading.report import Report

__all__ = ["Failure", "Plugin", "PluginLoader"]

WAIT_LIMIT = 300.0


class PluginLoader:
    """The plugins of one entry point group.

    What a plugin is imported and called for happens once in a process, whichever thread or loader asks first; the
    others wait for it and get the same object. A failure is told to those who waited; the next `load()` or `get()`
    tries again. Iterating loads, and gives the loaded plugins in their stable order.

    Args:
        group: The entry point group.
        policy: What may load; by default all of the group.
        kind: What a value has to be: "callable", "class", "module" or "any".
        call: Whether each object is called, without arguments, once in a process; `plugin.result` is what it gave.
        wait_limit: How many seconds to wait for another thread that is loading a plugin.
        fork: In a forked child, "inherit" takes over what the parent has loaded, "rerun" loads again. One loader that
            says "rerun" says it for its group in this process.

    Raises:
        ValueError: `kind` or `fork` is none of these, or `wait_limit` is no positive number.
    """

    def __init__(  # noqa: PLR0913  # keywords, each with its default
        self,
        group: str,
        *,
        policy: Policy | None = None,
        kind: str = "callable",
        call: bool = False,
        wait_limit: float = WAIT_LIMIT,
        fork: str = "inherit",
    ) -> None:
        if kind not in attempt.KINDS:
            raise ValueError(f"kind={kind!r}: known are {', '.join(attempt.KINDS)}")
        if fork not in {"inherit", "rerun"}:
            raise ValueError(f'fork={fork!r}: known are "inherit" and "rerun"')
        if not wait_limit > 0:
            raise ValueError(f"wait_limit={wait_limit!r}: a positive number of seconds is wanted")
        self.group = group
        self.policy = Policy(origin="the default policy") if policy is None else policy
        self.kind = kind
        self.call = call
        self.wait_limit = wait_limit
        self.fork = fork
        self._rows: dict[tuple[str, str, str, str], Plugin] = {}
        self._by_name: dict[str, Plugin] = {}
        process.register(self)

    def load(self) -> list[Plugin]:
        """Loads every plugin that the policy allows, and gives those that are loaded, in order.

        Failures become records (`report()`) and one warning each. A plugin that is being loaded further out in this
        thread is left out and shown as "loading".

        Raises:
            PolicyError: the policy is broken by what is installed, or (strict) names what is not; nothing was imported.
            PluginLoadError: strict, after all were tried: some failed.
        """
        # what this very call came to: another thread may write into the rows meanwhile
        ends = [(plugin, self._object(plugin)) for plugin in self._judged()]
        if self.call:
            ends = [(plugin, self._call(plugin, end) if isinstance(end, Loaded) else end) for plugin, end in ends]
        loaded = [plugin for plugin, end in ends if isinstance(end, Loaded)]
        # what `get` gives from now on: of several with one name the first
        self._by_name = {plugin.name: plugin for plugin in reversed(loaded)}
        failures = [end for _, end in ends if isinstance(end, Failure)]
        if failures and self.policy.strict:
            raise self._all_failed(failures, len(ends))
        for failure in failures:
            self._tell_failure(failure)
        return loaded

    def get(self, name: str) -> Plugin:
        """One plugin by name, loaded if it is not yet; no other one is imported.

        One that is loaded is given without a look at the disk; `load()` looks again.

        Raises:
            PluginNotFoundError: nothing of that name is installed.
            PluginRefusedError: the policy keeps it out.
            PluginLoadError: it failed; `failures` has its record.
            LoadCycleError, LoadTimeoutError: another thread is at it and cannot be waited for.
            PolicyError: as in `load()`.
        """
        try:
            return self._by_name[name]
        except KeyError:
            pass  # what a plugin raises must not look as if it came from here
        return self._get(name)

    def __iter__(self) -> Iterator[Plugin]:
        """The plugins that are loaded, after loading."""
        return iter(self.load())

    def reset(self) -> None:
        """Forgets what has been loaded and called of this group in this process. For tests; modules stay imported."""
        process.forget(self.group)

    def report(self) -> Report:
        """Every plugin of the group with its state, the rule that decided, and its cost; nothing is imported."""
        from vplug_rs.loading.report import Report

        return Report(self.group, *self._survey())

    def fingerprint(self) -> Any:
        """What is installed and allowed here, for comparison with another process or host."""
        from vplug_rs.loading.fingerprint import Fingerprint

        return Fingerprint.of(self._judged())

    def _tell_failure(self, failure: Failure) -> None:
        self._warn(failure.told)

    def _all_failed(self, failures: list[Failure], number: int) -> PluginLoadError:
        """The one error of a strict policy, of so many plugins that were tried."""
        text = f"{len(failures)} of {number} plugins in {self.group} failed:\n" + "\n".join(map(str, failures))
        return PluginLoadError(text, failures, hint=failures[0].hint)

    def _warn(self, text: str) -> None:
        notices.warn(text)

    def _forget_rows(self) -> None:
        self._rows = {}
        self._by_name = {}

    def _survey(self) -> tuple[list[Plugin], Judgement, float]:
        """All rows of the group as they are installed now, their judgement, and the seconds that finding them took."""
        began = perf_counter()
        rows: dict[tuple[str, str, str, str], Plugin] = {}
        before = self._rows
        for plugin in self._found():
            # a row stays the same object as long as it is installed; a line that stands twice is one plugin
            known = before.get(plugin.key, plugin)
            if known is not plugin:
                known.metadata_path, known._point = plugin.metadata_path, plugin._point
            rows.setdefault(plugin.key, known)
        self._rows = rows
        plugins = list(rows.values())
        seconds = perf_counter() - began
        judgement = self._judge(plugins)
        for plugin, (allowed, reason, rule) in zip(plugins, judgement.verdicts, strict=True):
            plugin.reason, plugin.rule = reason, rule
            if not allowed:
                plugin.state = FILTERED
            elif plugin.state == FILTERED:
                plugin.state = FOUND
            elif plugin.state == LOADING and not process.is_running(plugin):
                # whoever was at it further out has ended
                end = process.known(plugin, process.OBJECT)
                plugin.state = FOUND
                if end is not None and attempt.check(plugin, end.value, self.kind) is None:
                    plugin.found, plugin.object, plugin.seconds, plugin.state = end, end.value, end.seconds, LOADED
        return plugins, judgement, seconds

    def _found(self) -> list[Plugin]:
        """A row for each entry point of the group, as they are installed now."""
        inventory = metadata._plain_inventory()
        if inventory is None:  # archives, foreign finders
            return [Plugin.of(point) for point in metadata.entry_points(group=self.group)]
        group = self.group
        return [Plugin(group, name, value, path, key) for name, value, path, key in inventory.plugins(group)]

    def _judge(self, plugins: list[Plugin]) -> Judgement:
        candidates = [(plugin.name, plugin.label) for plugin in plugins]
        refused: dict[int, tuple[str, str]] = {}
        if self.policy.names_distributions:
            # by the metadata's name, a look at the disk that only such a rule needs; but what the folder's name denies
            # stays denied
            by_folder = self.policy.judge(self.group, candidates).verdicts
            denied = {
                number: (reason, rule) for number, (_, reason, rule) in enumerate(by_folder) if reason == "denied"
            }
            refused.update(denied)
            candidates = [(plugin.name, plugin.project or plugin.label) for plugin in plugins]
        if self.policy.when or self.policy.host is not None:
            from vplug_rs.loading import conditions

            refused = {**conditions.refusals(plugins, self.policy), **refused}
        elsewhere, groups = self._elsewhere()
        return self.policy.judge(self.group, candidates, elsewhere, refused=refused, groups=groups)

    def _elsewhere(self) -> tuple[list[tuple[str, str]], set[str] | None]:
        """What other groups offer, as (name, distribution), and all groups; asked for only where a rule names some."""
        if not self.policy.names_any:
            return [], None
        if metadata._plain_inventory() is None:  # archives, foreign finders
            everything = metadata.entry_points()
            offers = [Plugin.of(point) for group in everything.groups for point in everything.select(group=group)]
            others = sorted({(offer.name, offer.label) for offer in offers if offer.group != self.group})
            return others, set(everything.groups)
        found = _core.SCANNER.scan(strings(sys.path))
        rows = found.entry_points()
        label = {row: os.path.basename(found.path_of(row)).partition("-")[0] for _, _, _, row, _ in rows}
        others = sorted({(name, label[row]) for name, _, group, row, _ in rows if group != self.group})
        return others, {group for _, _, group, _, _ in rows}

    def _judged(self) -> list[Plugin]:
        """The allowed plugins in loading order; faults of the policy are raised or told."""
        plugins, judgement, _ = self._survey()
        policy = self.policy
        missing = judgement.missing
        if missing:
            raise PolicyError(
                f"{policy.origin} requires {_quoted(missing)} in {self.group}, which no installed plugin offers or the "
                "policy keeps out; nothing was loaded",
                hint="Install what is required, or see `vplug why NAME`.",
            )
        if judgement.doubled and policy.collision == "error":
            name, numbers = judgement.doubled[0]
            raise PolicyError(
                f"{len(numbers)} installed plugins are called `{name}` in {self.group}; nothing was loaded",
                hint='Uninstall one of them, or choose with `collision="first"`, "last", "all" or `dist:NAME`.',
            )
        for entry, origin, near, spelling in judgement.unmatched:
            how = "differs from it only by blanks or case" if spelling else "is nearest"
            text = f"`{entry}` in {origin} names no plugin in {self.group}" + (f"; `{near}` {how}" if near else "")
            text += f"; {hidden}" if (hidden := shadowed(self.group, entry)) else ""
            if policy.strict:
                raise PolicyError(f"{text}; nothing was loaded", hint="Correct the name, or take it out.")
            self._warn(text)
        for name, numbers in judgement.doubled if policy.collision != "all" else ():
            self._warn(
                f"{len(numbers)} installed plugins are called `{name}` in {self.group}; the {policy.collision} counts"
            )
        return [plugins[number] for number in judgement.order]

    def _get(self, name: str) -> Plugin:
        plugin = next((plugin for plugin in self._judged() if plugin.name == name), None)
        if plugin is None:
            self._refuse(name)
        end = self._object(plugin, raising=True)
        if self.call and isinstance(end, Loaded):
            end = self._call(plugin, end, raising=True)
        if isinstance(end, Failure):
            raise PluginLoadError(str(end), [end], hint=end.hint) from end.exception
        if isinstance(end, Loaded):
            self._by_name[name] = plugin
        return plugin

    def _refuse(self, name: str) -> NoReturn:
        for plugin in self._rows.values():
            if plugin.name == name and plugin.state == FILTERED:
                raise PluginRefusedError(
                    f"plugin `{name}` in {self.group} may not load: {plugin.rule}", verdict=plugin.rule
                )
        near = _core.nearest(name, [plugin.name for plugin in self._rows.values()])
        hint = f"Did you mean `{near}`?" if near else f"`vplug list {self.group}` shows what is installed."
        text = f"no installed distribution offers `{name}` in {self.group}"
        if hidden := shadowed(self.group, name):
            text, hint = f"{text}; {hidden}", "Uninstall the copy that is not wanted."
        raise PluginNotFoundError(text, hint=hint)

    def _object(self, plugin: Plugin, *, raising: bool = False) -> Loaded | Failure | None:
        """Imports a plugin; None where this thread is in the middle of that. The row is brought up to date."""
        try:
            end = process.once(plugin, process.OBJECT, self.wait_limit, attempt.load)
        except (process.Reentrant, LoadCycleError, LoadTimeoutError) as error:
            return self._mark(plugin, _unserved(plugin, error, raising=raising))
        if type(end) is Loaded:
            # other loaders of the group may want another kind, so this is no part of the step
            failure = attempt.check(plugin, end.value, self.kind)
            if failure is None:
                plugin.found, plugin.object, plugin.seconds = end, end.value, end.seconds
                plugin.state, plugin.failure = LOADED, None
                return end
            failure.seconds, failure.modules, failure.cuda = end.seconds, end.modules, end.cuda
            process.retract(plugin, process.OBJECT, end, failure)
            end = failure
        return self._mark(plugin, end)

    def _call(self, plugin: Plugin, found: Loaded, *, raising: bool = False) -> Loaded | Failure | None:
        """Calls a plugin's object; as `_object`."""
        try:
            end = process.once(plugin, process.CALL, self.wait_limit, attempt.call, found.value)
        except (process.Reentrant, LoadCycleError, LoadTimeoutError) as error:
            return self._mark(plugin, _unserved(plugin, error, raising=raising))
        if type(end) is Loaded:
            plugin.called, plugin.result, plugin.seconds = end, end.value, found.seconds + end.seconds
            plugin.state, plugin.failure = LOADED, None
            return end
        return self._mark(plugin, end)

    def _mark(self, plugin: Plugin, end: Failure | None) -> Failure | None:
        if end is None:
            plugin.state = LOADING
        else:
            plugin.state, plugin.failure = FAILED, end
        return end


def _unserved(plugin: Plugin, error: Exception, *, raising: bool) -> Failure | None:
    """The record of a step that another thread has; None where it is this very thread, further out."""
    if isinstance(error, process.Reentrant):
        return None
    if raising:
        raise error
    return Failure(plugin, "wait", error, hint=getattr(error, "hint", None))


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
