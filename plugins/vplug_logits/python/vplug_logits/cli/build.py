"""`vplug-logits build MODEL`: build the sketch of a model's head and keep it."""

from __future__ import annotations

import argparse
import os
import sys

from vplug_logits import cache
from vplug_logits.config import BITS, SEED, Config, Mode
from vplug_logits.errors import ArtefactError, BuildError, ConfigError
from vplug_logits.progress import on_terminal
from vplug_logits.server_build import serve_parent

HELP = "build the sketch of a model's head, from its weights alone, and keep it for later starts"

DTYPES = ("float32", "bfloat16", "float16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of this command."""
    parser.add_argument("model", metavar="MODEL", help="a folder, or the id of a model in the local hub cache")
    parser.add_argument(
        "--mode", choices=[mode.value for mode in Mode if mode is not Mode.DENSE], help="for this mode (safe)"
    )
    parser.add_argument("--bits", type=int, choices=BITS, help="bits of a code (the mode's)")
    parser.add_argument("--dtype", choices=DTYPES, help="the type it will be served in (the checkpoint's)")
    parser.add_argument("--clusters", action="store_true", help="clusters too (takes minutes)")
    parser.add_argument("--seed", type=int, default=SEED, help="of all that is random (%(default)s)")
    parser.add_argument("--revision", help="of a hub id")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", metavar="FILE", help="write this file, instead of one in the user's cache")
    where.add_argument("--beside-model", action="store_true", help="write into MODEL/vplug_logits")
    parser.add_argument("--quiet", action="store_true", help="no progress, no word about the result")
    parser.add_argument("--child-of", type=int, metavar="PID", help=argparse.SUPPRESS)  # what a server starts


def run(arguments: argparse.Namespace) -> int:
    """Build, unless another process has built it while this one waited."""
    if arguments.child_of is not None:
        serve_parent(arguments.child_of)
    config = _config(arguments)
    if cache.folder_of(arguments.model, arguments.revision) is None:
        where = "is no folder, and has no such snapshot in the local hub cache; nothing is downloaded"
        raise BuildError(f"{arguments.model}: {where}. Download it first, or name its folder.")
    dtype = arguments.dtype or _dtype(arguments.model, arguments.revision)
    path, private = _path(arguments, config, dtype)
    before = _stamp(path)
    with cache.locked(path):
        now = _stamp(path)
        built_meanwhile = now is not None and now != before
        kept = arguments.child_of is not None and now is not None  # a server takes the one that is there
        if not built_meanwhile and not (kept and _is_sound(path)):
            _build(arguments, config, dtype, path, private=private)
    if not arguments.quiet:
        print(path)  # noqa: T201  # the result
    return 0


def _config(arguments: argparse.Namespace) -> Config:
    mode = Mode.CLUSTERS if arguments.clusters and arguments.mode is None else Mode(arguments.mode or Mode.SAFE)
    if arguments.clusters and mode is not Mode.CLUSTERS:
        raise ConfigError(f"--clusters: mode {mode} has none; leave out --mode, or --clusters.")
    return Config.of(mode, bits=arguments.bits)


def _dtype(model: str, revision: str | None) -> str:
    found = cache.dtype_of(model, revision)
    if found in DTYPES:
        return found
    raise ConfigError(f"--dtype: {model} does not say its type; possible: {', '.join(DTYPES)}.")


def _path(arguments: argparse.Namespace, config: Config, dtype: str) -> tuple[str, bool]:
    """The file to write, and whether it is to be this user's alone."""
    if arguments.out is not None:
        return os.path.abspath(arguments.out), arguments.child_of is not None
    if not arguments.beside_model:
        place = cache.place(arguments.model, config, dtype=dtype, revision=arguments.revision, seed=arguments.seed)
        return place, True
    if not os.path.isdir(arguments.model):
        raise ConfigError(f"--beside-model: {arguments.model} is no folder.")
    path = cache.place_beside(arguments.model, config, dtype=dtype, seed=arguments.seed)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        reason = f"cannot be made: {error.strerror or error}."
        raise ArtefactError(os.path.dirname(path), reason, next_step="Leave out --beside-model.") from error
    return path, False


def _stamp(path: str) -> tuple[int, int] | None:
    """Which file has this name now, or None."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _is_sound(path: str) -> bool:
    from vplug_logits.artefact import read

    try:
        read(path)
    except ArtefactError as error:
        sys.stderr.write(f"{error.path}: {error.reason} It is built anew.\n")
        return False
    return True


def _build(arguments: argparse.Namespace, config: Config, dtype: str, path: str, *, private: bool) -> None:
    from vplug_logits.build import build_model

    build_model(
        arguments.model,
        config,
        dtype=dtype,
        out=path,
        revision=arguments.revision,
        seed=arguments.seed,
        private=private,
        progress=on_terminal(quiet=arguments.quiet),
    )
