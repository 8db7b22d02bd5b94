"""What is known about one name: the facts behind `vplug why`, before they are put into words.

In: the site and a name. Out: an `Answer` with one case per entry point, distribution or damaged line.
"""

from __future__ import annotations

import os

from vplug_rs import _core
from vplug_rs.cli import findings, headers, listing
from vplug_rs.cli.locate import Found, Locator, module_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from vplug_rs.cli.inventory import Copy, Entry, Site

LIVE = "live"
HIDDEN = "hidden"
DAMAGED = "damaged"
MISSING_MODULE = "missing-module"
AMBIGUOUS = "ambiguous"
ABSENT = "absent"


class Peers:
    """What else stands under the same group and name. One answer serves all entries of one copy."""

    def __init__(self, site: Site) -> None:
        """Know nothing yet."""
        self._site = site
        self._known: dict[tuple[str, str, int], tuple[list[Entry], list[Entry]]] = {}

    def of(self, entry: Entry) -> tuple[list[Entry], list[Entry]]:
        """Twins and rivals of an entry point, as `EntryCase` explains them.

        Args:
            entry: The entry point.
        """
        key, copy = (entry.group, entry.name, id(entry.copy)), entry.copy
        if key not in self._known:
            same = self._site.slot(entry.group, entry.name)
            twins = [other for other in same if other.copy.key == copy.key and other.copy is not copy]
            rivals = [other for other in same if other.order is not None and other.copy.key != copy.key]
            self._known[key] = twins, rivals
        return self._known[key]


class EntryCase:
    """One entry point: its state, and everything that touches it.

    Attributes:
        entry: The entry point.
        status: `live`, `hidden`, `damaged`, `missing-module` or `ambiguous`.
        module: Where its module is; `None` when the value is no reference.
        place: Its order and the size of its group; `None` when it is hidden.
        twins: The same entry point in other copies of the same distribution.
        rivals: Live entry points of other distributions with the same group and name.
        findings: What is wrong with its line.
    """

    def __init__(self, site: Site, entry: Entry, peers: Peers, locator: Locator) -> None:
        """Gather the facts about one entry point."""
        self.entry = entry
        self.twins, self.rivals = peers.of(entry)
        self.place = None if entry.order is None else (entry.order, site.group_size(entry.group))
        name = module_of(entry.value)
        self.module: Found | None = None if name is None else locator.find(name)
        self.findings = site.findings_at(entry.file, entry.line)
        self.status = self._judge()

    def _judge(self) -> str:
        if self.entry.order is None:
            return HIDDEN
        if self.module is None or any(finding.severity == "error" for finding in self.findings):
            return DAMAGED
        if self.module.state == "missing":
            return MISSING_MODULE
        return AMBIGUOUS if self.rivals else LIVE

    def as_dict(self) -> dict[str, object]:
        """The keys under which JSON output shows it."""
        found = self.module
        module = None
        if found is not None:
            name = module_of(self.entry.value)
            module = {"name": name, "state": found.state, "path": found.path, "detail": found.detail or None}
        return {
            **listing.as_dict(self.entry),
            "status": self.status,
            "module": module,
            "hidden_by": copy_dict(self.entry.copy.hidden_by),
            "twins": [listing.as_dict(twin) for twin in self.twins],
            "rivals": [listing.as_dict(rival) for rival in self.rivals],
            "findings": [findings.as_dict(finding) for finding in self.findings],
        }


class DistributionCase:
    """One distribution: its copies, what it offers, what is wrong with it.

    Attributes:
        copy: The live copy, else the first one.
        status: `live`, `hidden` or `damaged`.
        others: Its other copies.
        entries: The entry points of `copy`.
        findings: What is wrong inside any of its copies.
    """

    def __init__(self, site: Site, copies: list[Copy]) -> None:
        """Gather the facts about one distribution."""
        self.copy, *self.others = copies
        self.entries = [entry for entry in site.entries if entry.copy is self.copy]
        known = [*site.diagnostics, *headers.check(copies)]
        self.findings = [found for found in known if any(_inside(found.path, copy.path) for copy in copies)]
        self.status = self._judge()

    def _judge(self) -> str:
        if self.copy.state != "live":
            return DAMAGED if self.copy.hidden_by is None else HIDDEN
        broken = any(found.severity != "note" and _inside(found.path, self.copy.path) for found in self.findings)
        return DAMAGED if broken else LIVE

    def as_dict(self) -> dict[str, object]:
        """The keys under which JSON output shows it."""
        return {
            "distribution": self.copy.name,
            "version": self.copy.version,
            "path": self.copy.path,
            "path_entry": self.copy.path_entry,
            "state": self.copy.state,
            "status": self.status,
            "others": [copy_dict(copy) for copy in self.others],
            "entry_points": [listing.as_dict(entry) for entry in self.entries],
            "findings": [findings.as_dict(finding) for finding in self.findings],
        }


class Answer:
    """All that is known about a name.

    Attributes:
        name: What was asked for.
        group: The group that was asked for, or `None`.
        status: `live`, the first thing that is wrong, or `absent`.
        entries: One case per entry point.
        distributions: One case for the distribution, where no entry point or damaged line speaks for it.
        damaged: Damaged lines or files that would have declared the name.
        suggestions: Names that may have been meant, with what they are.
        searched: Number of live entry points, and of live distributions.
    """

    def __init__(self, site: Site, name: str, group: str | None) -> None:
        """Ask the site about a name."""
        self.name = name
        self.group = group
        locator = Locator(site.paths)
        peers = Peers(site)
        self.entries = [EntryCase(site, entry, peers, locator) for entry in _subjects(site, name, group)]
        self.damaged = [] if self.entries else list(_damaged(site, name, group))
        self.distributions: list[DistributionCase] = []
        copies = site.copies_of(name) if group is None else []
        spoken_for = {case.entry.copy.key for case in self.entries}
        spoken_for |= {copy.key for copy in copies for found in self.damaged if _inside(found.path, copy.path)}
        if copies and copies[0].key not in spoken_for:
            self.distributions.append(DistributionCase(site, copies))
        states = [case.status for case in self.entries] + [case.status for case in self.distributions]
        states += [DAMAGED] * len(self.damaged)
        self.status = next((state for state in states if state != LIVE), LIVE) if states else ABSENT
        self.suggestions = [] if states else _suggestions(site, name, group)
        self.searched = (len(site.live), len({copy.key for copy in site.copies if copy.state == "live"}))

    def as_dict(self) -> dict[str, object]:
        """The keys under which JSON output shows it."""
        return {
            "name": self.name,
            "group": self.group,
            "status": self.status,
            "entry_points": [case.as_dict() for case in self.entries],
            "distributions": [case.as_dict() for case in self.distributions],
            "damaged": [findings.as_dict(finding) for finding in self.damaged],
            "suggestions": [{"name": name, "is": what} for name, what in self.suggestions],
        }


def copy_dict(copy: Copy | None) -> dict[str, object] | None:
    """The keys under which JSON output shows a copy.

    Args:
        copy: A copy, or `None` where there is none.
    """
    if copy is None:
        return None
    return {
        "distribution": copy.name,
        "version": copy.version,
        "path": copy.path,
        "path_entry": copy.path_entry,
        "state": copy.state,
    }


def _subjects(site: Site, name: str, group: str | None) -> Iterator[Entry]:
    """The entry points to speak of: of several copies of one distribution the live one, else the first."""
    matches = [entry for entry in site.entries if entry.name == name and group in (None, entry.group)]
    done: set[tuple[str, str]] = set()
    for entry in sorted(matches, key=lambda entry: entry.order is None):
        slot = (entry.group, entry.copy.key)
        if entry.order is not None or slot not in done:
            yield entry
        done.add(slot)


def _damaged(site: Site, name: str, group: str | None) -> Iterator[_core.Diagnostic]:
    """Findings on a line that starts with the name, or on a file that as a whole was given up and declares it."""
    by_file: dict[str, list[_core.Diagnostic]] = {}
    for diagnostic in site.diagnostics:
        if os.path.basename(diagnostic.path) == "entry_points.txt" and diagnostic.severity != "note":
            by_file.setdefault(diagnostic.path, []).append(diagnostic)
    for path, found in by_file.items():
        text = findings.read_text(path) or ""
        lines = text.splitlines()
        declared = any(row[0] == name and group in (None, row[2]) for row in _core.parse_entry_points(text)[0])
        for diagnostic in found:
            number = diagnostic.line
            line = lines[number - 1] if number is not None and number <= len(lines) else ""
            if declared or line.replace("=", " ").replace(":", " ").split()[:1] == [name]:
                yield diagnostic


def _suggestions(site: Site, name: str, group: str | None) -> list[tuple[str, str]]:
    """What may have been meant: the name in another group, a group of that name, names that look alike."""
    known: dict[str, str] = {copy.name: "a distribution" for copy in site.copies if copy.state == "live"}
    for entry in site.live:
        known[entry.name] = f"an entry point of group `{entry.group}`"
    if group is not None:
        elsewhere = [entry for entry in site.entries if entry.name == name]
        if elsewhere:
            return [(name, f"an entry point of group `{entry.group}`") for entry in elsewhere]
    if any(entry.group == name for entry in site.entries):
        return [(name, "a group")]
    from difflib import get_close_matches

    by_case = {other.lower(): other for other in known}
    return [(by_case[near], known[by_case[near]]) for near in get_close_matches(name.lower(), by_case, 2, 0.7)]


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)
