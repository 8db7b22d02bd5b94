"""CPython's own metadata tests and those of importlib_metadata, run against us on every interpreter.

The counts are exact: a test that can no longer be collected, or a new skip, is a failure too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import package_index
from interpreters import clean_environment, each_minor, import_root, linked_packages, located, need, running

RUNNER = Path(__file__).resolve().parent / "oracle" / "run_upstream_metadata_tests.py"
STDLIB_PASSED = {11: 83, 12: 83, 13: 86}
SDIST_RELEASE = "10.2.0"

MODES = pytest.mark.parametrize(
    "mode",
    [("--candidate", "vplug_rs.metadata"), ("--install", "vplug_rs:install")],
    ids=["candidate", "install"],
)


def run_suite(minor: int, root: Path, *arguments: str, cwd: Path) -> tuple[str, str]:
    """Run the runner under one interpreter; give its last line and all it printed."""
    interpreter = need(minor)
    program = interpreter.executable
    if interpreter == running():
        # an environment's packages change what is skipped, and have import names that the suites give to theirs
        program = getattr(sys, "_base_executable", program)
    done = subprocess.run(
        [program, "-B", str(RUNNER), "--path", str(root), *arguments],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if "installed without its test package" in done.stdout:
        pytest.skip(f"CPython {interpreter} at {interpreter.executable} comes without its test package")
    return (done.stdout.strip().splitlines() or [""])[-1], done.stdout + done.stderr


@each_minor()
@MODES
@pytest.mark.parametrize("fakefs", [False, True], ids=["bare", "pyfakefs"])
def test_stdlib_suite(minor: int, mode: tuple[str, str], fakefs: bool, tmp_path: Path) -> None:
    root = import_root(tmp_path / "import")
    if fakefs:
        linked_packages(root, [located("pyfakefs")])
    last, output = run_suite(minor, root, "--suite", "stdlib", *mode, cwd=tmp_path)
    expected = (STDLIB_PASSED[minor] + 1, 0) if fakefs else (STDLIB_PASSED[minor], 1)
    assert last == "{} passed, 0 failed, {} skipped".format(*expected), output


@each_minor()
def test_stdlib_suite_with_a_late_install(minor: int, tmp_path: Path) -> None:
    arguments = ("--suite", "stdlib", "--install", "vplug_rs:install", "--install-when", "after")
    last, output = run_suite(minor, import_root(tmp_path / "import"), *arguments, cwd=tmp_path)
    assert last == f"{STDLIB_PASSED[minor]} passed, 0 failed, 1 skipped", output


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fetch the release whose suite is run, once for all interpreters."""
    return package_index.sdist(tmp_path_factory.mktemp("sdist"), f"importlib_metadata=={SDIST_RELEASE}")


@each_minor()
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_importlib_metadata_suite(minor: int, sdist: Path, tmp_path: Path) -> None:
    arguments = ("--sdist", str(sdist), "--install", "vplug_rs:install")
    last, output = run_suite(minor, import_root(tmp_path / "import"), *arguments, cwd=tmp_path)
    assert last == "119 passed, 0 failed, 1 skipped", output
