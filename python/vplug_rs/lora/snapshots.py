"""Private copies of adapters: what was checked is what is loaded, whatever becomes of the place it came from.

They lie in one folder for each process, below the folder for temporary files (`TMPDIR`), readable by this user alone.
It is removed when the process ends; what a killed process left is removed by the next one that makes its own.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from vplug_rs.lora.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "vplug-lora-"
_YOUNG = 60.0  # seconds in which another process may have made its folder and not locked it yet
_STEP = 16 << 20
turn = threading.Lock()
"""Held for a copy: the disk is what copies wait for, and two requests for one adapter make one."""
_homes: dict[int, tuple[str, int]] = {}  # process: its folder, and the descriptor that holds the lock on it


def make(fill: Callable[[str], None]) -> str:
    """A new folder with a copy; nothing of it stays where `fill` raises. The caller holds `turn`.

    Args:
        fill: Writes the files into the folder that it is given.

    Returns:
        The folder's absolute path.

    Raises:
        Refusal: `snapshot-failed`, where there is no room or no right to write; or what `fill` raises.
    """
    where = None
    try:
        where = tempfile.mkdtemp(dir=_home())
        fill(where)
    except BaseException as error:
        if where is not None:
            shutil.rmtree(where, ignore_errors=True)
        if isinstance(error, OSError):
            raise Refusal(
                "snapshot-failed",
                f"the private copy could not be written to `{tempfile.gettempdir()}`: {error}",
                hint="Make room there, or set `TMPDIR` to a folder on a larger disk.",
            ) from error
        raise
    return where


def remove(where: str) -> None:
    """Removes a copy; what cannot be removed now is removed with the rest."""
    shutil.rmtree(where, ignore_errors=True)


def copy(source: int, size: int, target: str) -> int:
    """Copies an open file, by the file system itself where it can.

    Args:
        source: The descriptor to read from; its position is not used.
        size: How many bytes it should have.
        target: The path of a file that does not exist yet.

    Returns:
        How many bytes there were, `size` at most.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        done = 0
        by_kernel = hasattr(os, "copy_file_range")
        while done < size:
            count = min(_STEP, size - done)
            try:
                moved = os.copy_file_range(source, descriptor, count, done, done) if by_kernel else 0
            except OSError:  # not between these file systems; a full disk shows itself below
                moved = 0
            if not moved:
                by_kernel = False
                moved = os.pwrite(descriptor, os.pread(source, min(count, 1 << 20), done), done)
            if not moved:
                break
            done += moved
    finally:
        os.close(descriptor)
    return done


def _home() -> str:
    """This process's folder. A forked child makes its own: its parent's goes when the parent does."""
    process = os.getpid()
    found = _homes.get(process)
    if found is None or not os.path.isdir(found[0]):
        _sweep(tempfile.gettempdir())
        where = tempfile.mkdtemp(prefix=PREFIX)
        if found is None:
            atexit.register(_remove_home, process)
        else:
            os.close(found[1])
        _homes[process] = found = (where, _locked(where))
    return found[0]


def _locked(where: str) -> int:
    """Locks a folder: it is in use. systemd-tmpfiles leaves it alone, however old it is."""
    descriptor = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_home(process: int) -> None:
    if process == os.getpid() and process in _homes:  # a forked child has inherited the call
        where, descriptor = _homes.pop(process)
        shutil.rmtree(where, ignore_errors=True)
        os.close(descriptor)


def _start_clean() -> None:
    """In a forked child: the lock may be held by a thread that is not there, and the folder is the parent's."""
    global turn  # noqa: PLW0603  # a lock cannot be made new in place
    turn = threading.Lock()
    for _, descriptor in _homes.values():
        os.close(descriptor)
    _homes.clear()


os.register_at_fork(after_in_child=_start_clean)


def _sweep(folder: str) -> None:
    """Removes the folders of processes that are gone: this user's, closed to others, old enough, and not locked."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_left(entry.path)


def _remove_left(where: str) -> None:
    found = os.lstat(where)
    is_ours = found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    if is_ours and time.time() - found.st_mtime > _YOUNG:
        descriptor = _locked(where)
        try:
            shutil.rmtree(where, ignore_errors=True)
        finally:
            os.close(descriptor)
