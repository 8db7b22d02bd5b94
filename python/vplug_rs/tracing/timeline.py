"""What the processes wrote -> one timeline: processes, their events, and the share that discovery and plugins have."""

from __future__ import annotations

import ast
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

METADATA, IMPORT, CALL = "metadata", "import", "call"
_QUIET = 1.0  # seconds without an event that can end a start-up
_WAITING = 10.0  # the same before the first event: most programs have other work to do first
_IMPORTS = 50  # modules a second: a process that imports so many is not quiet, whatever it waits for


class Event:
    """One call, or reads that followed each other from one line.

    Attributes:
        kind: "metadata", "import" or "call" (of a plugin).
        start, end: Seconds since the epoch.
        thread: The thread's identifier.
        what: The function with its arguments, or the entry point.
        caller: File, line and function that asked.
        error: Name of the exception that it raised, or None.
        fresh: How many modules were imported since the event before.
        seconds: How long it took: less than from start to end, if the caller did other things in between.
        count: How many reads they are.
    """

    __slots__ = ("caller", "count", "end", "error", "fresh", "kind", "seconds", "start", "thread", "what")

    def __init__(  # noqa: PLR0913, PLR0917  # as the recorder writes them
        self,
        kind: str,
        start: float,
        end: float,
        thread: int,
        what: str,
        caller: str,
        error: str | None,
        fresh: int = 0,
        seconds: float | None = None,
        count: int = 1,
    ) -> None:
        self.kind, self.start, self.end, self.thread = kind, start, end, thread
        self.what, self.caller, self.error = what, caller, error
        self.fresh, self.count = fresh, count
        self.seconds = end - start if seconds is None else seconds

    @property
    def is_whole(self) -> bool:
        """Whether it was under way from start to end."""
        return self.seconds >= self.end - self.start

    @property
    def told(self) -> str:
        """What it is, with the number of reads."""
        return self.what if self.count == 1 else f"{self.count} x {self.what}"


class Process:
    """One Python process, or one image of it: `exec` begins another.

    Attributes:
        pid, parent: Numbers of the process and of the one that made it.
        how: "started" or "forked".
        words: The command line.
        python: The interpreter's version.
        start, end: Seconds since the epoch; the end is that of the last event if the process did not say.
        traced: Seconds since the epoch: when it began to write.
        said_end: Whether it said that it ended.
        events: In the order of their beginning.
    """

    __slots__ = ("end", "events", "how", "parent", "pid", "python", "said_end", "start", "traced", "words")

    def __init__(  # noqa: PLR0913, PLR0917  # as the recorder writes them
        self, start: float, how: str, pid: int, parent: int, words: list[str], python: str, traced: float | None = None
    ) -> None:
        self.start, self.how, self.pid, self.parent, self.words, self.python = start, how, pid, parent, words, python
        self.traced = start if traced is None else traced
        self.end, self.said_end = self.traced, False
        self.events: list[Event] = []

    @property
    def early(self) -> list[Event]:
        """The events of the start-up: those before the first quiet time."""
        return self.events[: self._first_later()]

    @property
    def later(self) -> list[Event]:
        """The events after the start-up."""
        return self.events[self._first_later() :]

    def _first_later(self) -> int:
        reached, most = self.start, _WAITING
        for number, event in enumerate(self.events):
            gap = event.start - reached
            if gap > most and event.fresh < gap * _IMPORTS:
                return number
            reached = max(reached, event.end)
            most = max(_QUIET, (reached - self.start) / 2)
        return len(self.events)

    @property
    def startup(self) -> float:
        """Seconds until the last event before the first quiet time: what discovery and plugins can have to do with."""
        return max((event.end for event in self.early), default=self.start) - self.start

    def busy(self, *kinds: str) -> float:
        """Seconds of the start-up in which at least one event of these kinds (all, if none are named) was under way."""
        return busy(event for event in self.early if not kinds or event.kind in kinds)

    @property
    def share(self) -> float:
        """The part of the start-up that went into discovery and plugins, from 0 to 1."""
        return self.busy() / self.startup if self.startup > 0 else 0.0


def busy(events: Iterable[Event]) -> float:
    """Seconds in which at least one of the events was under way.

    Reads with other work between them count with their seconds, unless they lie in an event that counts as a whole.
    """
    chosen = sorted(events, key=lambda event: (event.start, -event.end))
    total, reached, whole = 0.0, 0.0, 0.0
    for event in chosen:
        if event.is_whole:
            total += max(0.0, event.end - max(event.start, whole))
            whole = max(whole, event.end)
        elif event.end > whole:
            total += event.seconds
        reached = max(reached, event.end)
    return min(total, reached - chosen[0].start) if chosen else 0.0


def read(folder: str) -> list[Process]:
    """The processes whose files are in a folder, in the order of their start."""
    processes = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".trace"):
            with open(os.path.join(folder, name), encoding="ascii") as stream:
                process = _process(stream)
            if process is not None:
                processes.append(process)
    _tell_images_apart(processes)
    return sorted(processes, key=lambda process: process.start)


def _tell_images_apart(processes: list[Process]) -> None:
    """An `exec` keeps the number and the CPU time: where the same number comes again, the one before ended there."""
    known: dict[int, Process] = {}
    for process in sorted(processes, key=lambda process: process.traced):
        before = known.get(process.pid)
        if before is not None and not before.said_end:
            if before.how == "started":  # an interpreter needs about as long each time
                process.start = max(process.start, process.traced - (before.traced - before.start))
            process.start = max(process.start, before.end)
            before.end = process.start
        known[process.pid] = process


def _process(lines: Iterable[str]) -> Process | None:
    process = None
    events: dict[tuple[object, ...], Event] = {}
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
            process.end, process.said_end = max(process.end, rest[0]), True
        else:
            event = Event(kind, *rest)
            # a run of reads is written again when it has become longer
            key = (event.thread, event.start, event.caller, event.what.partition("(")[0], event.kind, event.error)
            events[key] = event
            process.end = max(process.end, event.end)
    if process is not None:
        process.events = list(events.values())
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
                "later_seconds": busy(process.later),
                "later_events": len(process.later),
                "events": [
                    {
                        "kind": event.kind,
                        "start": event.start - zero,
                        "end": event.end - zero,
                        "seconds": event.seconds,
                        "count": event.count,
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
