"""Finds the supported interpreters of this machine, in a general way, and says which are missing.

Looked at in this order: VPLUG_TEST_PYTHONS (paths, separated as PATH is), the versions of pyenv (PYENV_ROOT or
~/.pyenv), python3.11 to python3.13 on PATH. The first of each minor version wins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13")
_ASK = "import sys; print('%d.%d' % sys.version_info[:2], getattr(sys, '_base_executable', None) or sys.executable)"


def _places() -> Iterator[str]:
    yield from filter(None, os.environ.get("VPLUG_TEST_PYTHONS", "").split(os.pathsep))
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in SUPPORTED:
        yield from map(str, sorted(root.glob(f"versions/{version}*/bin/python")))
    yield from filter(None, (shutil.which(f"python{version}") for version in SUPPORTED))
    yield sys.executable


def _ask(python: str) -> tuple[str, Path] | None:
    try:
        answer = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    version, _, path = answer.stdout.strip().partition(" ")
    return (version, Path(path)) if answer.returncode == 0 and path else None


def find(wanted: list[str] | None = None) -> dict[str, Path]:
    """The interpreters to measure: minor version -> executable.

    Args:
        wanted: paths or minor versions ("3.12"); all supported versions where it is empty or None.

    Raises:
        SystemExit: none was found.
    """
    versions = [w for w in wanted or () if w in SUPPORTED]
    paths = [w for w in wanted or () if w not in SUPPORTED]
    found: dict[str, Path] = {}
    for place in paths if paths and not versions else [*paths, *_places()]:
        answer = _ask(place)
        if answer and answer[0] in (versions or SUPPORTED):
            found.setdefault(*answer)
    missing = [v for v in (versions or SUPPORTED) if v not in found] if not paths else []
    if missing:
        print(f"skipped, no interpreter found: {', '.join(missing)}", file=sys.stderr)
    if not found:
        raise SystemExit("no supported interpreter found; name some in VPLUG_TEST_PYTHONS")
    return dict(sorted(found.items()))
