"""A search path as the core takes it: strings that name files; what else stands in it is reported."""

import os

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def strings(path: "Iterable[Any]") -> "list[str]":
    """The entries of a path that are strings or paths; others are reported."""
    out = []
    for entry in path:
        text = entry
        if not isinstance(entry, str):
            try:
                text = os.fspath(entry)
            except TypeError:
                text = None
        if isinstance(text, str) and _core.names_a_file(text):
            out.append(text)
        else:
            from vplug_rs.metadata import _report

            _report.note("path-entry-not-a-string", "sys.path", f"{entry!r} is no string that names a file")
    return out
