"""Plugins that are installed but do not count, since another copy of their distribution comes first."""

from __future__ import annotations

import sys

from vplug_rs import _core
from vplug_rs.metadata._search_path import strings


def shadowed(group: str, name: str) -> str | None:
    """Which copy has a plugin of this name and which one hides it, as an addition to a sentence; None if none does."""
    found = _core.SCANNER.scan(strings(sys.path))
    points = found.entry_points(group, name, all=True)
    if not points:
        return None
    rows = {row.number: row for row in found.rows()}
    for *_, number, _ in points:
        row = rows[number]
        if row.hidden_by is not None:
            return f"{row.path} has it, but is hidden by {rows[row.hidden_by].path}, which comes first on sys.path"
    return None
