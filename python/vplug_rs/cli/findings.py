"""Findings: the core's diagnostics and those of the command line's own checks, put in order and shown.

In: diagnostics. Out: the same, sorted, and their text and JSON forms. The code is the interface, the text is not.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from vplug_rs._core import Diagnostic

SEVERITIES = ("error", "warning", "note")
READ_LIMIT = 16 * 1024 * 1024  # far above any honest file; a device or a bomb ends here


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


def read_text(path: str) -> str | None:
    """The text of a small file that somebody else wrote, with undecodable bytes replaced.

    Args:
        path: The file.

    Returns:
        `None` when it is no regular file or cannot be read: whoever needs it then has nothing to check.
    """
    try:
        if not os.path.isfile(path):  # opening a FIFO would wait for ever
            return None
        with open(path, "rb") as file:
            data = file.read(READ_LIMIT)
    except OSError:
        return None
    return data.decode("utf-8-sig", "replace")
