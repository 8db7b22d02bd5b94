"""Where a command may write its results."""

from __future__ import annotations

import os
from pathlib import Path

from vplug_logits.errors import ConfigError


def writable(option: str, path: str | None, *, folder: bool = False) -> None:
    """Say before the work that its results have no place.

    Args:
        option: The option's name, without dashes.
        path: A file or folder to be, or None.
        folder: Whether it is to be a folder.

    Raises:
        ConfigError: The folder that it is to lie in is not there, or cannot be written to; or there is a folder in
            the place of a file, or a file in that of a folder.
    """
    if path is None:
        return
    parent = Path(path).parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ConfigError(f"{option}: {path} cannot be written: {parent} is no folder that you can write to.")
    if Path(path).exists() and Path(path).is_dir() != folder:
        told = "no folder; name one" if folder else "a folder; name a file"
        raise ConfigError(f"{option}: {path} is {told}.")
