"""Releases that tests need from the package index: fetched, or the test is skipped aloud; in CI it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FETCH_SDIST = Path(__file__).resolve().parent.parent / "tools" / "fetch_sdist.py"


def download(where: Path, requirement: str, *options: str) -> Path:
    """Fetch one archive into an empty folder.

    Args:
        where: The folder.
        requirement: The release, as pip takes it.
        options: What else pip is told.
    """
    pip = ("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    _fetch(requirement, [*pip, *options, "--dest", where, requirement])
    (archive,) = where.iterdir()
    return archive


def sdist(where: Path, requirement: str) -> Path:
    """Fetch a source distribution; it is not built, as `pip download` would to learn what it needs.

    Args:
        where: The folder.
        requirement: The release, as NAME==VERSION.
    """
    archive = where / f"{requirement.replace('==', '-')}.tar.gz"
    _fetch(requirement, [FETCH_SDIST, requirement, archive])
    return archive


def _fetch(requirement: str, words: list[str | Path]) -> None:
    environment = os.environ | {"PIP_RETRIES": "1"}
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"{requirement} could not be fetched:\n{done.stderr}")
        pytest.skip(f"{requirement} comes from a package index, and none answers here")
