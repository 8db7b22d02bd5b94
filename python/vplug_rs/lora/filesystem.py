"""Adapters from a folder. Nothing outside it is opened, and what vLLM gets cannot be turned elsewhere afterwards.

Every step opens one part of the name relative to the folder before it, and follows no symbolic link; so a step and its
check are one system call, and a folder that is swapped in between is only another folder inside. The files are copied
from the descriptors that were checked into a private folder (`snapshots`), and its path is what vLLM gets.

Not told apart: hard links, and file systems that somebody has mounted inside. Both take the rights to make them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vplug_rs import env
from vplug_rs.lora import adapter, names, safetensors, snapshots
from vplug_rs.lora.adapter import CONFIG, PICKLED, SAFETENSORS, Adapter
from vplug_rs.lora.refusal import Refusal, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vplug_rs.lora.resolver import Request

MOST_WEIGHTS_BYTES = 16 << 30
_STEP = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER = _STEP | os.O_DIRECTORY
_FILE = _STEP | os.O_NONBLOCK | os.O_NOCTTY  # neither a pipe without a writer nor a terminal holds us up
_Stamp = tuple[int, ...]
_Stamps = tuple[_Stamp, _Stamp]  # of the configuration, of the weights


@dataclass(frozen=True, slots=True)
class _Copy:
    """What was handed out last for a name, and before that: somebody may be about to read that one still."""

    process: int
    stamps: _Stamps
    path: str
    replaced: str


class FilesystemResolver:
    """Adapters below one folder: `team/a` is the folder `team/a` in it, with its configuration and its weights.

    Args:
        folder: The folder. It may be reached by symbolic links: it is the user's own word. It is looked up anew for
            each request.
        aliases: Other names of the served base model (`adapter.match`).
        allow_pickle: Serve weights that are pickled where there are no others.
        most_weights: How many bytes of weights are copied at most.
    """

    name = "filesystem"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        aliases: Collection[str] = (),
        allow_pickle: bool = False,
        most_weights: int = MOST_WEIGHTS_BYTES,
    ) -> None:
        self.folder = os.path.abspath(folder)
        self.aliases = frozenset(aliases)
        self.allow_pickle = allow_pickle
        self.most_weights = most_weights
        self._copies: dict[str, _Copy] = {}

    async def resolve(self, request: Request) -> Adapter:
        """The adapter of this name; the work is done in a thread.

        Raises:
            Refusal: why it is not served.
        """
        return await asyncio.to_thread(self.find, request)

    def find(self, request: Request) -> Adapter:
        """The same, in this thread."""
        parts = names.parts(request.name)
        with self._opened(parts, request.name) as folder:
            where = _where(CONFIG, request.name)
            with _file(folder, CONFIG, where, "config-missing") as descriptor:
                size = os.fstat(descriptor).st_size
                if size > adapter.MOST_CONFIG_BYTES:
                    raise adapter.too_large(where, size)
                stamp = _stamp(descriptor)
                data = _all_of(descriptor, adapter.MOST_CONFIG_BYTES + 1)
                if _stamp(descriptor) != stamp:
                    raise _changed(where)
            config = adapter.read(data, where)
            matched = adapter.match(config, request.base, self.aliases, f"adapter {shown(request.name)}")
            weights = self._weights(folder, request.name)
            with _file(folder, weights, _where(weights, request.name), "weights-missing") as descriptor:
                stamps = (stamp, _stamp(descriptor))
                path = self._known(request.name, stamps)
                if path is None:
                    with snapshots.turn:
                        path = self._known(request.name, stamps)  # made by another thread meanwhile
                        if path is None:
                            path = self._copy(request.name, data, stamps, descriptor, weights)
        return Adapter(request.name, path, config, matched, self.name)

    @contextmanager
    def _opened(self, parts: tuple[str, ...], name: str) -> Iterator[int]:
        """The adapter's folder, reached one part at a time."""
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Refusal(
                "folder-unavailable",
                f"the folder of all adapters, `{self.folder}`, cannot be opened: {error.strerror}",
                hint=f"Set `{env.LORA_DIR}` to a folder that this process may read.",
            ) from error
        try:
            for index, part in enumerate(parts, 1):
                inner = _open(folder, part, _FOLDER, f"{shown('/'.join(parts[:index]))} in `{self.folder}`", name)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _weights(self, folder: int, name: str) -> str:
        """Which file has the weights: safetensors wherever they are there."""
        found = [file for file in (SAFETENSORS, *PICKLED) if _is_there(folder, file)]
        if not found:
            raise Refusal(
                "weights-missing",
                f"adapter {shown(name)} has no `{SAFETENSORS}`",
                hint="Put it beside the configuration: vLLM loads no weights under other names, or in pieces.",
            )
        if found[0] in PICKLED and not self.allow_pickle:
            raise Refusal(
                "weights-pickled",
                f"adapter {shown(name)} has `{found[0]}` and no `{SAFETENSORS}`",
                hint="Unpickling can run code: convert the weights to safetensors. "
                f"If you trust whoever writes to the folder, set `{env.LORA_ALLOW_PICKLE}` on.",
            )
        return found[0]

    def _known(self, name: str, stamps: _Stamps) -> str | None:
        """The copy of an adapter that has not changed since."""
        known = self._copies.get(name)
        is_good = known is not None and (known.process, known.stamps) == (os.getpid(), stamps)
        return known.path if known is not None and is_good and os.path.isdir(known.path) else None

    def _copy(self, name: str, data: bytes, stamps: _Stamps, descriptor: int, weights: str) -> str:
        where = _where(weights, name)
        size = os.fstat(descriptor).st_size
        if size > self.most_weights:
            raise Refusal(
                "weights-too-large",
                f"{where} has {size} bytes, and {self.most_weights} are allowed",
                hint="Is this the base model and not an adapter? Otherwise give the resolver a larger `most_weights`.",
            )
        if weights == SAFETENSORS:
            _checked(descriptor, where)  # before a large file is copied in vain

        def fill(folder: str) -> None:
            with open(os.path.join(folder, CONFIG), "xb") as file:
                file.write(data)
            target = os.path.join(folder, weights)
            copied = snapshots.copy(descriptor, size, target)
            if copied != size or _stamp(descriptor) != stamps[1]:
                raise _changed(where)
            if weights == SAFETENSORS:
                own = os.open(target, _FILE)
                try:
                    _checked(own, where)
                finally:
                    os.close(own)

        made = snapshots.make(fill)
        before = self._copies.get(name)
        if before is not None and before.process != os.getpid():
            before = None  # the parent's
        if before is not None and before.replaced:
            snapshots.remove(before.replaced)
        self._copies[name] = _Copy(os.getpid(), stamps, made, before.path if before else "")
        return made


def _where(file: str, name: str) -> str:
    return f"`{file}` of {shown(name)}"


def _open(folder: int, part: str, flags: int, where: str, name: str) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except OSError as error:
        # O_DIRECTORY answers before O_NOFOLLOW does, so a link is told from a file by looking at it
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(folder, part)):
            raise Refusal(
                "symlink",
                f"{where} is a symbolic link, and none is followed",
                hint="Copy what it points to, or serve the folder in which that lies.",
            ) from error
        if error.errno == errno.ENOENT:
            raise Refusal(
                "not-found", f"there is no {where}", hint=f"Look for {shown(name)} below that folder; case counts."
            ) from error
        if error.errno == errno.ENOTDIR:
            raise Refusal(
                "not-a-folder", f"{where} is no folder", hint="An adapter is a folder: leave the file's name away."
            ) from error
        if error.errno == errno.ENXIO:
            raise _no_file(where) from error
        raise _unreadable(where, error) from error


@contextmanager
def _file(folder: int, file: str, where: str, missing: str) -> Iterator[int]:
    """One file of the adapter, open for reading; a regular one, which is looked at before it is opened and after."""
    try:
        found = os.stat(file, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
            raise _no_file(where)  # opening a device can do something
    except FileNotFoundError as error:
        raise Refusal(missing, f"there is no {where}", hint="Copy the whole folder that PEFT has written.") from error
    except OSError as error:
        raise _unreadable(where, error) from error
    descriptor = _open(folder, file, _FILE, where, where)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _no_file(where)
        yield descriptor
    finally:
        os.close(descriptor)


def _all_of(descriptor: int, most: int) -> bytes:
    """All of a file, as far as it is not longer than `most`."""
    data = b""
    while len(data) < most and (more := os.pread(descriptor, most - len(data), len(data))):
        data += more
    return data


def _checked(descriptor: int, where: str) -> None:
    try:
        safetensors.check(descriptor, where)
    except OSError as error:
        raise _unreadable(where, error) from error


def _is_there(folder: int, file: str) -> bool:
    try:
        os.stat(file, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unreadable(f"`{file}`", error) from error
    return True


def _is_link(folder: int, part: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:  # gone by now: what it was is of no more interest
        return False


def _stamp(descriptor: int) -> _Stamp:
    found = os.fstat(descriptor)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _no_file(where: str) -> Refusal:
    return Refusal("not-a-file", f"{where} is no regular file", hint="Put the file itself there.")


def _changed(where: str) -> Refusal:
    return Refusal("changed", f"{where} changed while it was read", hint="Ask again when whoever writes it is done.")


def _unreadable(where: str, error: OSError) -> Refusal:
    hint = "Let this process's user read the folder and its files."
    return Refusal("unreadable", f"{where} cannot be read: {error.strerror}", hint=hint)
