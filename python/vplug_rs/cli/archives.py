"""Archives and eggs on the path, read by the interpreter's own machinery and merged with the core's rows.

In: the core's deferred path entries. Out: more copies and entries. The core has no zip reader.
"""

from __future__ import annotations

from importlib.metadata import DistributionFinder, MetadataPathFinder

from vplug_rs import _core, report
from vplug_rs.cli.inventory import Copy, Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import Distribution


def merge(deferred: Iterable[tuple[int, str, str]], copies: list[Copy], entries: list[Entry]) -> None:
    """Add what archives and eggs hold, and settle anew which copy of each distribution is live.

    Args:
        deferred: Index, path and kind of the path entries that the core leaves to others.
        copies: The copies so far; extended and put in path order.
        entries: The entries so far; extended.
    """
    for index, path, _kind in deferred:
        context = DistributionFinder.Context(path=[path])
        for distribution in MetadataPathFinder().find_distributions(context):
            _add(distribution, index, path, copies, entries)
    copies.sort(key=lambda copy: copy.entry_index)
    _settle(copies)


def _add(distribution: Distribution, index: int, path: str, copies: list[Copy], entries: list[Entry]) -> None:
    location = str(getattr(distribution, "_path", path))
    try:
        name, version = distribution.metadata["Name"], distribution.version
        listed = list(distribution.entry_points)
    except Exception as error:  # noqa: BLE001  somebody else's damaged archive: say so, go on
        report.message("warning", f"cannot read `{location}`: {type(error).__name__}: {error}")
        return
    if not name:
        return
    copy = Copy(location, path, index, _core.normalize(name), "live")
    copy.set_identity(name, version or "unknown")
    copies.append(copy)
    entries.extend(Entry(found.name, found.value, found.group, copy, None) for found in listed)


def _settle(copies: list[Copy]) -> None:
    """Let the first live copy of each name win; rows of the core keep their verdicts among themselves."""
    winners: dict[str, Copy] = {}
    for copy in copies:
        if copy.state != "live":
            continue
        winner = winners.setdefault(copy.key, copy)
        if winner is not copy:
            copy.state, copy.hidden_by = "shadowed", winner
    for copy in copies:
        if copy.hidden_by is not None and copy.hidden_by.state == "shadowed":
            copy.hidden_by = winners[copy.key]
