"""The program that is started: `stage.py WHO WORDS...` runs the module WHO beside it, and makes a sure and quiet end.

stdout is kept for answers: events, one JSON object a line. They are written here by hand, for `json` would take as long
to import as all the rest of the program.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from os.path import dirname, join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

LIMIT = 600
"""Seconds after which the program ends whoever waits for it: an asker that was itself killed cannot kill it."""


class Stage:
    """The way out for events.

    Attributes:
        call: The call that was announced last.
    """

    def __init__(self) -> None:
        self.call = ""
        self._out = os.dup(1)
        os.dup2(2, 1)  # what a library prints is for people
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash must leave no file
        signal.alarm(LIMIT)

    def say(self, **event: str | int | bool) -> None:
        """Write one event, at once: the next call may be the last."""
        self.call = str(event.get("call", self.call))
        fields = ", ".join(f"{_quoted(name)}: {_value(value)}" for name, value in event.items())
        line = f"{{{fields}}}\n".encode("ascii")
        while line:
            line = line[os.write(self._out, line) :]

    def leave(self) -> NoReturn:
        """End the program, without asking threads and exit functions that a library may have left."""
        self.say(done=True)
        os._exit(0)

    @staticmethod
    def told(error: BaseException) -> str:
        """An exception in one short line."""
        try:
            text = str(error)
        except Exception:  # noqa: BLE001  # somebody else's class
            text = "(its text cannot be had)"
        return f"{type(error).__name__}: {text}"[:500]


def _value(value: str | int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _quoted(value)


def _quoted(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    return '"' + "".join(chr(c) if " " <= chr(c) <= "~" and chr(c) not in '"\\' else f"\\u{c:04x}" for c in codes) + '"'


def main() -> None:
    """Run the module that the first word names, on a stage of its own."""
    from importlib.machinery import SourceFileLoader

    who, *words = sys.argv[1:]
    stage = Stage()
    module: Any = type(sys)(who)
    try:
        SourceFileLoader(who, join(dirname(__file__), f"{who}.py")).exec_module(module)
        module.main(stage, words)
    except Exception as error:  # noqa: BLE001  # what was said before it counts
        stage.say(unusable=stage.told(error))
    stage.leave()


if __name__ == "__main__":
    main()
