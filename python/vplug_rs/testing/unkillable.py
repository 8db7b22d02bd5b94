"""A folder that processes get stuck in, so that not even SIGKILL ends them: for tests of whoever waits for processes.

It is a small file system of its own, frozen: who writes to it sleeps in the kernel until it is thawed. Needs root,
loop devices, and the programs of `TOOLS`; `why_not` says what is missing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

TOOLS = ("fsfreeze", "losetup", "mkfs.ext4", "mount", "umount")
_SIZE = 8 * 1024 * 1024
_SECONDS = 30


_tried: list[str | None] = []


def why_not() -> str | None:
    """Why this machine can make no such folder, or None where it can. It is tried, once in a process."""
    import tempfile

    from vplug_rs.errors import VplugError

    if (missing := _missing()) is not None:
        return missing
    if not _tried:
        with tempfile.TemporaryDirectory() as folder:
            try:
                with frozen_folder(folder):
                    pass
                _tried.append(None)
            except VplugError as error:
                _tried.append(str(error))
    return _tried[0]


def _missing() -> str | None:
    """What can be seen to be missing without trying."""
    import os
    import shutil
    import sys

    if sys.platform != "linux":
        return "an unkillable process is made with Linux's fsfreeze"
    if os.geteuid() != 0:
        return "only root may freeze a file system"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    if not os.path.exists("/dev/loop-control"):
        return "there are no loop devices"
    return None


def frozen_folder(folder: str) -> AbstractContextManager[str]:
    """Give a folder on a frozen file system: who writes to it cannot be killed before the block ends.

    Args:
        folder: Where its image and its mount point are made, and left empty of both.

    Raises:
        VplugError: The machine does not allow it.
    """
    from contextlib import contextmanager

    return contextmanager(_frozen)(folder)


def _frozen(folder: str) -> Iterator[str]:
    import os

    from vplug_rs.errors import VplugError

    if (missing := _missing()) is not None:
        raise VplugError(missing)
    image, inside = os.path.join(folder, "frozen.img"), os.path.join(folder, "frozen")
    with open(image, "wb") as stream:
        stream.truncate(_SIZE)
    os.mkdir(inside)
    try:
        _do("mkfs.ext4", "-q", "-F", image)
        _do("mount", "-o", "loop", image, inside)
        try:
            _do("fsfreeze", "--freeze", inside)
            try:
                yield inside
            finally:
                _do("fsfreeze", "--unfreeze", inside)
        finally:
            _unmount(inside)
    finally:
        os.rmdir(inside)
        os.unlink(image)


def _unmount(folder: str) -> None:
    """Those that were stuck need a moment to die."""
    import time

    from vplug_rs.errors import VplugError

    for _ in range(100):
        try:
            return _do("umount", folder)
        except VplugError:
            time.sleep(0.05)
    return _do("umount", "--lazy", folder)


def _do(tool: str, *words: str) -> None:
    import shutil
    import subprocess

    from vplug_rs.errors import VplugError

    path = shutil.which(tool) or tool
    done = subprocess.run([path, *words], capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603  # our own words
    if done.returncode != 0:
        raise VplugError(f"`{tool}` said: {done.stderr.strip()}")
