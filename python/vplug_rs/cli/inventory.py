"""This environment as the commands see it: the core's rows, and what the interpreter finds in archives and eggs.

In: path strings. Out: a `Site` of copies and entries with one answer to "which copy is live?".
It imports no plugin, and `importlib.metadata` only when the path holds an archive or an egg.
"""

from __future__ import annotations

import os
import sys

from vplug_rs import _core
from vplug_rs.cli.findings import key_of, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

METADATA_SUFFIXES = (".dist-info", ".egg-info")
EGG_INSIDE = "EGG-INFO"


class Copy:
    """One metadata folder or file. Several copies of one distribution can be on the path; one is live.

    Attributes:
        path: The metadata folder or file.
        path_entry: The element of `sys.path` that holds it.
        entry_index: The place of that element.
        key: The name that copies of one distribution share.
        state: `live`, `shadowed`, `leftover` or `ignored`.
        hidden_by: The live copy, if another one is.
        origin: Where the answer is from: `files` or `archive`.
    """

    __slots__ = ("_name", "_version", "entry_index", "hidden_by", "key", "origin", "path", "path_entry", "state")

    def __init__(self, path: str, path_entry: str, entry_index: int, key: str, state: str) -> None:
        """Describe a copy that the core has found; name and version are read when they are asked for."""
        self.path = path
        self.path_entry = path_entry
        self.entry_index = entry_index
        self.key = key
        self.state = state
        self.hidden_by: Copy | None = None
        self.origin = "files"
        self._name: str | None = None
        self._version: str | None = None

    @property
    def name(self) -> str:
        """The project's name as it spells it itself, else as its folder does."""
        if self._name is None:
            self._name = self._header("Name") or self._from_folder()[0] or self.key
        return self._name

    @property
    def version(self) -> str:
        """The version; `unknown` when neither the metadata nor the folder's name says it."""
        if self._version is None:
            self._version = self._header("Version") or self._from_folder()[1] or "unknown"
        return self._version

    @property
    def label(self) -> str:
        """Name and version, as in `acme 2.0`."""
        return f"{self.name} {self.version}"

    @property
    def title(self) -> str:
        """Name and version as the metadata folder's name says them: what findings call the distribution."""
        path = self.path
        if os.path.basename(path) == EGG_INSIDE:  # an egg says it one level higher
            path = os.path.dirname(path)
        stem = os.path.basename(path).rpartition(".")[0] or os.path.basename(path)
        # The same as `dist_info::label` of the core.
        return os.fsencode(stem.replace("-", " ", 1)).decode("utf-8", "replace")

    @property
    def folder(self) -> str:
        """The path entry in a form that can be printed: the empty one is the current directory."""
        return self.path_entry or os.curdir

    def set_identity(self, name: str | None, version: str | None) -> None:
        """Fix name and version for a copy whose files the core cannot read.

        Args:
            name: The project's name; by default what the folder's name says.
            version: Its version; likewise.
        """
        self._name = name or self._from_folder()[0] or self.key
        self._version = version or self._from_folder()[1] or "unknown"
        self.origin = "archive"

    def _header(self, field: str) -> str | None:
        value = _core.read_header(self.path, field, strict=False)
        return value if isinstance(value, str) else None

    def _from_folder(self) -> tuple[str, str]:
        stem = os.path.basename(self.path)
        for suffix in METADATA_SUFFIXES:
            if stem.lower().endswith(suffix):
                stem = stem[: -len(suffix)]
        name, _, rest = stem.partition("-")
        return name, rest.partition("-")[0]


class Entry:
    """One entry point of one copy.

    Attributes:
        name: Its name.
        value: What it points to.
        group: Its group.
        copy: The copy that declares it.
        line: The line in `entry_points.txt`.
        order: Its place among the live ones of its group, from 1; `None` when its copy is not live.
    """

    __slots__ = ("copy", "group", "line", "name", "order", "value")

    def __init__(self, name: str, value: str, group: str, copy: Copy, line: int) -> None:
        """Describe an entry; `Site` gives it its order."""
        self.name = name
        self.value = value
        self.group = group
        self.copy = copy
        self.line = line
        self.order: int | None = None

    @property
    def file(self) -> str:
        """The file that declares it."""
        return os.path.join(self.copy.path, "entry_points.txt")


class Site:
    """Everything that is installed on one search path.

    Attributes:
        paths: The search path.
        copies: All metadata folders and files: path order, and by name inside a folder.
        entries: All entry points, those of hidden copies too, in the effective order.
        live: Those that a host gets to see.
        diagnostics: What reading them has brought to light.
    """

    def __init__(
        self,
        paths: Sequence[str],
        copies: list[Copy],
        entries: list[Entry],
        diagnostics: Sequence[_core.Diagnostic],
    ) -> None:
        """Put the rows in order and number the live entries of each group."""
        self.paths = list(paths)
        self.copies = copies
        self.entries = sorted(entries, key=lambda entry: entry.copy.entry_index)
        self.diagnostics = list(diagnostics)
        self._sizes: dict[str, int] = {}
        self._slots: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            self._slots.setdefault((entry.group, entry.name), []).append(entry)
            if entry.copy.state == "live":
                entry.order = self._sizes[entry.group] = self._sizes.get(entry.group, 0) + 1
        self.live = [entry for entry in self.entries if entry.order is not None]
        self._places: dict[tuple[str, int | None], list[_core.Diagnostic]] = {}
        for found in self.diagnostics:
            self._places.setdefault((found.path, found.line), []).append(found)

    def group_size(self, group: str) -> int:
        """How many live entry points a group has.

        Args:
            group: Its name.
        """
        return self._sizes.get(group, 0)

    def slot(self, group: str, name: str) -> list[Entry]:
        """All entry points of one group and name, those of hidden copies too.

        Args:
            group: The group.
            name: The name.
        """
        return self._slots.get((group, name), [])

    def findings_at(self, path: str, line: int | None) -> list[_core.Diagnostic]:
        """What is wrong with one line.

        Args:
            path: The file.
            line: The line; `None` for the file as a whole.
        """
        return self._places.get((path, line), [])

    def copies_of(self, name: str) -> list[Copy]:
        """All copies of one distribution, the live one first.

        Args:
            name: The project's name in any spelling.
        """
        key = key_of(name)
        found = [
            copy
            for copy in self.copies
            # Remains of an uninstall have a changed folder name; their metadata still says what they were.
            if key and (copy.key == key or (copy.state == "ignored" and key_of(copy.name) == key))
        ]
        return sorted(found, key=lambda copy: copy.state != "live")


def load(paths: Iterable[object] | None = None) -> Site:
    """Read the environment once.

    Args:
        paths: A search path; by default that of this interpreter. Elements that are not strings are reported and
            skipped, as the import system does.
    """
    everything = list(sys.path if paths is None else paths)
    strings = [path for path in everything if isinstance(path, str) and _core.names_a_file(path)]
    odd = [path for path in everything if not isinstance(path, str)]
    inventory = _core.Scanner().scan(strings)
    by_number: dict[int, Copy] = {}
    hidden: list[tuple[Copy, int]] = []
    for row in inventory.rows():
        copy = Copy(row.path, row.path_entry, row.entry_index, row.key, row.state)
        by_number[row.number] = copy
        if row.hidden_by is not None:
            hidden.append((copy, row.hidden_by))
    for copy, number in hidden:
        copy.hidden_by = by_number.get(number)
    copies = list(by_number.values())
    entries = [
        Entry(name, value, group, by_number[number], line)
        for name, value, group, number, line in inventory.entry_points(all=True)
    ]
    diagnostics = inventory.diagnostics()
    diagnostics += [make("path-entry-not-a-string", "sys.path", f"{path!r} is no string") for path in odd]
    if inventory.deferred:
        from vplug_rs.cli import archives

        diagnostics += archives.merge(inventory.deferred, copies, entries)
    return Site(strings, copies, entries, diagnostics)
