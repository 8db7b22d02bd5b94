"""The rows of a group -> a report, as text and as plain data."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.loading import process
from vplug_rs.loading.plugin import FAILED, LOADED, LOADING
from vplug_rs.loading.shadowed import shadowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vplug_rs import _core
    from vplug_rs._core import Loaded
    from vplug_rs.loading.plugin import Failure, Plugin


class Report:
    """Every plugin of a group as it stands now. `str()` is for people, `data` for programs.

    Attributes:
        group: The entry point group.
        plugins: The rows, in the order of discovery.
        discovery_seconds: How long finding them took, this time.
    """

    def __init__(self, group: str, plugins: list[Plugin], judgement: _core.Judgement, discovery: float) -> None:
        self.group = group
        self.plugins = plugins
        self._judgement = judgement
        self.discovery_seconds = discovery

    @property
    def data(self) -> dict[str, Any]:
        """The report as JSON would have it."""
        return {
            "group": self.group,
            "discovery_seconds": self.discovery_seconds,
            "plugins": [_row(plugin) for plugin in self.plugins],
            "unmatched": [
                {"entry": entry, "origin": origin, "near": near, "hidden": shadowed(self.group, entry)}
                for entry, origin, near, _ in self._judgement.unmatched
            ],
        }

    def json(self) -> str:
        """The report as JSON text."""
        return report.json_text("load-report", self.data)

    def __str__(self) -> str:
        rows = [
            (
                plugin.name,
                " ".join(filter(None, (plugin.project, plugin.version))),
                _state(plugin),
                _time(plugin),
                _why(plugin),
            )
            for plugin in self.plugins
        ]
        lines = [report.table(("NAME", "DISTRIBUTION", "STATE", "MS", "WHY"), rows, right=(3,))] if rows else []
        lines.append(
            f"{self.group}: {report.count(len(rows), 'plugin')}, {sum(p.state == LOADED for p in self.plugins)} loaded"
        )
        for entry, origin, near, _ in self._judgement.unmatched:
            hidden = shadowed(self.group, entry)
            more = hidden or (f"did you mean `{near}`?" if near else "")
            lines.append(f"`{entry}` in {origin} names nothing" + (f"; {more}" if more else ""))
        return report.visible("\n".join(lines))


def _state(plugin: Plugin) -> str:
    return LOADING if plugin.state != LOADED and process.is_running(plugin) else plugin.state


def _time(plugin: Plugin) -> str:
    if plugin.state == FAILED and plugin.failure is not None:
        return f"{plugin.failure.seconds * 1e3:.1f}"
    return f"{plugin.seconds * 1e3:.1f}" if plugin.found is not None else ""


def _why(plugin: Plugin) -> str:
    cuda = "; it initialised CUDA" if any(cost.cuda for cost in _costs(plugin)) else ""
    if plugin.state == FAILED and plugin.failure is not None:
        return f"{plugin.failure.phase}: {plugin.failure.cause}{cuda}"
    return f"{plugin.rule}{cuda}"


def _costs(plugin: Plugin) -> list[Loaded | Failure]:
    """What its steps cost: those that succeeded, and the one that failed last."""
    return [cost for cost in (plugin.found, plugin.called, plugin.failure) if cost is not None]


def _row(plugin: Plugin) -> dict[str, Any]:
    failure, costs = plugin.failure, _costs(plugin)
    imported = plugin.found or (failure if failure is not None and failure.phase in {"import", "resolve"} else None)
    called = plugin.called or (failure if failure is not None and failure.phase == "call" else None)
    return {
        "name": plugin.name,
        "value": plugin.value,
        "distribution": plugin.project,
        "version": plugin.version,
        "metadata_path": plugin.metadata_path,
        "state": _state(plugin),
        "reason": plugin.reason,
        "rule": plugin.rule,
        "import_seconds": None if imported is None else imported.seconds,
        "call_seconds": None if called is None else called.seconds,
        "modules": list(dict.fromkeys(module for cost in costs for module in cost.modules)),
        "initialised_cuda": any(cost.cuda for cost in costs),
        "processes": list(plugin.processes),
        "failure": None
        if failure is None
        else {
            "phase": failure.phase,
            "exception": failure.cause,
            "hint": failure.hint,
            "traceback": failure.traceback,
            "seconds": failure.seconds,
            "process": failure.process,
            "thread": failure.thread,
            "attempts": max(process.attempts(plugin, step) for step in (process.OBJECT, process.CALL)),
        },
    }
