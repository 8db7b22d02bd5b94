"""`vplug list`: the entry points of this environment, in the order in which a host gets them."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import inventory, timings, trial
from vplug_rs.cli.parser import declare
from vplug_rs.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from vplug_rs.cli.inventory import Entry, Site

HELP = """\
List the entry points of this environment. Nothing is imported, but with
--timings."""

EPILOG = """\
order is the place of an entry point in its group, as entry_points(group=...)
returns it. Hidden entry points have none; --all shows them with their state:
  live      hosts see it
  shadowed  another copy of its distribution wins
  leftover  remains of an interrupted upgrade
  ignored   no valid distribution

--timings loads the group in a process of its own, under the policy if one is
named, and shows what each plugin costs and whether it loads at all.

exit status:
  0  done
  1  --timings: a plugin failed, or the group as a whole
  2  the command line is wrong
  3  the group has no entry point
"""

TIMINGS = ("ORDER", "NAME", "DISTRIBUTION", "STATE", "MS", "MODULES", "WHY")
HEADERS = ("GROUP", "ORDER", "NAME", "VALUE", "DISTRIBUTION", "VERSION", "STATE", "PATH")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.usage = (
        "vplug list [-h] [--json] [--all] [GROUP]\n"
        "       vplug list [-h] [--json] --timings [--seconds S]\n"
        f"                  {trial.USAGE}\n"
        "                  GROUP"
    )
    parser.add_argument("group", nargs="?", metavar="GROUP", help="only this group")
    parser.add_argument("--all", action="store_true", help="also those that another copy hides")
    parser.add_argument("--timings", action="store_true", help="load the group, and say what each plugin costs")
    trial.add_policy(parser)


def run(args: argparse.Namespace) -> int:
    """Print the list.

    Args:
        args: The parsed arguments.

    Returns:
        0; 1 when --timings found a plugin that fails; 3 when a group was given that has no entry point.

    Raises:
        UsageError: An option that would have no effect.
    """
    if args.timings:
        return _timings(args)
    if trial.words(args) != ["open"]:
        hint = "`vplug why NAME` judges by a policy too, and imports nothing"
        raise UsageError("a policy is for loading, so it wants --timings", hint=hint)
    if args.seconds is not None:
        raise UsageError("--seconds limits loading, so it wants --timings")
    site = inventory.load()
    known = site.entries if args.all else site.live
    entries = [entry for entry in known if args.group in (None, entry.group)]
    entries.sort(key=lambda entry: entry.group)  # stable: inside a group the effective order stays
    if args.json:
        report.emit(report.json_text("list", {"group": args.group, "entry_points": [as_dict(e) for e in entries]}))
    elif entries:
        report.emit(report.table(HEADERS, [_cells(entry) for entry in entries], right=(1,)))
    elif args.group is None:
        _explain_nothing(site)
    if args.group is not None and not entries:
        _explain_empty(args.group, site.entries)
        return 3
    return 0


def _timings(args: argparse.Namespace) -> int:
    if args.group is None:
        raise UsageError("--timings loads plugins, so it wants a group", hint="`vplug list` shows all groups")
    if args.all:
        raise UsageError("--timings loads plugins, and what --all shows besides is never loaded")
    found = timings.load_group(args.group, args)
    plugins: list[dict[str, Any]] = found["plugins"]
    if args.json:
        report.emit(report.json_text("list", found))
    elif plugins:
        report.emit(report.table(TIMINGS, [_timed(plugin) for plugin in plugins], right=(0, 4, 5)))
        for row in found["unmatched"]:
            near = row["hidden"] or (f"did you mean `{row['near']}`?" if row["near"] else None)
            report.message("warning", f"`{row['entry']}` in {row['origin']} names nothing", near)
    if found["error"] is not None:
        report.message("error", found["error"])
        return 1
    if not plugins:
        _explain_empty(args.group, inventory.load().entries)
        return 3
    return int(any(plugin["failure"] is not None for plugin in plugins))


def _timed(plugin: dict[str, Any]) -> tuple[str, ...]:
    seconds, failure = plugin["import_seconds"], plugin["failure"]
    return (
        "-" if plugin["order"] is None else str(plugin["order"]),
        plugin["name"],
        " ".join(filter(None, (plugin["distribution"], plugin["version"]))),
        plugin["state"],
        "" if seconds is None else f"{seconds * 1e3:.1f}",
        "" if seconds is None else str(len(plugin["modules"])),
        (plugin["rule"] if failure is None else f"{failure['phase']}: {failure['exception']}")
        + ("; it initialised CUDA" if plugin["initialised_cuda"] else ""),
    )


def as_dict(entry: Entry) -> dict[str, object]:
    """The keys under which JSON output shows an entry point.

    Args:
        entry: The entry point.
    """
    return {
        "group": entry.group,
        "name": entry.name,
        "value": entry.value,
        "distribution": entry.copy.name,
        "version": entry.copy.version,
        "path": entry.copy.path,
        "line": entry.line,
        "state": entry.copy.state,
        "order": entry.order,
    }


def _cells(entry: Entry) -> tuple[str, ...]:
    order = "-" if entry.order is None else str(entry.order)
    copy = entry.copy
    return (entry.group, order, entry.name, entry.value, copy.name, copy.version, copy.state, copy.path)


def _explain_nothing(site: Site) -> None:
    number = len({copy.key for copy in site.copies if copy.state == "live"})
    hint = "all of them are hidden; see `vplug list --all`" if site.entries else None
    report.message("note", f"no entry points in {report.count(number, 'distribution')}", hint)


def _explain_empty(group: str, entries: list[Entry]) -> None:
    groups = {entry.group for entry in entries}
    if group in groups:
        hint = f"all its entry points are hidden; see `vplug list {group} --all`"
    else:
        from difflib import get_close_matches

        near = get_close_matches(group, sorted(groups), 1)
        hint = f"did you mean `{near[0]}`?" if near else "`vplug list` shows all groups"
    report.message("error", f"no entry point in group `{group}`", hint)
