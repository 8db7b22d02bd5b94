"""A loader that finds what vLLM finds, in its order, chooses as it chooses, and tells it in vLLM's log."""

from __future__ import annotations

import logging

from vplug_rs import _core, env, groups
from vplug_rs.errors import PluginLoadError, PluginNotFoundError, PluginRefusedError
from vplug_rs.groups import ENDPOINT, GENERAL, GROUPS, LOGITS_PROCESSOR, owner
from vplug_rs.loader import PluginLoader
from vplug_rs.loading.plugin import FAILED, FILTERED, LOADED, LOADING, Failure, Plugin
from vplug_rs.policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vplug_rs._core import Loaded

# below vLLM's own logger, whose handlers it uses; each record has `vplug`: (kind, plugin name or None)
log = logging.getLogger("vllm.vplug_rs")
_told: set[str] = set()
_latest: dict[str, VllmLoader] = {}


class ForeignPointError(TypeError):
    """Somebody has put objects of its own in the place of entry points: they can be loaded by themselves only."""


def policy_for(group: str, collision: str = "all") -> Policy:
    """What may load: the file in `VPLUG_POLICY`, or else `VLLM_PLUGINS` as vLLM reads it.

    Every copy of a double is loaded, as in vLLM, unless `collision` says which one. The group of logits processors has
    no allowlist in vLLM: only the file counts there. Endpoint plugins have to be named in either.
    """
    strict, path = env.switch(env.STRICT) is True, env.path(env.POLICY)
    if path is not None:
        from vplug_rs import policy_file

        rules = policy_file.read(path)
        if group == ENDPOINT:
            rules["explicit_only"] = [*rules.get("explicit_only", ()), group]
        return Policy(**{**rules, "strict": strict or rules.get("strict", False)})
    if group == LOGITS_PROCESSOR:
        return Policy(collision="all", strict=strict, origin="vLLM, which has no list for this group,")
    return Policy.vllm(strict=strict, collision=collision)


class VllmLoader(PluginLoader):
    """The plugins of one of vLLM's groups."""

    def __init__(self, group: str, *, collision: str = "all") -> None:
        super().__init__(group, policy=policy_for(group, collision), kind="any")
        self.failed: list[Failure] = []
        self.level = logging.DEBUG if group in {GENERAL, LOGITS_PROCESSOR} else logging.INFO

    def select(self) -> dict[str, Plugin]:
        """Loads the group: `{name: plugin}`. Of doubles the last counts, in the place of the first, as in vLLM's dict.

        Raises:
            PolicyError, PluginLoadError: as `PluginLoader.load`.
            PluginRefusedError, PluginLoadError, PluginNotFoundError: what `VPLUG_REQUIRE` names is not loaded.
        """
        chosen: dict[str, Plugin] = {}
        for plugin in self.load():
            other = chosen.get(plugin.name)
            if other is not None:
                self._warn(
                    f"plugin `{plugin.name}` in {self.group} is offered by {owner(other)} and by {owner(plugin)}; "
                    "the last one counts"
                )
            chosen[plugin.name] = plugin
        for plugin in chosen.values():
            # vLLM takes it as it is and fails later; here that is said where it can be mended
            error = groups.check(plugin)
            if error is not None:
                self._warn(f"{error} ({error.hint})")
                self.fail(plugin, Failure(plugin, "resolve", error, hint=error.hint))
        self.demand(chosen)
        return chosen

    def fail(self, plugin: Plugin, failure: Failure) -> None:
        """Notes that a plugin will not do; `demand` says what comes of it."""
        plugin.state, plugin.failure = FAILED, failure
        self.failed.append(failure)

    def succeed(self, plugin: Plugin) -> None:
        """Notes that a call went well."""
        plugin.state, plugin.failure = LOADED, None

    def leave_out(self, plugin: Plugin, rule: str) -> None:
        """Notes that a plugin is not used, and by which rule."""
        plugin.state, plugin.rule = FILTERED, rule

    def demand(self, chosen: dict[str, Plugin]) -> None:
        """At the end, when all were tried: stops where one failed that must not.

        Raises:
            PluginLoadError: some failed, and the policy is strict; or one that `VPLUG_REQUIRE` names did.
            PluginRefusedError, PluginNotFoundError: what `VPLUG_REQUIRE` names is left out, or nobody offers it.
        """
        if self.failed and self.policy.strict:
            raise self._all_failed(self.failed, len(self._rows))
        for name in env.names(env.REQUIRE):
            rows = [row for row in self._rows.values() if row.name == name]
            if name in chosen and chosen[name].state != FAILED:
                continue
            for row in rows:
                if row.state == FILTERED:
                    text = f"plugin `{name}` of {owner(row)}, which {env.REQUIRE} names, may not load: {row.rule}"
                    raise PluginRefusedError(text, verdict=row.rule, hint="Allow it, or do not require it.")
                if row.failure is not None:
                    text = f"a plugin that {env.REQUIRE} names failed: {row.failure}"
                    raise PluginLoadError(text, [row.failure], hint=row.failure.hint) from row.failure.exception
            if not rows and self.group == GENERAL:
                self._demand_anywhere(name)

    def _demand_anywhere(self, name: str) -> None:
        from vplug_rs import metadata

        known = [point.name for group in GROUPS for point in metadata.entry_points(group=group)]
        if name not in known:
            near = _core.nearest(name, known)
            hint = f"Did you mean `{near}`?" if near else "`vplug list vllm.general_plugins` shows what is installed."
            raise PluginNotFoundError(
                f"{env.REQUIRE} names `{name}`, which no installed distribution offers to vLLM", hint=hint
            )

    def _found(self) -> list[Plugin]:
        """As the interpreter lists them, which is vLLM's order; where that fails, what is sound, in our order."""
        from importlib import metadata as genuine

        try:
            points = list(genuine.entry_points(group=self.group))
        except Exception as error:  # noqa: BLE001  # one package with damaged metadata; vLLM's own loader ends here
            self._warn(
                f"importlib.metadata cannot list {self.group} ({type(error).__name__}: {error}); the packages that are "
                "sound are used, see `vplug doctor`"
            )
            return super()._found()
        for point in points:
            if not _is_entry_point(point, genuine.EntryPoint):
                raise ForeignPointError(
                    f"{self.group} holds {type(point).__name__}, which is no entry point of importlib.metadata"
                )
        return [Plugin.of(point, self.group) for point in points]

    def _judged(self) -> list[Plugin]:
        before = _latest.get(self.group)
        if before is not None and before is not self and not self._rows:
            self._rows = dict(before._rows)  # what became of them is known for longer than a loader lives
        _latest[self.group] = self
        plugins = super()._judged()
        rows = list(self._rows.values())
        if not rows:
            self._say(logging.DEBUG, "none", None, "No plugin is installed for %s", self.group)
            return plugins
        if not log.isEnabledFor(self.level):  # whose they are is read from their metadata
            return plugins
        self._say(self.level, "heading", None, "Plugins installed for %s:", self.group)
        for row in rows:
            self._say(self.level, "available", row.name, "- %s = %s, of %s", row.name, row.value, owner(row))
        if self._lists() is None:
            self._say(self.level, "all", None, "All of them are loaded: %s names none", self.policy.origin)
        for row in rows:
            if row.state == FILTERED:
                self._say(self.level, "skipped", row.name, "Not loaded: %s (%s)", row.name, row.rule)
        return plugins

    def _lists(self) -> Any:
        """The list of names that decides for this group, or None where all are loaded."""
        lists = [allowed for group, _, allowed, _ in reversed(self.policy.lists) if group in {None, self.group}]
        # a group's own table that only denies leaves the general list in force
        return next((allowed for allowed in lists if allowed is not None), None)

    def _object(self, plugin: Plugin, *, raising: bool = False) -> Loaded | Failure | None:
        if self._lists() is not None:
            self._say(self.level, "loading", plugin.name, "Loading plugin %s", plugin.name)
        before = plugin.failure
        end = super()._object(plugin, raising=raising)
        if isinstance(end, Failure):
            self.tell(end)
        elif before is not None and before.phase == "call":  # only another call can mend that
            plugin.state, plugin.failure = FAILED, before
        return end

    def tell_kept_out(self) -> None:
        """Warns of what the policy keeps out of a group for which vLLM has no list."""
        for row in self._rows.values():
            if row.state == FILTERED:
                self._warn(f"{groups.whose(row)} is left out of {self.group} ({row.rule}); vLLM itself would load it")

    def names_none(self) -> bool:
        """Whether no list says a word on this group."""
        return self._lists() is None

    def call_once(self, plugin: Plugin) -> Loaded | Failure | None:
        """Calls a loaded plugin once in this process; a failure is told and recorded."""
        assert plugin.found is not None, "only what is loaded is called"
        end = self._call(plugin, plugin.found)
        if plugin.state == FAILED and plugin.failure is not None:
            self.tell(plugin.failure)
            self.failed.append(plugin.failure)
        return end

    def _tell_failure(self, failure: Failure) -> None:
        """Each has been told at its place."""

    def tell(self, failure: Failure) -> None:
        """Logs a failure with its traceback."""
        self._say(logging.ERROR, "failed", failure.name, "%s\n%s", failure.told, failure.traceback.rstrip())

    def _warn(self, text: str) -> None:
        if text not in _told:  # vLLM asks several times in a process
            _told.add(text)
            self._say(logging.WARNING, "warning", None, "%s", text)

    def _say(self, level: int, kind: str, name: str | None, text: str, *words: Any) -> None:
        log.log(level, text, *words, extra={"vplug": (kind, name)})


def is_settled(group: str) -> bool:
    """Whether a group was asked for, and nothing in it failed or is under way."""
    loader = _latest.get(group)
    return loader is not None and not {FAILED, LOADING} & {plugin.state for plugin in list(loader._rows.values())}


def rows() -> list[Plugin]:
    """The plugins of all groups that were asked for in this process, as they stand."""
    return [plugin for loader in list(_latest.values()) for plugin in list(loader._rows.values())]


def _is_entry_point(point: Any, genuine: type) -> bool:
    kind = type(point)
    return isinstance(point, genuine) or (kind.__name__ == "EntryPoint" and kind.__module__ == "importlib_metadata")
