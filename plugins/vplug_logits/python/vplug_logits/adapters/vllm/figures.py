"""Counters on their way from the workers to the server: one small file for each process, in a folder of this run.

The process that registers first (the server, or the program that makes an `LLM`) makes the folder, readable for its
user alone, hands its name to the processes that it starts, and removes it when it ends. A worker overwrites its own
file after each step: no figure is late, and a step pays for one short write. Standard library only.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import struct
import tempfile
import zlib
from typing import Any

FOLDER = "_VPLUG_LOGITS_FIGURES"  # for our own children; no setting
_HEAD = struct.Struct("<II")  # length and CRC-32 of the JSON behind it: a reader knows half a file


def prepare() -> str:
    """Give the folder of this run, and make it if no parent of this process has."""
    folder = os.environ.get(FOLDER, "")
    if not os.path.isdir(folder):
        folder = tempfile.mkdtemp(prefix="vplug_logits-")
        os.environ[FOLDER] = folder
        atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, maker: int) -> None:
    if os.getpid() == maker:  # not in a child that was forked from it
        shutil.rmtree(folder, ignore_errors=True)


class Writer:
    """Writes the figures of this process, where there is a folder for them."""

    def __init__(self) -> None:
        self._pid, self._file = 0, -1

    def write(self, figures: dict[str, Any]) -> None:
        """Overwrite what was written before.

        Raises:
            OSError: The folder is gone or full.
        """
        if self._pid != os.getpid():  # the first time, and after a fork
            self._pid, self._file = os.getpid(), -1
            folder = os.environ.get(FOLDER, "")
            if folder:
                self._file = os.open(
                    os.path.join(folder, f"{self._pid}.figures"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
                )
        if self._file >= 0:
            text = json.dumps(figures).encode()
            os.pwrite(self._file, _HEAD.pack(len(text), zlib.crc32(text)) + text, 0)


def read(folder: str) -> dict[int, dict[str, Any]]:
    """What the processes of a run have written last, by process; those that have ended are left out."""
    found = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        pid, _, kind = name.partition(".")
        if kind == "figures" and pid.isdigit() and _is_alive(int(pid)):
            figures = _read(os.path.join(folder, name))
            if figures is not None:
                found[int(pid)] = figures
    return found


def _read(path: str) -> dict[str, Any] | None:
    for _ in range(5):  # it may be written to just now
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if len(data) >= _HEAD.size:
            length, check = _HEAD.unpack_from(data)
            text = data[_HEAD.size : _HEAD.size + length]
            if len(text) == length and zlib.crc32(text) == check:
                figures: dict[str, Any] = json.loads(text)
                return figures
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's: the number was given away again
        return False
    return True
