"""What the loader says of one entry point: whether a policy lets it in, and how loading it went.

In: an entry point and the arguments that name a policy. Out: a `Verdict`, which is text and plain data.
"""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import trial
from vplug_rs.cli.findings import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from vplug_rs.cli.inventory import Entry
    from vplug_rs.loader import PluginLoader


ABSENT = "absent"
GONE = "the loader does not find this entry point"


class Verdict:
    """Whether an entry point may load, and how loading it went.

    Attributes:
        entry: The entry point.
        plugin: The loader's row of it; where there is none, as much of one as can be said.
        wanted: Whether it was to be loaded.
        tried: Whether it was.
        error: What keeps it out together with its whole group, or None.
        good: Whether nothing is wrong with it.
    """

    def __init__(self, entry: Entry, plugin: dict[str, Any] | None, found: dict[str, Any], *, wanted: bool) -> None:
        """Draw the conclusions from a report of the loader."""
        self.entry, self.wanted = entry, wanted
        self.error: str | None = found["error"]
        if plugin is None:
            plugin = {"name": entry.name, "value": entry.value, "state": ABSENT, "rule": "", "failure": None}
            self.error = self.error or GONE
        self.plugin, state = plugin, plugin["state"]
        filtered = state == "filtered"
        if filtered:
            self.error = None
        self.tried = wanted and state in {"loaded", "failed", trial.CRASHED, trial.TIMED_OUT}
        # an idle permission may have been meant to let it in, an idle denial to keep it out
        meant = [
            row for row in found["unmatched"] if row["near"] == entry.name and row["entry"].startswith("!") != filtered
        ]
        self.meant = meant[0] if meant else None
        self.good = self.error is None and plugin["failure"] is None and not filtered

    @property
    def _hint(self) -> str | None:
        if self.meant is None:
            return None
        return f"`{self.meant['entry']}` in {self.meant['origin']} names nothing: did it mean `{self.entry.name}`?"

    @property
    def data(self) -> dict[str, Any]:
        """The keys under which JSON output shows it."""
        return {"group": self.entry.group, "tried": self.tried, "error": self.error, **self.plugin}

    def __str__(self) -> str:
        name, plugin = f"`{self.entry.name}` in group `{self.entry.group}`", self.plugin
        pairs = [("rule", plugin["rule"])] if plugin["rule"] else []
        failure, hint = plugin["failure"], None
        if plugin["state"] == "filtered":
            headline, hint = f"{name} may not load", self._hint
        elif plugin["state"] == ABSENT and self.wanted:
            headline, pairs = f"{name} is not there after loading", [("because", self.error or GONE)]
            hint = "a plugin that changes `sys.path` while it is imported hides itself and others"
        elif self.error is not None:
            headline = f"{name} was not tried" if self.wanted else f"{name} may not load"
            pairs = [("because", self.error)]
        elif failure is not None:
            alone = plugin["state"] in {trial.CRASHED, trial.TIMED_OUT}
            headline = f"{name} {plugin['state']}" if alone else f"{name} fails at {failure['phase']}"
            pairs.append(("because" if alone else "raised", failure["exception"]))
            lines = failure["traceback"].splitlines()[1:-1]
            pairs += [("" if number else "at", line.strip()) for number, line in enumerate(lines)]
            hint = failure["hint"]
        elif self.tried:
            modules = report.count(len(plugin["modules"]), "new module")
            headline = f"{name} loads in {plugin['import_seconds'] * 1e3:.1f} ms, with {modules}"
        elif self.wanted:
            headline = f"{name} may load, but was not tried: another plugin of that name comes first"
        else:
            headline, hint = f"{name} may load", self._hint
        return "\n".join([headline, *([report.fields(pairs)] if pairs else []), *([f"hint: {hint}"] if hint else [])])


def judge(entry: Entry, args: argparse.Namespace) -> Verdict:
    """Ask the loader about an entry point, and let it load where that is wanted.

    Args:
        entry: A live entry point.
        args: The parsed arguments.
    """
    found = _tried(entry, args) if args.load else _judged(entry.group, args)
    row = next((plugin for plugin in found["plugins"] if _is(plugin, entry)), None)
    return Verdict(entry, row, found, wanted=args.load)


def _is(plugin: dict[str, Any], entry: Entry) -> bool:
    if (plugin["name"], plugin["value"]) != (entry.name, entry.value):
        return False
    if plugin["metadata_path"] is not None:
        return bool(plugin["metadata_path"] == entry.copy.path)
    # in an archive; of a distribution that says no name there is nothing more to compare
    project = plugin["distribution"]
    return entry.copy.origin == "archive" and (project is None or key_of(project) == key_of(entry.copy.name))


def _tried(entry: Entry, args: argparse.Namespace) -> dict[str, Any]:
    try:
        return trial.load(entry.group, [entry.name], args)
    except trial.TrialError as error:
        found = trial.unloaded(entry.group, args)
        for plugin in found["plugins"]:
            if plugin["name"] == entry.name and plugin["state"] != "filtered":
                plugin.update(state=error.state, failure=error.failure)
        return found


def _judged(group: str, args: argparse.Namespace) -> dict[str, Any]:
    from vplug_rs.loader import PluginLoader

    loader = PluginLoader(group, policy=trial.policy(args))
    return {**loader.report().data, "error": _fault(loader)}


def _fault(loader: PluginLoader) -> str | None:
    """What lets a host with this policy load nothing at all, or None."""
    import warnings

    from vplug_rs.errors import PluginWarning, PolicyError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # what it warns of stands in the report
        try:
            loader.fingerprint()  # judges as load() does, and imports nothing
        except PolicyError as error:
            return str(error)
    return None
