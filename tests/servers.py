"""Clients of `oracle/serve.py`: a resident process of an interpreter, asked over and over."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpreters import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

SERVE = Path(__file__).resolve().parent / "oracle" / "serve.py"
GENUINE = ("importlib.metadata",)
INSTALLED = ("importlib.metadata", "--install")
OURS = ("vplug_rs.metadata",)


class ServerError(AssertionError):
    """The process died or did not answer in time."""


class Server:
    """A running `serve.py`.

    Args:
        executable: the interpreter.
        root: folder to import vplug_rs from.
        what: GENUINE, INSTALLED or OURS, and further options of serve.py.
        timeout: seconds that one answer may take.
    """

    def __init__(self, executable: str, root: Path, what: Iterable[str], *, timeout: float = 60) -> None:
        self.what = tuple(what)
        self.timeout = timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [executable, "-B", str(SERVE), *self.what, "--", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=clean_environment(PYTHONHASHSEED="0"),  # packages_distributions() goes through sets
            cwd="/",
        )
        self._rest = b""

    def ask(self, path: Iterable[object], names: Iterable[str] = (), **more: object) -> dict[str, Any]:
        """Ask everything about a path, whose entries are any objects with a `repr` that makes them again."""
        entries = [f"Path({str(entry)!r})" if isinstance(entry, Path) else repr(entry) for entry in path]
        return self.ask_expressions(entries, names, **more)

    def ask_expressions(self, path: list[str], names: Iterable[str] = (), **more: object) -> dict[str, Any]:
        """Ask everything about a path whose entries are given as Python expressions."""
        request = {"path": path, "names": list(names), **more}
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail("is gone")
        reply: dict[str, Any] = json.loads(self._line())
        return reply

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        limit = time.monotonic() + self.timeout
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([number], [], [], max(0.0, limit - time.monotonic()))
            if not ready:
                self._fail(f"did not answer within {self.timeout:g} s")
            parts.append(os.read(number, 1 << 20))
            if not parts[-1]:
                self._fail("died")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _fail(self, how: str) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        text = self._errors.read()[-3000:].decode(errors="replace")
        self.close()
        message = f"the process for {' '.join(self.what)} {how}:\n{text}"
        raise ServerError(message)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def raised(value: Any, where: str = "") -> list[tuple[str, list[Any]]]:
    """Find everything that was raised, anywhere inside an answer, with where it stands."""
    out: list[tuple[str, list[Any]]] = []
    if isinstance(value, list):
        if len(value) == 3 and value[0] in ("raises", "panics"):
            return [(where, value)]
        for i, inner in enumerate(value):
            out += raised(inner, f"{where}[{i}]")
    return out
