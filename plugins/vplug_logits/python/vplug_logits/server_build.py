"""Builds an artefact beside a server that answers meanwhile: in a child process, which dies with it.

The child has one thread, no accelerator, a low priority and no input. Many servers may start one each: the lock
of the artefact lets one build, and the others find it built. The child imports torch only when it builds.
"""

from __future__ import annotations

import collections
import contextlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from vplug_logits import cache
from vplug_logits.config import LOGITS, SEED
from vplug_logits.errors import BuildError

if TYPE_CHECKING:
    from vplug_logits.config import Config

LOG_BYTES = 1 << 16  # what is kept of a child's stderr: half from its beginning, half from its end

PRIORITY = 10  # at 19 it would hardly run at all beside a server whose threads spin

_LINE = 1024  # longer lines are cut into several
_LOOK = 0.5  # seconds between two looks at the parent


@dataclass(frozen=True, slots=True)
class Building:
    """The child works, or waits for another one that does."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The artefact is there.

    Attributes:
        path: The file.
    """

    path: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The child ended without one.

    Attributes:
        reason: One line.
    """

    reason: str


class BackgroundBuild:
    """A child process that builds the artefact of a model.

    Args:
        model: A folder or a hub id.
        config: What it is for: its `bits`, whether it needs clusters, and its `cache`.
        dtype: The type the head is served in: float32, bfloat16 or float16.
        revision: Of a hub id.
        seed: Of all that is random.

    Raises:
        ArtefactError: The cache is not this user's, or cannot be made.
        BuildError: The child cannot be started.
    """

    def __init__(
        self, model: str, config: Config, dtype: str, *, revision: str | None = None, seed: int = SEED
    ) -> None:
        self.path = cache.place(model, config, dtype=dtype, revision=revision, seed=seed)
        self.log = f"{self.path}.{os.getpid()}.log"
        words = [model, "--mode", config.mode, "--bits", str(config.bits), "--dtype", dtype, "--seed", str(seed)]
        if revision is not None:
            words += ["--revision", revision]
        words += ["--out", self.path, "--quiet", "--child-of", str(os.getpid())]
        try:
            self._child = subprocess.Popen(  # noqa: S603  # this interpreter, and words of ours
                [sys.executable, "-m", "vplug_logits", "build", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_environment(),
            )
        except OSError as error:
            raise BuildError(f"{model}: no process can be started to build its sketch ({error}).") from error
        assert self._child.stderr is not None
        self._words = Words(self.log)
        self._reader = threading.Thread(target=self._words.follow, args=(self._child.stderr,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The child's."""
        return self._child.pid

    def poll(self) -> Building | Ready | Failed:
        """How far it is; does not wait."""
        status = self._child.poll()
        if status is None:
            return Building()
        self._reader.join(1)
        if status == 0 and os.path.isfile(self.path):
            return Ready(self.path)
        ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        said = self._words.last.removeprefix("error: ") or f"the building process {ended} and said nothing"
        return Failed(f"{said} (its words: {self.log})" if os.path.exists(self.log) else said)

    def close(self) -> None:
        """End the child if it still works, and wait for its end."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        self._reader.join(1)


class Words:
    """What a child says, kept in a file of bounded size; no file if it says nothing.

    Args:
        path: The file.

    Attributes:
        last: The last line that is not blank, or "".
    """

    def __init__(self, path: str) -> None:
        self.path, self.last = path, ""

    def follow(self, stream: IO[bytes]) -> None:
        """Read to the end of the stream, and close it: the first half of the room at once, the rest at the end."""
        room, dropped = LOG_BYTES // 2, 0
        tail: collections.deque[bytes] = collections.deque(maxlen=LOG_BYTES // 2 // _LINE)
        with stream, contextlib.ExitStack() as files:
            log: IO[bytes] | None = None
            for line in iter(lambda: stream.readline(_LINE), b""):
                self.last = line.decode(errors="replace").strip() or self.last
                if log is None:
                    log = _log_file(self.path, files)
                if log is not None and len(line) <= room:
                    log.write(line)
                    log.flush()
                    room -= len(line)
                else:
                    room, dropped = 0, dropped + len(line)
                    tail.append(line)
            if log is not None and dropped:
                log.write(b"...\n" + b"".join(tail))


def _log_file(path: str, files: contextlib.ExitStack) -> IO[bytes] | None:
    """The open file, or None where there is no room for it: what the child says last is kept in any case."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    return files.enter_context(open(descriptor, "wb"))


def _environment() -> dict[str, str]:
    """The child's: nothing of ours is on in it, one thread, no accelerator, no network."""
    return os.environ | {
        LOGITS: "0",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
    }


def serve_parent(parent: int) -> None:
    """In the child: take a low priority, and end when the parent has ended.

    The parent is looked at, since the kernel's own signal for its death comes already when the *thread* that started
    the child ends.

    Args:
        parent: Its process id.
    """
    os.nice(PRIORITY)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
