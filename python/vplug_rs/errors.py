"""The errors that this package raises for its users: what went wrong, and the next step.

They carry text and an exit status for the command line; they know nothing of the core.
"""

from __future__ import annotations


class VplugError(Exception):
    """Base of the package's own errors.

    Args:
        message: One sentence that names the thing, with backticks around names and paths.
        hint: The next step for the reader, or `None`.
    """

    exit_status = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(VplugError):
    """The command was asked for something that it cannot do."""

    exit_status = 2


class NotFoundError(VplugError):
    """What was asked for does not exist in this environment."""

    exit_status = 3
