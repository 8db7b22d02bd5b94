"""Run somebody's program to its end, and pass on to it what its caller sends us."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from vplug_rs import report
from vplug_rs.cli.run import NOT_EXECUTABLE, NOT_FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self

_AGAIN = 1.0  # seconds; `timeout` sends its signal twice at once, which is not somebody's second thought


class Child:
    """One program, and what becomes of our signals until the end of the `with`.

    What we catch has its default effect in the program, and what our caller ignored stays ignored, there and here. An
    interrupt is not passed on: the terminal sends it to the program as well. The others are; a second SIGTERM kills.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._program: subprocess.Popen[bytes] | None = None
        self._early: int | None = None
        self._first: dict[int, float] = {}  # when each came

    def __enter__(self) -> Self:
        handlers = {"SIGINT": self._interrupted, "SIGTERM": self._received, "SIGHUP": self._received}
        for name, handler in handlers.items():
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) in {signal.SIG_IGN, None}:  # None: not Python's to put back
                continue
            self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, words: list[str], environment: dict[str, str]) -> tuple[int, float]:
        """Run to the end.

        Args:
            words: The program and its arguments.
            environment: Its environment.

        Returns:
            The exit status, 128 and the signal's number if one ended it; and the seconds that it took.
        """
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # closed by the caller
                stream.flush()
        began = time.monotonic()
        try:
            self._program = subprocess.Popen(words, env=environment)  # noqa: S603  # the user's own program
            if self._early is not None:
                self._program.send_signal(self._early)
            status = self._program.wait()
        except (FileNotFoundError, NotADirectoryError):
            report.message("error", f"`{words[0]}`: program not found")
            status = NOT_FOUND
        except OSError as error:
            report.message("error", f"`{words[0]}` cannot be executed: {error.strerror}")
            status = NOT_EXECUTABLE
        return (status if status >= 0 else 128 - status), time.monotonic() - began

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        if self._ended():
            raise KeyboardInterrupt

    def _received(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        again = now - self._first.setdefault(number, now) >= _AGAIN
        if self._program is None:
            self._early = number
        elif not self._ended():
            if again and number == signal.SIGTERM:
                self._program.kill()
            else:
                self._program.send_signal(number)
        elif again:  # whoever waits for our table has had enough
            raise SystemExit(128 + number)

    def _ended(self) -> bool:
        return self._program is not None and self._program.returncode is not None
