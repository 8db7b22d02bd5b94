"""Archives and eggs on the path: found by the interpreter's own machinery, read as `vplug_rs.metadata` reads them.

In: the core's deferred path entries. Out: more copies, entries and findings. The core has no zip reader.
"""

from __future__ import annotations

import os
from importlib.metadata import DistributionFinder, MetadataPathFinder

from vplug_rs import _core
from vplug_rs.cli.findings import READ_LIMIT, Unread, make, read_bytes
from vplug_rs.cli.inventory import Copy, Entry
from vplug_rs.metadata import PathDistribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

POINTS = "entry_points.txt"


def merge(deferred: Iterable[tuple[int, str, str]], copies: list[Copy], entries: list[Entry]) -> list[_core.Diagnostic]:
    """Add what archives and eggs hold, and settle anew which copy of each distribution is live.

    Args:
        deferred: Index, path and kind of the path entries that the core leaves to others.
        copies: The copies so far; extended and put in path order.
        entries: The entries so far; extended.

    Returns:
        What could not be read.
    """
    findings: list[_core.Diagnostic] = []
    for index, path, _kind in deferred:
        for info in _infos(path, findings):
            entries += _read(info, Copy(str(info).rstrip("/"), path, index, "", "live"), copies, findings)
    copies.sort(key=lambda copy: copy.entry_index)
    _settle(copies)
    return findings


def _infos(path: str, findings: list[_core.Diagnostic]) -> Iterator[Any]:
    """The metadata folders in one path entry."""
    if os.path.exists(path) and not os.path.isdir(path) and not os.path.isfile(path):
        # The interpreter would open it, and wait for ever for what a FIFO has to say.
        findings.append(make("path-entry-unreadable", path, "it is neither a folder nor a regular file"))
        return
    try:
        for found in MetadataPathFinder.find_distributions(DistributionFinder.Context(path=[path])):
            yield found._path
    except Exception as error:  # noqa: BLE001  somebody else's damaged archive: say so, go on
        findings.append(make("finder-failed", path, f"{type(error).__name__}: {error}"))


def _read(info: Any, copy: Copy, copies: list[Copy], findings: list[_core.Diagnostic]) -> list[Entry]:
    """The entries of one distribution, which becomes one of the copies if the library would give it at all."""
    distribution = PathDistribution(info)
    try:
        copy.key = distribution._normalized_name
    except Exception as error:  # noqa: BLE001  the library leaves it out as well
        findings.append(_failed(copy, error))
        return []
    copies.append(copy)
    try:
        copy.set_identity(distribution.name, distribution.version)
    except Exception as error:  # noqa: BLE001  its entry points may be readable all the same
        findings.append(_failed(copy, error))
        copy.set_identity(None, None)
    try:
        rows, found = _points(info, copy)
    except Exception as error:  # noqa: BLE001  a bad checksum, a password, an unknown compression
        findings.append(_failed(copy, error))
        return []
    findings += found
    return [Entry(name, value, group, copy, line) for name, value, group, line in rows]


def _failed(copy: Copy, error: Exception) -> _core.Diagnostic:
    return make("distribution-failed", copy.path, f"{type(error).__name__}: {error}", copy=copy)


def _points(info: Any, copy: Copy) -> tuple[list[tuple[str, str, str, int]], list[_core.Diagnostic]]:
    """The rows of `entry_points.txt`, and what is wrong in it."""
    path = os.path.join(copy.path, POINTS)
    data = read_bytes(path) if isinstance(info, os.PathLike) else _unpacked(info)
    if isinstance(data, Unread):
        if data.fault == "missing":
            return [], []
        return [], [make(f"entry-points-{data.fault}", path, data.reason, copy=copy)]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"line {line} has a byte that is not UTF-8"
        return [], [make("entry-points-not-utf8", path, message, line=line, copy=copy)]
    rows, findings = _core.parse_entry_points(text, path, copy.title)
    for name, value, group, line in rows:
        if _core.parse_reference(value) is None:
            message = f"`{name}` in [{group}] has the value `{value}`, which is not `module:attribute`"
            findings.append(make("entry-points-bad-reference", path, message, line=line, copy=copy))
    return rows, findings


def _unpacked(info: Any) -> bytes | Unread:
    """The file inside a zip archive."""
    try:
        with info.joinpath(POINTS).open("rb") as file:
            data: bytes = file.read(READ_LIMIT + 1)  # a bomb says too little of its size
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError):
        return Unread("missing", "there is no such file")
    if len(data) > READ_LIMIT:
        return Unread("too-large", f"it has more than {READ_LIMIT} bytes, which are the most that are read")
    return data


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
