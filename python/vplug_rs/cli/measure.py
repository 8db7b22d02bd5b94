"""Child processes that discover, and what they cost: wall time by their own clock and ours, system calls by strace.

In: which side to ask, a group, a number of rounds. Out: plain figures. It prints nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from vplug_rs.errors import VplugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

LATER_CALLS = 20
ROWS = ("import", "first call", "later call", "whole process")

# Each child gets the parent's path, so that all of them look at the same environment whatever started the parent.
PRELUDE = "import sys; sys.path[:] = {paths!r}\n"
IMPORT = {"importlib.metadata": "import importlib.metadata as module\n", "vplug_rs": "import vplug_rs as module\n"}
CALL = "module.entry_points({arguments})\n"
TIMED = """\
from time import perf_counter_ns as clock
start = clock()
{load}imported = clock()
{call}first = clock()
later = []
for _ in range({later}):
    begin = clock()
    {call}    later.append(clock() - begin)
print(imported - start, first - imported, sorted(later)[len(later) // 2])
"""
ANSWER = """\
{load}found = module.entry_points({arguments})
if isinstance(found, dict):
    found = [entry for group in found.values() for entry in group]
import hashlib
rows = sorted(repr((entry.group, entry.name, entry.value)) for entry in found)
print(len(rows), hashlib.sha256("\\n".join(rows).encode("utf-8", "surrogatepass")).hexdigest())
"""


class Answer:
    """What one side answers.

    Attributes:
        count: Number of entry points, or `None` after an error.
        digest: Equal for equal answers, whatever their order.
        error: The last line of the traceback, if it raised.
    """

    def __init__(self, count: int | None, digest: str | None, error: str | None) -> None:
        """Keep an answer or an error."""
        self.count = count
        self.digest = digest
        self.error = error


class Result:
    """The median and the minimum of some times, in nanoseconds.

    Attributes:
        median: The middle one.
        minimum: The smallest.
    """

    def __init__(self, times: Sequence[int], *, less: Sequence[int] = ()) -> None:
        """Summarise.

        Args:
            times: What was measured.
            less: What to take off: the same measure of a process that does nothing.
        """
        self.median = int(statistics.median(times)) - (int(statistics.median(less)) if less else 0)
        self.minimum = min(times) - (min(less) if less else 0)


class Children:
    """Processes of this interpreter that all find byte code, even where none may be written.

    Used as a context: the folder with the byte code is there as long as that.
    """

    def __init__(self) -> None:
        """Prepare; nothing is started yet."""
        self._environment = dict(os.environ)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="vplug-bench-", ignore_cleanup_errors=True)
        except OSError:  # nowhere to write: the byte code that is there must do
            return self
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._environment["PYTHONPYCACHEPREFIX"] = self._folder.name
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def answer(self, side: str, group: str | None) -> Answer:
        """Ask one side, in a process of its own.

        Args:
            side: A key of `IMPORT`.
            group: The group to ask for, or `None` for all.
        """
        code = ANSWER.format(load=IMPORT[side], arguments=_arguments(group))
        done = self._child(code)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            return Answer(None, None, lines[-1] if lines else f"exit status {done.returncode}")
        number, digest = done.stdout.split()
        return Answer(int(number), digest, None)

    def timings(self, sides: Sequence[str], group: str | None, rounds: int) -> dict[str, dict[str, Result]]:
        """Measure all sides in turns, so that a busy moment of the machine hits none of them alone.

        Args:
            sides: Keys of `IMPORT`.
            group: The group to ask for, or `None` for all.
            rounds: Processes of each kind.

        Returns:
            Row -> side -> result. A side that raises is left out.
        """
        call = CALL.format(arguments=_arguments(group))
        timed = {side: TIMED.format(load=IMPORT[side], call=call, later=LATER_CALLS) for side in sides}
        able = [side for side in sides if self._child(timed[side]).returncode == 0]  # also warms the caches of the disk
        own: dict[str, list[list[int]]] = {side: [] for side in able}
        whole: dict[str, list[int]] = {side: [] for side in able}
        empty: list[int] = []
        for _ in range(rounds):
            empty.append(self._wall(""))
            for side in able:
                own[side].append([int(word) for word in self._checked(timed[side]).split()])
                whole[side].append(self._wall(IMPORT[side] + call))
        results: dict[str, dict[str, Result]] = {row: {} for row in ROWS}
        for side in able:
            for row, times in zip(ROWS, zip(*own[side], strict=True), strict=False):
                results[row][side] = Result(times)
            results["whole process"][side] = Result(whole[side], less=empty)
        return results

    def system_calls(self, sides: Sequence[str], group: str | None) -> tuple[dict[str, dict[str, int]], str | None]:
        """Count system calls, as the difference between a process that makes the call and one that does not.

        Args:
            sides: Keys of `IMPORT`.
            group: The group to ask for, or `None` for all.

        Returns:
            Row -> side -> number, and the reason if they could not be counted.
        """
        from shutil import which

        strace = which("strace")
        if strace is None:
            return {}, "strace not found"
        call = CALL.format(arguments=_arguments(group))
        # The import belongs to the first call: either side puts off a part of its imports until then.
        counts: dict[str, dict[str, int]] = {"system calls, import and first call": {}, "system calls, later call": {}}
        empty = self._traced(strace, "")
        if empty is None:
            return {}, "strace cannot trace a process here"
        for side in sides:
            traced = [empty, *(self._traced(strace, IMPORT[side] + call * times) for times in (1, 2))]
            for row, before, after in zip(counts, traced, traced[1:], strict=False):
                if before is not None and after is not None:
                    counts[row][side] = after - before
        return counts, None

    def _command(self, code: str) -> list[str]:
        everything: list[object] = list(sys.path)
        paths = [path for path in everything if isinstance(path, str)]
        # -P: the path is set anyway, and CPython 3.13.0 loads no PyO3 module from a deleted folder without it.
        return [sys.executable, "-P", "-c", PRELUDE.format(paths=paths) + code]

    def _child(self, code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  our own code
            self._command(code), env=self._environment, capture_output=True, text=True, errors="replace", check=False
        )

    def _checked(self, code: str) -> str:
        done = self._child(code)
        if done.returncode:
            raise VplugError(f"a child process failed: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout

    def _wall(self, code: str) -> int:
        command, environment = self._command(code), self._environment
        start = time.perf_counter_ns()
        quiet = subprocess.DEVNULL  # an interrupted child would show its own traceback
        status = subprocess.run(  # noqa: S603  our own code
            command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, check=False
        )
        elapsed = time.perf_counter_ns() - start
        if status.returncode:
            raise VplugError(f"a child process failed with status {status.returncode}")
        return elapsed

    def _traced(self, strace: str, code: str) -> int | None:
        """The number of system calls of a whole process and its threads, or `None` when it cannot be traced."""
        with tempfile.TemporaryDirectory(prefix="vplug-bench-") as folder:
            log = os.path.join(folder, "trace")
            done = subprocess.run(  # noqa: S603  our own code
                [strace, "-f", "-qq", "-o", log, *self._command(code)],
                env=self._environment,
                capture_output=True,
                check=False,
            )
            if done.returncode or not os.path.exists(log):
                return None
            with open(log, "rb") as file:
                return sum(b"(" in line and b" resumed>" not in line and b"+++" not in line for line in file)


def _arguments(group: str | None) -> str:
    return "" if group is None else f"group={group!r}"
