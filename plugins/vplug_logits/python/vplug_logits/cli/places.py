"""Where a command may write its results."""

from __future__ import annotations

import os
from pathlib import Path

from vplug_logits.errors import ConfigError


def writable(option: str, path: str | None) -> None:
    """Say before the work that its results have no place.

    Args:
        option: The option's name, without dashes.
        path: A file or folder to be, or None.

    Raises:
        ConfigError: The folder that it is to lie in is not there, or cannot be written to.
    """
    if path is None:
        return
    folder = Path(path).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{option}: {path} cannot be written: {folder} is no folder that you can write to.")
