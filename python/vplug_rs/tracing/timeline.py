"""What the processes wrote -> one timeline: processes, their events, and the share that discovery and plugins have."""

from __future__ import annotations

import ast
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

METADATA, IMPORT, CALL = "metadata", "import", "call"


class Event:
    """One call.

    Attributes:
        kind: "metadata", "import" or "call" (of a plugin).
        start, end: Seconds since the epoch.
        thread: The thread's identifier.
        what: The function with its arguments, or the entry point.
        caller: File, line and function that asked.
        error: Name of the exception that it raised, or None.
    """

    __slots__ = ("caller", "end", "error", "kind", "start", "thread", "what")

    def __init__(  # noqa: PLR0913, PLR0917  # as the recorder writes them
        self, kind: str, start: float, end: float, thread: int, what: str, caller: str, error: str | None
    ) -> None:
        self.kind, self.start, self.end, self.thread = kind, start, end, thread
        self.what, self.caller, self.error = what, caller, error

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


class Process:
    """One Python process.

    Attributes:
        pid, parent: Numbers of the process and of the one that made it.
        how: "started" or "forked".
        words: The command line.
        python: The interpreter's version.
        start, end: Seconds since the epoch; the end is that of the last event if the process did not say.
        events: In the order of their beginning.
    """

    __slots__ = ("end", "events", "how", "parent", "pid", "python", "start", "words")

    def __init__(  # noqa: PLR0913, PLR0917  # as the recorder writes them
        self, start: float, how: str, pid: int, parent: int, words: list[str], python: str
    ) -> None:
        self.start, self.how, self.pid, self.parent, self.words, self.python = start, how, pid, parent, words, python
        self.end = start
        self.events: list[Event] = []

    @property
    def startup(self) -> float:
        """Seconds until the last event ended: what discovery and plugins can have to do with."""
        return max((event.end for event in self.events), default=self.start) - self.start

    def busy(self, *kinds: str) -> float:
        """Seconds in which at least one event of these kinds (all, if none are named) was under way."""
        spans = sorted((event.start, event.end) for event in self.events if not kinds or event.kind in kinds)
        total, reached = 0.0, 0.0
        for start, end in spans:
            total += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        return total

    @property
    def share(self) -> float:
        """The part of the start-up that went into discovery and plugins, from 0 to 1."""
        return self.busy() / self.startup if self.startup > 0 else 0.0


def read(folder: str) -> list[Process]:
    """The processes whose files are in a folder, in the order of their start."""
    processes = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".trace"):
            with open(os.path.join(folder, name), encoding="ascii") as stream:
                process = _process(stream)
            if process is not None:
                processes.append(process)
    return sorted(processes, key=lambda process: process.start)


def _process(lines: Iterable[str]) -> Process | None:
    process = None
    for line in lines:
        try:
            kind, *rest = ast.literal_eval(line)
        except (SyntaxError, ValueError):  # cut off when the process was killed
            continue
        if kind == "process":
            process = Process(*rest)
        elif process is None:
            continue
        elif kind == "end":
            process.end = max(process.end, rest[0])
        else:
            event = Event(kind, *rest)
            process.events.append(event)
            process.end = max(process.end, event.end)
    if process is not None:
        process.events.sort(key=lambda event: (event.start, -event.end))
    return process


def as_dict(processes: list[Process], status: int, seconds: float) -> dict[str, Any]:
    """The timeline as JSON has it; times are in seconds from the start of the first process."""
    zero = processes[0].start if processes else 0.0
    return {
        "status": status,
        "seconds": seconds,
        "processes": [
            {
                "pid": process.pid,
                "parent": process.parent,
                "how": process.how,
                "command": process.words,
                "python": process.python,
                "start": process.start - zero,
                "end": process.end - zero,
                "startup_seconds": process.startup,
                "metadata_seconds": process.busy(METADATA),
                "plugin_seconds": process.busy(IMPORT, CALL),
                "share": process.share,
                "events": [
                    {
                        "kind": event.kind,
                        "start": event.start - zero,
                        "end": event.end - zero,
                        "thread": event.thread,
                        "what": event.what,
                        "caller": event.caller,
                        "error": event.error,
                    }
                    for event in process.events
                ],
            }
            for process in processes
        ],
    }
