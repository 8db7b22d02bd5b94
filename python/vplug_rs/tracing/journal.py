"""Events -> the file of this process: a line for each, as Python writes a tuple.

The program must not notice: it may close all its descriptors, delete the folder, fork.
"""

import os
import sys
from time import process_time, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HIGH = (1021, 1020, 509, 508, 251, 250)  # below the usual limits of 1024, 512 and 256


class Journal:
    """One file for each process, in a folder that all of them share.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = ""
        self.descriptor = -1
        self.file: tuple[int, int] | None = None
        self.begin("started")

    def begin(self, how: str) -> None:
        """Open this process's file."""
        now = time()
        self.path = os.path.join(self.folder, f"{os.getpid()}-{now:.6f}.trace")
        self.descriptor = self.open(os.O_CREAT | os.O_EXCL)
        self.file = _file(self.descriptor)
        # what the interpreter has used so far stands for the time since it was started
        began = now - process_time() if how == "started" else now
        self.write("process", began, how, os.getpid(), os.getppid(), list(sys.orig_argv), sys.version.split()[0], now)

    def open(self, flags: int = 0) -> int:
        """Open the file to append."""
        flags |= os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        return _out_of_the_way(os.open(self.path, flags, 0o600))

    def write(self, *event: "Any") -> None:
        """Append one event, as Python writes a tuple."""
        if self.file is None:
            return
        try:
            if _file(self.descriptor) != self.file:  # the program closed it, and may have a file of its own there
                self.descriptor = self.open()
                if _file(self.descriptor) != self.file:  # nor is it the path's any more
                    os.close(self.descriptor)
                    self.file = None
                    return
            os.write(self.descriptor, (ascii(event) + "\n").encode("ascii"))
        except OSError:  # the folder is gone or full: the program must not notice
            self.file = None

    def forked(self) -> None:
        """In a child: a file of its own."""
        try:
            if self.file is not None and _file(self.descriptor) == self.file:
                os.close(self.descriptor)
            self.file = None
            self.begin("forked")
        except OSError:
            self.file = None


def _file(descriptor: int) -> "tuple[int, int] | None":
    """Which file a descriptor stands for; None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _out_of_the_way(descriptor: int) -> int:
    """Move it up: programs count on the lowest free number, above all where 0, 1 or 2 is closed."""
    for number in _HIGH:
        if number > descriptor and _file(number) is None:
            try:
                high = os.dup2(descriptor, number, inheritable=False)
            except OSError:  # more than this process may have
                continue
            os.close(descriptor)
            return high
    return descriptor
