"""Random metadata files: with and without `install()` every answer and every error is the same."""

from __future__ import annotations

from pathlib import Path

from interpreters import each_minor
from strict_support import bench

SCRIPT = Path(__file__).with_name("strict_fuzz.py")


@each_minor()
def test_random_files_give_the_same_answers_and_errors(minor: int, tmp_path: Path) -> None:
    asked = bench(minor, tmp_path)
    done = asked.python("-S", "-P", "-B", str(SCRIPT), str(tmp_path / "site"), str(minor), "100")
    assert done.returncode == 0, done.stderr
    compared, raised, different = map(int, done.stdout.splitlines()[-1].split())
    assert different == 0, done.stdout
    assert compared > 2000
    assert raised > 100
