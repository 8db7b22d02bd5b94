"""Run the Python tests on the built wheel, on each other interpreter of 3.11 to 3.13 that is found.

Each gets an environment of its own with the pinned tools and the wheel from `dist`.  The tests that start every
interpreter themselves (mark `every_python`) are left out: they have run once already.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import interpreters  # noqa: E402  the path above is where it lies
import wheel_arguments  # noqa: E402  beside this file

REQUIREMENTS = ROOT / "requirements-dev.txt"


def run(*command: str | Path) -> int:
    """Run a command in the repository, and give its exit status."""
    return subprocess.run(command, cwd=ROOT, check=False, env=interpreters.clean_environment()).returncode


def environment(interpreter: interpreters.Interpreter, folder: Path, wheel: Path) -> Path:
    """Make or renew the environment for one interpreter, and give its Python."""
    python = folder / "bin" / "python"
    stamp = folder / ".requirements"
    wanted = f"{interpreter.executable} {hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()}"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
    if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
        subprocess.run([interpreter.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([*pip, "--require-hashes", "-r", REQUIREMENTS], check=True)
        stamp.write_text(wanted, "utf-8")
    subprocess.run([*pip, "--no-deps", "--no-index", "--force-reinstall", wheel], check=True)
    return python


def main() -> int:
    """Test each interpreter; the exit status is the number of those that failed."""
    arguments, wheel = wheel_arguments.parse(__doc__, "--environments")
    rows: list[str] = []
    failures = 0
    for minor in interpreters.MINORS:
        interpreter = interpreters.found().get(minor)
        if minor == sys.version_info.minor:
            rows.append(f"3.{minor}: this one, tested by `make test-python`")
        elif interpreter is None:
            rows.append(f"3.{minor}: SKIPPED, not found; name it in VPLUG_TEST_PYTHONS to test it")
        else:
            print(f"\n== the wheel on CPython {interpreter} ({interpreter.executable})", flush=True)
            start = time.monotonic()
            python = environment(interpreter, arguments.environments / f"3.{minor}", wheel)
            status = run(python, "-m", "pytest", "-m", "not every_python", *arguments.pytest)
            failures += status != 0
            outcome = "passed" if status == 0 else f"FAILED ({status})"
            rows.append(f"3.{minor}: {outcome} on {interpreter} in {time.monotonic() - start:.0f} s")
    print("\nPython tests on other interpreters:", *rows, sep="\n  ")
    return failures


if __name__ == "__main__":
    sys.exit(main())
