"""Run the Python tests on the built wheel, on each other interpreter of 3.11 to 3.13 that is found, side by side.

Each gets an environment of its own with the pinned tools and the wheel from `dist`.  Tests that run once (mark
`every_python`) are left out there: `make test-python` runs them, or `--here`, which adds the tests in this environment.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import interpreters  # noqa: E402  the path above is where it lies
import side_by_side  # noqa: E402  beside this file
import wheel_arguments  # noqa: E402  likewise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REQUIREMENTS = ROOT / "requirements-dev.txt"


def commands(
    interpreter: interpreters.Interpreter, folder: Path, wheel: Path, pytest: Sequence[str]
) -> Iterator[side_by_side.Words]:
    """Make or renew the environment for one interpreter, and test in it."""
    python = folder / "bin" / "python"
    stamp = folder / ".requirements"
    wanted = f"{interpreter.executable} {hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()}"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
        yield (interpreter.executable, "-m", "venv", "--clear", folder)
        yield (*pip, "--require-hashes", "-r", REQUIREMENTS)
        stamp.write_text(wanted, "utf-8")
    yield (*pip, "--no-deps", "--no-index", "--force-reinstall", wheel)
    # what pytest keeps between runs is of one interpreter, and another one writes at the same time
    yield (python, "-m", "pytest", "-m", "not every_python", "-o", f"cache_dir={folder / '.pytest_cache'}", *pytest)


def job(
    interpreter: interpreters.Interpreter, environments: Path, wheel: Path, pytest: Sequence[str]
) -> side_by_side.Job:
    """The tests of the wheel on one interpreter."""
    folder = environments / f"3.{interpreter.minor}"
    return side_by_side.Job(
        f"the wheel on CPython {interpreter} ({interpreter.executable})",
        environments / f"3.{interpreter.minor}.txt",
        lambda: commands(interpreter, folder, wheel, pytest),
        interpreters.clean_environment(HYPOTHESIS_STORAGE_DIRECTORY=str(folder / ".hypothesis")),
    )


def main() -> int:
    """Test each interpreter; the exit status is the number of those that failed."""
    arguments, wheel = wheel_arguments.parse(__doc__, "--environments", here="test in this environment, too")
    environments = arguments.environments.absolute()
    jobs: dict[int, side_by_side.Job] = {}
    if arguments.here:  # the longest, so it begins first
        running = interpreters.running()
        jobs[running.minor] = side_by_side.Job(
            f"the sources on CPython {running} ({running.executable})",
            environments / f"3.{running.minor}.txt",
            lambda: [(sys.executable, "-m", "pytest", *arguments.pytest)],
        )
    for minor, interpreter in sorted(interpreters.found().items()):
        if minor != sys.version_info.minor:
            jobs[minor] = job(interpreter, environments, wheel, arguments.pytest)
    try:
        side_by_side.run(list(jobs.values()), len(os.sched_getaffinity(0)), ROOT)
    except side_by_side.Interrupted as interrupted:
        print(f"\nended by {interrupted}; what there was to say is in {environments}/*.txt", flush=True)
        return 128 + interrupted.signal
    print(
        "\nPython tests on the interpreters:",
        *(row(minor, jobs.get(minor)) for minor in interpreters.MINORS),
        sep="\n  ",
    )
    return sum(one.status != 0 for one in jobs.values())


def row(minor: int, job: side_by_side.Job | None) -> str:
    """What became of one minor version."""
    if job is not None:
        outcome = f"FAILED ({job.status})" if job.status else "passed"
        return f"3.{minor}: {outcome} in {job.seconds:.0f} s: {job.title}"
    if minor == sys.version_info.minor:
        return f"3.{minor}: this one, tested by `make test-python`"
    return f"3.{minor}: SKIPPED, not found; name it in VPLUG_TEST_PYTHONS to test it"


if __name__ == "__main__":
    sys.exit(main())
