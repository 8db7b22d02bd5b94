"""Findings: the core's diagnostics and those of the command line's own checks, put in order and shown.

In: diagnostics. Out: the same, sorted, and their text and JSON forms. The code is the interface, the text is not.
"""

from __future__ import annotations

import os
import stat

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from vplug_rs._core import Diagnostic
    from vplug_rs.cli.inventory import Copy

SEVERITIES = ("error", "warning", "note")
READ_LIMIT = 16 * 1024 * 1024  # far above any honest file; a bomb ends here


class Unread:
    """Why a file gave nothing.

    Attributes:
        fault: `missing`, `not-a-file`, `too-large` or `unreadable`.
        reason: The same in words.
    """

    __slots__ = ("fault", "reason")

    def __init__(self, fault: str, reason: str) -> None:
        """Fix the reason."""
        self.fault = fault
        self.reason = reason


def make(code: str, path: str, message: str, *, line: int | None = None, copy: Copy | None = None) -> _core.Diagnostic:
    """A finding of the command line's own, in the form of the core's.

    Args:
        code: One of `_core.diagnostic_codes()`.
        path: The file or folder at fault.
        message: What is wrong; it may quote names that are not UTF-8.
        line: The line in the file.
        copy: Whose file it is.
    """
    return _core.Diagnostic(
        code, path, printable(message), line=line, distribution=None if copy is None else copy.title
    )


def printable(text: str) -> str:
    """A text without the lone surrogates that stand for bytes of a file name which are not UTF-8.

    Args:
        text: What may hold them.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def key_of(name: str) -> str:
    """The form in which all spellings of a project's name are the same; empty for what can be no name.

    Args:
        name: Any spelling, perhaps cut from the name of a folder that is not UTF-8.
    """
    try:
        return _core.normalize(name)
    except UnicodeEncodeError:
        pass
    try:
        return _core.normalize(os.fsencode(name).decode("utf-8", "replace"))  # as the core reads such a folder
    except UnicodeEncodeError:
        return ""


def place(finding: Diagnostic) -> str:
    """Path and line of a finding, in the form that editors follow.

    Args:
        finding: What was found.
    """
    return finding.path if finding.line is None else f"{finding.path}:{finding.line}"


def as_dict(finding: Diagnostic) -> dict[str, object]:
    """The keys under which JSON output shows a finding.

    Args:
        finding: What was found.
    """
    return {
        "code": finding.code,
        "severity": finding.severity,
        "path": finding.path,
        "line": finding.line,
        "distribution": finding.distribution,
        "message": finding.message,
        "advice": finding.advice,
    }


def in_order(findings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort by severity, then by place; of two that say the same about one place, keep one.

    Args:
        findings: In any order.
    """
    unique = {(finding.code, finding.path, finding.line, finding.message): finding for finding in findings}
    return sorted(
        unique.values(),
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.path, finding.line or 0, finding.code),
    )


def read_bytes(path: str, most: int = READ_LIMIT) -> bytes | Unread:
    """The content of a file that somebody else wrote. Every command reads such files through this.

    Args:
        path: The file.
        most: A larger file is not read.
    """
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):  # opening a FIFO would wait for ever, and a device may never end
            return Unread("not-a-file", "it is not a regular file")
        if found.st_size > most:
            return Unread("too-large", f"it has {found.st_size} bytes; at most {most} are read")
        with open(path, "rb") as file:
            return file.read(most)  # files of /proc say that they are empty
    except (FileNotFoundError, NotADirectoryError):
        return Unread("missing", "there is no such file")
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        reason = error.strerror if isinstance(error, OSError) else None
        return Unread("unreadable", f"it cannot be read: {reason or error}")


def read_text(path: str) -> str | None:
    """The text of a small file that somebody else wrote, with undecodable bytes replaced.

    Args:
        path: The file.

    Returns:
        `None` when it cannot be read: whoever needs it then has nothing to check.
    """
    data = read_bytes(path)
    return None if isinstance(data, Unread) else data.decode("utf-8-sig", "replace")
