"""What `sys.path` and `sys.meta_path` ask for: one scan by the core, or help from the interpreter's machinery."""

import builtins
import os
import sys

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SCANNER = _core.Scanner()

_PATH_FINDER: "Any" = next(
    (finder for finder in sys.meta_path if getattr(finder, "__name__", "") == "PathFinder"), None
)
_FIND = getattr(_PATH_FINDER, "find_distributions", None)
# who replaces these wants to be asked (pyfakefs, mocks): then the core must not look at the disk
_LISTDIR, _STAT, _OPEN = os.listdir, os.stat, builtins.open


def is_real() -> bool:
    """Whether the file system is the one that the core sees."""
    return os.listdir is _LISTDIR and os.stat is _STAT and builtins.open is _OPEN


def is_path_finder(finder: "Any") -> bool:
    """Whether a finder looks at the path as the standard does, so that the core can stand in for it."""
    if finder is _PATH_FINDER:
        return finder.__dict__.get("find_distributions") is not None and finder.find_distributions == _FIND
    kind = type(finder)
    return kind.__name__ == "MetadataPathFinder" and kind.__module__ == "importlib_metadata"


def is_plain() -> bool:
    """Whether the path is all there is to ask: one finder for it, no other, and the real file system."""
    found = False
    for finder in sys.meta_path:
        if getattr(finder, "find_distributions", None) is not None:
            if found or not is_path_finder(finder):
                return False
            found = True
    return found and is_real()


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
        if isinstance(text, str) and _encodable(text):
            out.append(text)
        else:
            from vplug_rs.metadata import _report

            _report.note("path-entry-not-a-string", "sys.path", f"{entry!r} is no string that names a file")
    return out


def _encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeError:
        return False
    return True


def scan(path: "list[str]") -> "_core.Inventory":
    """One pass over a path; entries that are no strings are passed over."""
    try:
        return SCANNER.scan(path)
    except (TypeError, UnicodeError):
        return SCANNER.scan(strings(path))
