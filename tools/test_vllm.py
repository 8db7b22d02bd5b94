"""Run the tests in a real vLLM: make its environment, install the built wheel there, fetch vLLM's own tests.

Where the packages cannot be fetched it says so and ends well; in CI that is a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import interpreters  # noqa: E402  the path above is where it lies
import wheel_arguments  # noqa: E402  beside this file
from vllm_environment import RELEASE, NotFetched, environment, install  # noqa: E402

TESTS = ROOT / "tests" / "real_vllm"


def with_wheel(folder: Path, wheel: Path) -> Path:
    """The environment with the built wheel in it; its Python."""
    python = environment(folder)
    install(python, "--no-index", "--reinstall", wheel)
    # as pip installs it: else the first start that is measured pays for it
    compiling = "import compileall, os, vplug_rs; compileall.compile_dir(os.path.dirname(vplug_rs.__file__), quiet=1)"
    subprocess.run([python, "-P", "-c", compiling], check=True, env=interpreters.clean_environment())
    return python


def sources(folder: Path) -> Path:
    """The source distribution of vLLM, fetched by pip's own means but not built."""
    kept = folder / f"vllm-{RELEASE}.tar.gz"
    if not kept.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "fetch_sdist.py", f"vllm=={RELEASE}", new],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise NotFetched(f"vLLM's source distribution cannot be fetched:\n{done.stderr}")
        new.replace(kept)
    return kept


def main() -> int:
    """Test; the exit status is that of pytest."""
    arguments, wheel = wheel_arguments.parse(__doc__, "--environment")
    try:
        python = with_wheel(arguments.environment, wheel)
        archive = sources(ROOT / ".cache")
    except NotFetched as reason:
        print(f"SKIPPED, nothing was tested in a real vLLM: {reason}", file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    words: list[str | Path] = ["-P", "-m", "pytest", "-c", TESTS / "pytest.ini", "--vllm-sources", archive, TESTS]
    env = interpreters.clean_environment()
    return subprocess.run([python, *words, *arguments.pytest], cwd=ROOT, check=False, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
