"""`vplug why NAME`: where one entry point or distribution comes from, and why it is not there."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import inventory, trial
from vplug_rs.cli.evidence import ABSENT, HIDDEN, LIVE, Answer
from vplug_rs.cli.explain import text_of
from vplug_rs.cli.parser import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from vplug_rs.cli.evidence import EntryCase
    from vplug_rs.cli.inventory import Entry
    from vplug_rs.loader import PluginLoader

HELP = """\
Explain one entry point or distribution: which file declares it, whether hosts
see it, and if not, what hides it and what to delete. With --policy, --env or
--vllm also whether a host with that policy may load it, and by which rule.
Nothing is imported, but with --load."""

EPILOG = """\
exit status:
  0  it is live and nothing is wrong with it
  1  it is there, but damaged, ambiguous, without its module, refused by the
     policy, failing (--load), or hidden: only a copy has it that another copy
     shadows
  2  the command line is wrong
  3  there is nothing of that name
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.usage = (
        f"vplug why [-h] [--json] [--group G] [--load]\n                 {trial.USAGE}\n                 NAME"
    )
    parser.add_argument("name", metavar="NAME", help="an entry point, or a distribution in any spelling")
    parser.add_argument("--group", metavar="G", help="only entry points of this group")
    parser.add_argument("--load", action="store_true", help="load it, in a process of its own, and say how that went")
    trial.add_policy(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation.

    Args:
        args: The parsed arguments.

    Returns:
        0 when it is live and whole, 1 when something is in its way, 3 when it is absent.
    """
    answer = Answer(inventory.load(), args.name, args.group)
    verdicts = [verdict for case in answer.entries if (verdict := _verdict(case, args)) is not None]
    if args.json:
        loading = {"loading": [verdict.data for verdict in verdicts]} if args.load or trial.policy(args) else {}
        report.emit(report.json_text("why", {**answer.as_dict(), **loading}))
    else:
        report.emit("\n\n".join([text_of(answer), *map(str, verdicts)]))
    status = {LIVE: 0, ABSENT: 3}.get(answer.status, 1)
    return status or int(any(not verdict.good for verdict in verdicts))


class _Verdict:
    """Whether an entry point may load, and how loading it went."""

    def __init__(self, entry: Entry, plugin: dict[str, Any], found: dict[str, Any], *, wanted: bool) -> None:
        self.entry, self.plugin, self.wanted = entry, plugin, wanted
        self.tried = wanted and plugin["state"] in {"loaded", "failed"}
        self.error: str | None = None if plugin["state"] == "filtered" else found["error"]
        filtered = plugin["state"] == "filtered"
        # an idle permission may have been meant to let it in, an idle denial to keep it out
        meant = [
            row for row in found["unmatched"] if row["near"] == entry.name and row["entry"].startswith("!") != filtered
        ]
        self.meant = meant[0] if meant else None
        self.good = self.error is None and plugin["state"] not in {"filtered", "failed"}

    @property
    def _hint(self) -> str | None:
        if self.meant is None:
            return None
        return f"`{self.meant['entry']}` in {self.meant['origin']} names nothing: did it mean `{self.entry.name}`?"

    @property
    def data(self) -> dict[str, Any]:
        return {"group": self.entry.group, "tried": self.tried, "error": self.error, **self.plugin}

    def __str__(self) -> str:
        name, plugin = f"`{self.entry.name}` in group `{self.entry.group}`", self.plugin
        pairs = [("rule", plugin["rule"])] if plugin["rule"] else []
        failure, hint = plugin["failure"], None
        if plugin["state"] == "filtered":
            headline, hint = f"{name} may not load", self._hint
        elif self.error is not None:
            headline = f"{name} was not tried" if self.wanted else f"{name} may not load"
            pairs = [("because", self.error)]
        elif failure is not None:
            headline, hint = f"{name} fails at {failure['phase']}", failure["hint"]
            pairs.append(("raised", failure["exception"]))
            lines = failure["traceback"].splitlines()[1:-1]
            pairs += [("" if number else "at", line.strip()) for number, line in enumerate(lines)]
        elif self.tried:
            modules = report.count(len(plugin["modules"]), "new module")
            headline = f"{name} loads in {plugin['import_seconds'] * 1e3:.1f} ms, with {modules}"
        else:
            headline, hint = f"{name} may load", self._hint
        return "\n".join([headline, *([report.fields(pairs)] if pairs else []), *([f"hint: {hint}"] if hint else [])])


def _verdict(case: EntryCase, args: argparse.Namespace) -> _Verdict | None:
    """What a policy says of an entry point, and loading where that is wanted; None where neither is asked for."""
    entry = case.entry
    policy = trial.policy(args)
    if case.status == HIDDEN or (policy is None and not args.load):
        return None
    if args.load:
        found = trial.load(entry.group, entry.name, args)
        for plugin in found["plugins"]:
            if (plugin["name"], plugin["value"], plugin["metadata_path"]) == (entry.name, entry.value, entry.copy.path):
                return _Verdict(entry, plugin, found, wanted=True)
        return None
    from vplug_rs.loader import PluginLoader

    loader = PluginLoader(entry.group, policy=policy)
    found = {**loader.report().data, "error": _fault(loader)}
    for row in found["plugins"]:
        if (row["name"], row["value"], row["metadata_path"]) == (entry.name, entry.value, entry.copy.path):
            return _Verdict(entry, row, found, wanted=False)
    return None


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
