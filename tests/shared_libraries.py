"""Which shared libraries an extension asks for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def needed(extension: Path) -> set[str]:
    """Give the NEEDED list of an extension; skip where nothing can read it."""
    readelf = shutil.which("readelf")
    if readelf is None or sys.platform != "linux":
        pytest.skip("needs readelf (package binutils) on Linux")
    shown = subprocess.run([readelf, "-d", extension], capture_output=True, text=True, check=True).stdout
    libraries = set(re.findall(r"\(NEEDED\).*\[(.+)\]", shown))
    assert any(name.startswith("libc.") for name in libraries), shown
    return libraries


def has_static_unwinder() -> bool:
    """Whether `build.rs` can have found the static half of libgcc."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return False
    asked = [compiler, "-print-file-name=libgcc_eh.a"]
    return Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()).is_file()
