"""Where artefacts are kept, under which name, and that only one process builds each.

An artefact lies beside its model (`MODEL/vplug_logits/`), or in the user's cache: `VPLUG_LOGITS_CACHE`, else
`vplug_logits` in `XDG_CACHE_HOME`, else in `~/.cache`. The cache belongs to one user: whoever could write there could
make a model answer what he likes.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING

from vplug_logits.config import CACHE, SEED
from vplug_logits.errors import ArtefactError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vplug_logits.config import Config

FOLDER = "vplug_logits"
SUFFIX = ".safetensors"
FORMAT = 1  # of the names: another number, and nothing that is there is found

_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".pth", "config.json")
_NEXT = "Name another folder with VPLUG_LOGITS_CACHE."


def find(model: str, config: Config, *, dtype: str, revision: str | None = None, seed: int = SEED) -> str | None:
    """The artefact of a model, or None: the one the configuration names, the one beside it, the one in the cache.

    The file is not opened: it may be damaged, or of other weights.

    Args:
        model: A folder or a hub id.
        config: Its `bits`, whether it needs clusters, its `artefact` and `cache`.
        dtype: The type the head is served in: float32, bfloat16 or float16.
        revision: Of a hub id.
        seed: What the sketch was built with.

    Raises:
        ArtefactError: A file that the configuration names is not there; the cache is not this user's.
    """
    if config.artefact is not None:
        if not os.path.isfile(config.artefact):
            raise ArtefactError(config.artefact, "is no file.", next_step="Correct or unset VPLUG_LOGITS_ARTEFACT.")
        return config.artefact
    if os.path.isdir(model):
        beside = place_beside(model, config, dtype=dtype, seed=seed)
        if os.path.isfile(beside):
            return beside
    folder = root(config.cache)
    if not os.path.isdir(folder):
        return None
    _check_owner(folder)
    path = os.path.join(folder, name(model, config, dtype=dtype, revision=revision, seed=seed))
    return path if os.path.isfile(path) else None


def place(model: str, config: Config, *, dtype: str, revision: str | None = None, seed: int = SEED) -> str:
    """Where to write the artefact of a model: its file in the user's cache, whose folder is made if need be.

    Args:
        model: As for `find`.
        config: As for `find`.
        dtype: As for `find`.
        revision: As for `find`.
        seed: As for `find`.

    Raises:
        ArtefactError: The folder cannot be made, is another user's, or others can write there.
    """
    folder = root(config.cache)
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        _check_owner(folder)
    except OSError as error:
        raise ArtefactError(folder, f"cannot be made: {error.strerror or error}.", next_step=_NEXT) from error
    return os.path.join(folder, name(model, config, dtype=dtype, revision=revision, seed=seed))


def place_beside(model: str, config: Config, *, dtype: str, seed: int = SEED) -> str:
    """Where the artefact of a model's folder lies beside it; the name holds no path, so that the folder can move.

    Args:
        model: The folder.
        config: Its `bits` and whether it needs clusters.
        dtype: As for `find`.
        seed: As for `find`.
    """
    return os.path.join(model, FOLDER, _variant(config, dtype, seed) + SUFFIX)


def root(cache: str | None = None) -> str:
    """The folder of the user's cache, absolute; it need not be there.

    Args:
        cache: The folder, if it is not to be found by the environment.
    """
    named = cache or os.environ.get(CACHE, "")
    if named.strip():
        return os.path.abspath(os.path.expanduser(named))
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the specification: a relative one is ignored
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, FOLDER)


def kept(cache: str | None = None) -> list[tuple[str, int]]:
    """The artefacts in the user's cache, by name, each with its size in bytes; none is opened.

    Args:
        cache: As for `root`.

    Raises:
        ArtefactError: The cache is not this user's, or cannot be read.
    """
    folder = root(cache)
    if not os.path.lexists(folder):
        return []
    try:
        _check_owner(folder)
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if entry.name.endswith(SUFFIX) and entry.name[0] != "."]
            return sorted((entry.name, entry.stat().st_size) for entry in found)
    except OSError as error:
        raise ArtefactError(folder, f"cannot be read: {error.strerror or error}.", next_step=_NEXT) from error


def name(model: str, config: Config, *, dtype: str, revision: str | None = None, seed: int = SEED) -> str:
    """The file's name in the cache: what a reader knows the model by, the variant, and a digest of its identity.

    A folder, and a hub id's snapshot in the local cache, is identified by its real path and by the names, sizes and
    times of the weights in it: changed weights have another name, and are built anew.

    Args:
        model: As for `find`.
        config: As for `find`.
        dtype: As for `find`.
        revision: As for `find`.
        seed: As for `find`.
    """
    variant = _variant(config, dtype, seed)
    identity = "\0".join([str(FORMAT), variant, *_identity(model, revision)])
    key = hashlib.blake2b(os.fsencode(identity), digest_size=8).hexdigest()
    return f"{readable(model)}-{variant}-{key}{SUFFIX}"


def readable(model: str) -> str:
    """The name of a model for people: the hub id, or the last part of the path, in characters that names may have.

    Args:
        model: A folder or a hub id.
    """
    if os.path.isdir(model):
        parts = os.path.realpath(model).split(os.sep)
        hub = [part for part in parts if part.startswith("models--")]  # the hub's cache: models--ORG--NAME/snapshots/..
        text = hub[-1].removeprefix("models--") if hub else parts[-1]
    else:
        text = model
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text.replace("/", "--")).strip("-.")[:80] or "model"


def folder_of(model: str, revision: str | None = None) -> str | None:
    """The folder of a model: itself, or a hub id's snapshot in the local hub cache; None where there is none.

    Args:
        model: A folder or a hub id.
        revision: Of a hub id: a branch, tag or commit.
    """
    if os.path.isdir(model):
        return model
    user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = os.environ.get("HF_HOME") or os.path.join(user, "huggingface")
    hub = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    kept = os.path.join(hub, "models--" + model.replace("/", "--"))
    commit = revision or "main"
    with contextlib.suppress(OSError), open(os.path.join(kept, "refs", commit), encoding="utf-8") as file:
        commit = file.read().strip()
    snapshot = os.path.join(kept, "snapshots", commit)
    return snapshot if os.path.isdir(snapshot) else None


def dtype_of(model: str, revision: str | None = None) -> str | None:
    """The type that a model's `config.json` says it was saved in, or None.

    Args:
        model: A folder or a hub id.
        revision: Of a hub id.
    """
    folder = folder_of(model, revision)
    if folder is None:
        return None
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError):
        return None  # whoever loads the model will say it better
    for part in (said, said.get("text_config")) if isinstance(said, dict) else ():
        found = (part.get("dtype") or part.get("torch_dtype")) if isinstance(part, dict) else None
        if isinstance(found, str):
            return found
    return None


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the right to build the artefact `path`; waits while another process has it, and is freed by its death.

    Whoever gets it looks first whether the artefact is there. What a killed builder left is removed.

    Args:
        path: The artefact.

    Raises:
        ArtefactError: The folder cannot be written.
    """
    lock = f"{path}.lock"
    descriptor = _acquire(lock)
    try:
        for left in glob.glob(glob.escape(unfinished(path)) + "*"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(left)
        yield
    finally:
        # Removed while it is held: whoever waits for this file sees that it is no longer the one of this name.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(lock)
        os.close(descriptor)


def unfinished(path: str) -> str:
    """How the paths of unfinished files of the artefact `path` begin; in its folder, hidden.

    Args:
        path: The artefact.
    """
    folder, base = os.path.split(os.path.abspath(path))
    return os.path.join(folder, f".{base}.part-")


def _acquire(lock: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            descriptor = os.open(lock, flags, 0o600)
        except OSError as error:
            raise ArtefactError(lock, f"cannot be made: {error.strerror or error}.", next_step=_NEXT) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is(lock, descriptor):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            raise ArtefactError(lock, f"cannot be locked: {error.strerror or error}.", next_step=_NEXT) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is(path: str, descriptor: int) -> bool:
    """Whether the open file is still the one of this name."""
    try:
        named = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))


def _check_owner(folder: str) -> None:
    found = os.stat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise ArtefactError(folder, "is no folder.", next_step=_NEXT)
    if found.st_uid != os.geteuid():
        raise ArtefactError(folder, f"belongs to user {found.st_uid}, not to {os.geteuid()}.", next_step=_NEXT)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ArtefactError(folder, "can be written by others.", next_step=f"Run `chmod 700 {folder}`.")


def _variant(config: Config, dtype: str, seed: int) -> str:
    clusters = "-clusters" if config.needs_clusters else ""
    return f"{config.bits}bit{clusters}-{dtype}-seed{seed}"


def _identity(model: str, revision: str | None) -> list[str]:
    found = folder_of(model, revision)
    if found is None:
        return ["hub", model, revision or ""]
    folder = os.path.realpath(found)
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_WEIGHTS) and entry.is_file():
                known = entry.stat()
                files.append(f"{entry.name}\0{known.st_size}\0{known.st_mtime_ns}")
    return ["folder", folder, *sorted(files)]
