"""`vplug list`: the entry points of this environment, in the order in which a host gets them."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import inventory
from vplug_rs.cli.parser import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from vplug_rs.cli.inventory import Entry, Site

HELP = "List the entry points of this environment. Nothing is imported."

EPILOG = """\
order is the place of an entry point in its group, as entry_points(group=...)
returns it. Hidden entry points have none; --all shows them with their state:
  live      hosts see it
  shadowed  another copy of its distribution wins
  leftover  remains of an interrupted upgrade
  ignored   no valid distribution

exit status:
  0  done
  2  the command line is wrong
  3  the group has no entry point
"""

HEADERS = ("GROUP", "ORDER", "NAME", "VALUE", "DISTRIBUTION", "VERSION", "STATE", "PATH")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.add_argument("group", nargs="?", metavar="GROUP", help="only this group")
    parser.add_argument("--all", action="store_true", help="also those that another copy hides")


def run(args: argparse.Namespace) -> int:
    """Print the list.

    Args:
        args: The parsed arguments.

    Returns:
        0, or 3 when a group was given that has no entry point.
    """
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
