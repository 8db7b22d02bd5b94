"""Runs programs beside this one, all at the same time and under one deadline, and never waits for one that cannot die.

In: `Job`. Out: `End`, which tells how it went and what was said, one JSON object a line on stdout. It knows nothing of
accelerators. Import it where there is something to run: it loads `subprocess`.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time

from vplug_rs.platforms.model import _Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

EXITED, SIGNAL, TIMEOUT, GARBAGE, FLOOD = "exited", "signal", "timeout", "garbage", "flood"
NOT_STARTED, FROZEN = "not started", "frozen"
"""How it went. `garbage`: it came to its own end, and what it wrote is no JSON object a line. `frozen`: it was not
started, for this program is frozen (PyInstaller and the like): its `sys.executable` is the program and no interpreter.
"""

START = 0.1
"""Seconds below which a program that says nothing has most likely not begun: an interpreter alone takes 0.03."""

MOST = 1_000_000
"""Bytes of stdout after which a program is stopped."""

TAIL = 4096
"""Bytes of stderr that are kept, the last ones."""

PATIENCE = 0.3
"""Seconds that a killed program has to die. One that is stuck in the kernel does not, and is left behind."""

GRACE = 0.1
"""Seconds that are waited for the rest of the output when a program has ended and something else holds its pipes."""

_SLICE = 0.05
_SOON = 0.001
_NEVER = "never"
_PIECE = 65536

_left_behind: dict[int, None] = {}


class Job(_Record):
    """A program to be run.

    Attributes:
        name: What it is called in sentences.
        words: Its file and its arguments.
        environment: All variables that it gets, or None for this process's.
    """

    __slots__ = ("name", "words", "environment")  # noqa: RUF023

    def __init__(self, name: str, words: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.name, self.words, self.environment = name, list(words), environment


class End(_Record):
    """What became of a job.

    Attributes:
        events: The JSON objects that it wrote, one for each complete line that holds one.
        how: `EXITED`, `SIGNAL`, `TIMEOUT`, `GARBAGE`, `FLOOD`, `NOT_STARTED` or `FROZEN`.
        code: The exit status, or the signal's number. None where it is not known: another part of this process has
            asked for it first, or SIGCHLD is ignored here.
        seconds: From its start to its end.
        stderr: The last 4 KB.
        abandoned: Whether it could not be killed in time and is left behind; `reap` takes leave of it later.
        detail: One sentence for people.
    """

    __slots__ = ("events", "how", "code", "seconds", "stderr", "abandoned", "detail")  # noqa: RUF023

    def __init__(self, events: Sequence[dict[str, Any]], how: str, **fields: Any) -> None:
        self.events, self.how = list(events), how
        self.code: int | None = fields.pop("code", None)
        self.seconds: float = fields.pop("seconds", 0.0)
        self.stderr: str = fields.pop("stderr", "")
        self.abandoned: bool = fields.pop("abandoned", False)
        self.detail: str = fields.pop("detail", "")
        if fields:
            raise TypeError(f"an end has no {', '.join(fields)}")


def interpreter() -> str:
    """The program that a job of this package starts; empty where there is none (`FROZEN`, or nobody knows it)."""
    return "" if is_frozen() else sys.executable or ""


def is_frozen() -> bool:
    """Whether this program is frozen."""
    return bool(getattr(sys, "frozen", False))


def run(jobs: Sequence[Job], seconds: float) -> list[End]:
    """Run all jobs at the same time and give their ends in the same order.

    Never raises for what a program does. An exception that comes from outside, as KeyboardInterrupt, kills them all.

    Args:
        jobs: What to run. Each gets a session of its own, no stdin, and no descriptor of ours.
        seconds: When what still runs is killed, with its descendants. The call returns within a second after that.
    """
    reap()
    deadline = time.monotonic() + seconds
    children = [_Child(job) for job in jobs]
    starting = threading.RLock()  # an interrupt may come when it is taken and before that is known: then once more
    try:
        _start(children, starting)
        _attend(children, deadline)
    except BaseException:
        _stop_starting(starting)
        for child in children:
            child.kill("interrupted")
        _attend(children, deadline)
        raise
    finally:
        for child in children:
            child.let_go()
    return [child.end(seconds) for child in children]


def reap() -> list[int]:
    """Take leave of those that were left behind and have ended since; give the process ids of those still there."""
    for pid in list(_left_behind):
        try:
            gone = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # somebody else has taken leave of it, or we are a fork of its parent
            gone = True
        if gone:
            _left_behind.pop(pid, None)
    return list(_left_behind)


def _start(children: Sequence[_Child], starting: threading.RLock) -> None:
    """Start all, in a thread of their own.

    Between the start of a process and the moment at which its number is known to us, an interrupt would lose it, and
    only the main thread is interrupted. Who takes the lock first decides whether they are started (`_stop_starting`).
    """
    refused: list[BaseException] = []

    def start() -> None:
        if starting.acquire(blocking=False):
            try:
                for child in children:
                    child.start()
            except BaseException as error:  # noqa: BLE001  # it belongs to the caller
                refused.append(error)
            finally:
                starting.release()

    thread = threading.Thread(target=start, name="vplug_rs starts processes", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads: then without that protection
        start()
    else:
        thread.join()
        _see_off(thread)
    if refused:
        raise refused[0]


def _see_off(thread: threading.Thread) -> None:
    """Wait until the system has let a joined thread go: before 3.13 `join` returns a moment earlier, and it is seen."""
    until = time.monotonic() + _SLICE
    while os.path.exists(f"/proc/self/task/{thread.native_id}") and time.monotonic() < until:
        time.sleep(_SOON / 10)


def _stop_starting(starting: threading.RLock) -> None:
    """Wait until those that are being started are, and let none be started from now on."""
    held = False
    while not held:
        try:
            held = starting.acquire()
        except KeyboardInterrupt:  # the first one is on its way already
            continue


def _attend(children: Sequence[_Child], deadline: float) -> None:
    """Read and wait until each child has ended or is given up."""
    pause = _SOON
    with selectors.PollSelector() as selector:
        for child in children:
            for stream in child.streams:
                selector.register(stream, selectors.EVENT_READ, child)
        while waiting := [child for child in children if not child.done]:
            now = time.monotonic()
            nearest = min(child.next_step(now, deadline) for child in waiting)
            # an end without a sign: its pipes are closed or held by others, so it has to be looked for
            pause = min(pause * 2, _SLICE) if any(child.is_silent for child in waiting) else _SLICE
            ready = selector.select(max(0.0, min(pause, nearest - now)))
            for key, _ in ready:
                key.data.read(key.fileobj)
            if ready:
                pause = _SOON
            for child in waiting:
                child.look(deadline)
            for key in list(selector.get_map().values()):
                if key.fileobj not in key.data.streams:
                    selector.unregister(key.fileobj)


class _Process(subprocess.Popen[bytes]):
    """Does not complain when it is dropped: whether it has ended is our business."""

    def __del__(self, *_: object) -> None:
        """Nothing: see the class."""


class _Child:
    """A job while it runs."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.process: Any = None
        self.streams: list[Any] = []
        self.out, self.err = bytearray(), bytearray()
        self.began = self.ended = time.monotonic()
        self.refusal: str | None = None
        self.stopped: str | None = None
        self.killed: float | None = None
        self.died: float | None = None
        self.code: int | None = None
        self.by_signal = False
        self.abandoned = False
        self.gone = False

    def start(self) -> None:
        words = self.job.words
        if not words or not words[0]:
            what = "this program is frozen, and `sys.executable` is the program and no interpreter"
            self.refusal = what if is_frozen() else "there is no program to start (`sys.executable` is empty)"
            self.stopped = FROZEN if is_frozen() else None
            return
        self.began = self.ended = time.monotonic()
        # known to us before it is started: an exception in between must not lose it
        self.process = process = _Process.__new__(_Process)
        try:
            process.__init__(  # type: ignore[misc]  # of this very class
                words,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.job.environment,
                start_new_session=True,  # a kill reaches its descendants, and no terminal can stop it
            )
        except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
            self.process = None
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.refusal = f"`{words[0]}` cannot be started: {reason}"
            return
        self.streams = [process.stdout, process.stderr]
        for stream in self.streams:
            os.set_blocking(stream.fileno(), False)

    @property
    def pid(self) -> int | None:
        """The process id, once there is a process."""
        return getattr(self.process, "pid", None)

    @property
    def done(self) -> bool:
        """Whether nothing more is to be expected of it."""
        return self.pid is None or self.abandoned or (self.died is not None and not self.streams)

    @property
    def is_silent(self) -> bool:
        """Whether no event of a pipe will tell of its end."""
        return not self.streams or self.killed is not None or self.died is not None

    def next_step(self, now: float, deadline: float) -> float:
        """When something has to be done about it, come what may."""
        if self.died is not None:
            return self.died + GRACE
        return (self.killed + PATIENCE) if self.killed is not None else max(now, deadline)

    def read(self, stream: Any) -> None:
        """Take one piece of what it says, and no more, so that nobody can keep us from the deadline."""
        if stream not in self.streams:
            return
        try:
            piece = os.read(stream.fileno(), _PIECE)
        except BlockingIOError:
            return
        except OSError:  # a pipe that cannot be read has nothing more to say
            piece = b""
        if not piece:
            self._close(stream)
        elif stream is self.process.stderr:
            self.err = (self.err + piece)[-TAIL:]
        elif len(self.out) + len(piece) > MOST:
            self.kill(FLOOD)
            self._close(stream)
        else:
            self.out += piece

    def look(self, deadline: float) -> None:
        """Whether it has ended, whether it must."""
        if self.done:
            return
        now = time.monotonic()
        if self.died is None:
            self._look_for_end(now)
        if self.died is not None:
            if now >= self.died + GRACE:  # something else holds its pipes
                for stream in list(self.streams):
                    self._close(stream)
        elif self.killed is None and now >= deadline:
            self.kill(TIMEOUT)
        elif self.killed is not None and now >= self.killed + PATIENCE:
            self.abandoned, self.ended = True, now

    def _look_for_end(self, now: float) -> None:
        assert self.pid is not None
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # no longer ours to ask
            self.died = self.ended = now
            self.gone = True
            return
        if found is None:
            return
        self.died = self.ended = now
        self.code, self.by_signal = found.si_status, found.si_code != os.CLD_EXITED
        self._signal()  # before its number is given back: what it has started ends with it
        self._take_leave()

    def _take_leave(self) -> None:
        with contextlib.suppress(ChildProcessError):  # another thread of this process was faster
            os.waitpid(self.process.pid, 0)
        self.gone = True

    def _signal(self) -> None:
        for send in (os.killpg, os.kill):
            try:
                send(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # gone, or it has become somebody else
                continue

    def kill(self, why: str) -> None:
        """End it and its descendants, unless it has ended or is being ended."""
        if self.pid is None or self.died is not None or self.killed is not None:
            return
        self.stopped, self.killed = why, time.monotonic()
        self._signal()

    def _close(self, stream: Any) -> None:
        self.streams.remove(stream)
        stream.close()

    def let_go(self) -> None:
        """Close what is open. Who has not ended by now is left behind."""
        for name in ("stdout", "stderr"):
            if (stream := getattr(self.process, name, None)) is not None:
                stream.close()
        self.streams = []
        if self.pid is not None and not self.gone:
            if self.died is None:
                self._signal()  # a second interrupt may have come before the first one's kill
                self.abandoned = True
            _left_behind[self.pid] = None

    def end(self, seconds: float) -> End:
        """What is to be told."""
        if self.process is None:
            return End([], self.stopped or NOT_STARTED, detail=f"{self.job.name}: {self.refusal}.")
        events, odd = _events(bytes(self.out))
        how = self.stopped or (SIGNAL if self.by_signal else EXITED)
        if how == EXITED and not self.code and odd is not None:
            how = GARBAGE
        never = how == TIMEOUT and seconds < START and not self.out and not self.err
        said = {
            EXITED: f"ended with exit status {self.code}",
            SIGNAL: f"was ended by {_signal_name(self.code)}",
            TIMEOUT: f"did not answer within {round(seconds, 1):g} s and was killed",
            # nobody has been asked, so it says nothing of who would have been
            _NEVER: f"was killed before it could begin: {max(round(seconds, 3), 0.001):g} s are too short to start "
            "a process at all",
            GARBAGE: f"wrote something that is no answer: {odd}",
            FLOOD: f"wrote more than {MOST // 1000} KB and was killed",
        }[_NEVER if never else how]
        if how == EXITED and self.code is None:
            said = "ended; its exit status is not known, for this process ignores SIGCHLD or has asked for it elsewhere"
        if self.abandoned:
            said += f"; process {self.pid} could not be killed and is left behind"
        return End(
            events,
            how,
            code=self.code,
            seconds=self.ended - self.began,
            stderr=self.err.decode("utf-8", "replace"),
            abandoned=self.abandoned,
            detail=f"{self.job.name} {said}.",
        )


def _events(out: bytes) -> tuple[list[dict[str, Any]], str | None]:
    """The JSON objects of complete lines, and the first thing that is none, shortened."""
    import json

    events: list[dict[str, Any]] = []
    odd: str | None = None
    *lines, rest = out.split(b"\n")
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            events.append(event)
        elif odd is None:
            odd = ascii(line[:60].decode("utf-8", "replace"))
    if rest and odd is None:
        odd = "its last line is not complete"
    return events, odd


def _signal_name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
