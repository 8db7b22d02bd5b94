"""Random metadata files: with and without `install()` every answer and every error is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interpreters import each_minor
from strict_support import backport, bench

SCRIPT = Path(__file__).with_name("strict_fuzz.py")


@each_minor()
@pytest.mark.parametrize("module", ["importlib.metadata", "importlib_metadata"])
def test_random_files_give_the_same_answers_and_errors(minor: int, module: str, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    path = str(asked.root)
    if module == "importlib_metadata":
        path += os.pathsep + str(backport(tmp_path / "more"))
    script = [str(SCRIPT), module, str(tmp_path / "site"), str(minor), "60"]
    done = asked.python("-S", "-P", "-B", *script, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    compared, raised, different = map(int, done.stdout.splitlines()[-1].split())
    assert different == 0, done.stdout
    assert compared > 1500
    assert raised > 100
