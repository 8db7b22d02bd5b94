"""Reads that follow each other from one line -> one event that counts them.

A host reads the same property of each of hundreds of distributions: what matters is the sum. What is known of a run is
written now and then, each time in full, so that a process that is killed loses a few milliseconds of it at most.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Key = tuple[str, str, str | None]

_PAUSE = 0.1  # seconds; what is read after it is another run
_UNWRITTEN = 0.02  # seconds of a run that may be unwritten


class _Run:
    __slots__ = ("count", "end", "fresh", "seconds", "start", "what", "written")

    def __init__(self, start: float, what: str, fresh: int) -> None:
        self.start = self.end = start
        self.what, self.fresh = what, fresh
        self.seconds = self.written = 0.0
        self.count = 0


class Runs:
    """The runs that are under way in this process.

    Args:
        write: Takes an event, as the journal does.
    """

    def __init__(self, write: "Callable[..., None]") -> None:
        self._write = write
        self._threads: dict[int, dict[Key, _Run]] = {}

    def add(  # noqa: PLR0913, PLR0917  # an event, as it is written
        self,
        start: float,
        end: float,
        thread: int,
        what: str,
        caller: str,
        error: "str | None",
        fresh: int,
        seconds: float,
    ) -> None:
        """Add one read to its run."""
        function = what.partition("(")[0]
        key = (function, caller, error)
        runs = self._threads.setdefault(thread, {})
        run = runs.get(key)
        if run is None or start - run.end > _PAUSE:
            if run is not None:
                self._tell(thread, key, run)
            run = runs[key] = _Run(start, what, fresh)
        run.end = end
        run.seconds += seconds
        run.count += 1
        if run.what != what:
            run.what = f"{function}(…)"
        if end - run.written > _UNWRITTEN:
            self._tell(thread, key, run)

    def close(self, thread: int) -> None:
        """End the runs of a thread: what it reads from now on belongs to something else."""
        for key, run in self._threads.pop(thread, {}).items():
            self._tell(thread, key, run)

    def close_all(self) -> None:
        """End all runs."""
        for thread in list(self._threads):
            self.close(thread)

    def forget(self) -> None:
        """In a forked child: they are the parent's."""
        self._threads.clear()

    def _tell(self, thread: int, key: "Key", run: _Run) -> None:
        if run.written != run.end:
            run.written = run.end
            _, caller, error = key
            what: tuple[Any, ...] = (thread, run.what, caller, error, run.fresh, run.seconds, run.count)
            self._write("metadata", run.start, run.end, *what)
