"""Releases that tests need from the package index: fetched, or the test is skipped aloud; in CI it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def download(where: Path, requirement: str, *options: str) -> Path:
    """Fetch one archive into an empty folder.

    Args:
        where: The folder.
        requirement: The release, as pip takes it.
        options: What else pip is told.
    """
    pip = ("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--retries", "1")
    done = subprocess.run(
        [sys.executable, *pip, *options, "--dest", where, requirement],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"{requirement} could not be fetched:\n{done.stderr}")
        pytest.skip(f"{requirement} comes from a package index, and none answers here")
    (archive,) = where.iterdir()
    return archive
