"""Findings of this process: kept as data, announced once."""

import sys

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# finding -> what its file was when it was noted: who has mended the file has mended the finding
_noted: "dict[_core.Diagnostic, Any]" = {}
_MOST = 1000  # a loop over a broken folder must not fill the memory
_announced = False


def note(code: str, path: "Any", message: str, *, line: "int | None" = None, distribution: str | None = None) -> None:
    """Keeps one finding."""
    about = None if distribution is None else _printable(distribution)
    keep([_core.Diagnostic(code, str(path), _printable(message), line=line, distribution=about)])


def keep(findings: "list[_core.Diagnostic]") -> None:
    """Keeps findings of the core."""
    for found in findings:
        if found not in _noted and len(_noted) < _MOST:
            _noted[found] = _state(found.path)


def _state(path: str) -> "Any":
    import os

    try:
        found = os.stat(path)
    except (OSError, ValueError):  # no file: a finder, the path itself
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _printable(text: str) -> str:
    # a file name that is not UTF-8 comes with surrogates
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def noted() -> "list[_core.Diagnostic]":
    """The findings that were kept, in order, without those whose file has changed since."""
    for found, state in list(_noted.items()):
        if _state(found.path) != state:
            _noted.pop(found, None)
    return list(_noted)


def forget() -> None:
    """Drops all findings that were kept."""
    _noted.clear()


def damaged_files() -> int:
    """How many entry_points.txt the findings are about."""
    return len({found.path for found in list(_noted) if found.code.startswith("entry-points-")})


def announce(count: int) -> None:
    """Warns once in a process that files are damaged."""
    global _announced  # noqa: PLW0603  # once a process is the point
    if _announced:
        return
    _announced = True
    import warnings

    files = "file is" if count == 1 else "files are"
    text = (
        f"{count} installed entry_points.txt {files} damaged; the rest was read. "
        "`vplug doctor` or vplug_rs.diagnostics() says which and what to do."
    )
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=_outside())
    except RuntimeWarning:
        # under -W error it stays data: a broken package must not take its neighbours down
        return


def _outside() -> int:
    """How many frames up the caller of this package is."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("vplug_rs") and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    return level
