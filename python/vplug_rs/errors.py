"""The errors that this package raises for its users: what went wrong, and the next step.

They carry text and an exit status for the command line; they know nothing of the core.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


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

    def __reduce__(self) -> tuple[Any, ...]:
        # constructors differ; worker pools send errors home
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[VplugError], args: tuple[Any, ...], state: dict[str, Any]) -> VplugError:
    made = kind.__new__(kind, *args)
    made.args = args
    made.__dict__.update(state)
    return made


class UsageError(VplugError):
    """The command was asked for something that it cannot do."""

    exit_status = 2


class NotFoundError(VplugError):
    """What was asked for does not exist in this environment."""

    exit_status = 3


class PolicyError(VplugError):
    """A policy cannot be read, or what is installed breaks it. Nothing has been loaded.

    Args:
        message: What is wrong.
        path: The policy's file, or `None`.
        line: The line in it, from 1, or `None`.
        hint: The next step.
    """

    exit_status = 2

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        where = f"{path}:{line}: " if path and line else f"{path}: " if path else ""
        super().__init__(where + message, hint=hint)
        self.path = path
        self.line = line


class PluginNotFoundError(NotFoundError, KeyError):
    """No installed distribution offers a plugin of this name in this group."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it quoted


class PluginRefusedError(VplugError):
    """A policy keeps the plugin out; it was not imported. `verdict` is the rule that decided."""

    exit_status = 1

    def __init__(self, message: str, *, verdict: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict


class PluginLoadError(VplugError):
    """One plugin, or several, could not be loaded. `failures` are their records, in loading order."""

    exit_status = 1

    def __init__(self, message: str, failures: Sequence[Any], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.failures = tuple(failures)


class PluginKindError(VplugError, TypeError):
    """What a plugin names, or what calling it gave, is not what its group wants.

    Args:
        message: All of it, with the plugin's distribution and version.
        reason: The fault alone, for a record that names the plugin itself.
        plugin: The plugin's name.
        distribution: Whose it is, or `None`.
        version: Of the distribution, or `None`.
        hint: The fix.
    """

    exit_status = 1

    def __init__(  # noqa: PLR0913  # keywords of a record
        self,
        message: str,
        *,
        reason: str,
        plugin: str,
        distribution: str | None,
        version: str | None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.plugin = plugin
        self.distribution = distribution
        self.version = version


class LoadCycleError(VplugError):
    """Threads wait for each other's plugins in a circle. `chain` has each thread with what it waits for."""

    def __init__(self, message: str, chain: Sequence[tuple[int, Any]], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.chain = tuple(chain)


class LoadTimeoutError(VplugError, TimeoutError):
    """Another thread has been loading a plugin for too long. `thread` is that thread's identifier, or None."""

    def __init__(self, message: str, thread: int | None, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.thread = thread


class PluginWarning(RuntimeWarning):
    """A plugin, or a policy, that its owner should look at; the host goes on."""
