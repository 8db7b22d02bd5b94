"""Findings: what the core's diagnostics and the command line's own checks have in common, and the table of all codes.

In: diagnostics, or the words of a check. Out: `Finding`s, in order. The code is the interface, the text is not.
"""

from __future__ import annotations

import os

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SEVERITIES = ("error", "warning", "note")
READ_LIMIT = 16 * 1024 * 1024  # far above any honest file; a device or a bomb ends here

OWN_CODES = [
    (
        "module-unchecked",
        "note",
        "Only importing could tell whether an entry point's module exists",
        "Nothing to do: an import hook, or the package itself, decides when it is imported.",
    ),
    (
        "pth-folder-missing",
        "warning",
        "A .pth file adds a folder to the path that is gone",
        "Put the folder back, or delete the line.",
    ),
]
"""Slug, severity, title and advice of what the core knows nothing about."""


class Finding:
    """One thing that is damaged, hidden, left over or worth knowing.

    Attributes:
        code: Its slug, stable between releases.
        severity: `error`, `warning` or `note`.
        path: The file or folder at fault.
        line: The line in it, or `None`.
        distribution: The distribution concerned, or `None`.
        message: What is wrong.
        advice: What to do.
    """

    __slots__ = ("advice", "code", "distribution", "line", "message", "path", "severity")

    def __init__(  # noqa: PLR0913  the fields of a record
        self,
        code: str,
        path: str,
        message: str,
        *,
        line: int | None = None,
        distribution: str | None = None,
        severity: str | None = None,
        advice: str | None = None,
    ) -> None:
        """Describe a finding; severity and advice default to those of the code."""
        default_severity, default_advice = next(
            (row[1], row[3]) for row in all_codes() if row[0] == code
        )
        self.code = code
        self.severity = severity or default_severity
        self.path = path
        self.line = line
        self.distribution = distribution
        self.message = message
        self.advice = advice or default_advice

    @classmethod
    def of(cls, diagnostic: _core.Diagnostic) -> Finding:
        """The finding that says what one of the core's diagnostics says.

        Args:
            diagnostic: The core's record.
        """
        return cls(
            diagnostic.code,
            diagnostic.path,
            diagnostic.message,
            line=diagnostic.line,
            distribution=diagnostic.distribution,
            severity=diagnostic.severity,
            advice=diagnostic.advice,
        )

    @property
    def place(self) -> str:
        """Path and line in the form that editors follow."""
        return self.path if self.line is None else f"{self.path}:{self.line}"

    def as_dict(self) -> dict[str, object]:
        """The keys under which JSON output shows it."""
        return {
            "code": self.code,
            "severity": self.severity,
            "path": self.path,
            "line": self.line,
            "distribution": self.distribution,
            "message": self.message,
            "advice": self.advice,
        }


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity, then by place; of two that say the same about one place, keep one.

    Args:
        findings: In any order.
    """
    unique = {(finding.code, finding.path, finding.line, finding.message): finding for finding in findings}
    return sorted(
        unique.values(),
        key=lambda finding: (SEVERITIES.index(finding.severity), finding.path, finding.line or 0, finding.code),
    )


def all_codes() -> list[tuple[str, str, str, str]]:
    """Slug, severity, title and advice of every code, the core's first."""
    core = _core.diagnostic_codes()
    known = {row[0] for row in core}
    return [*core, *(row for row in OWN_CODES if row[0] not in known)]


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
