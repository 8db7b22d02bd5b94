"""The Python modules of the vLLM that follows the installed one: out of its wheel, kept outside the repository.

`VPLUG_VLLM_NEXT` names a folder that has them already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

RELEASE = "0.33.0"
KEPT = Path(__file__).resolve().parents[4] / ".cache" / f"vllm-{RELEASE}-modules"


def modules() -> Path:
    """The folder to put on the path; skips, or fails in CI, where the wheel (340 MB) cannot be fetched."""
    named = os.environ.get("VPLUG_VLLM_NEXT")
    if named:
        return Path(named)
    if not KEPT.is_dir():
        _fetch()
    return KEPT


def _fetch() -> None:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vplug-vllm-", dir=KEPT.parent) as where:
        wheel = _wheel(Path(where))
        new = Path(where, "modules")
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if name.endswith((".py", ".json", "METADATA"))]
            archive.extractall(new, wanted)
        try:
            new.replace(KEPT)
        except OSError:  # another process was quicker
            assert KEPT.is_dir()


def _wheel(where: Path) -> Path:
    platform = ["--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64"]
    words = ["download", "--quiet", "--no-deps", "--retries", "1", *platform, f"vllm=={RELEASE}", "--dest", str(where)]
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:  # uv makes none
        other = shutil.which("pip") or shutil.which("pip3")
        if other is None:
            pytest.skip(f"no pip is here that could fetch vLLM {RELEASE}")
        pip = [other]
    done = subprocess.run([*pip, *words], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"vLLM {RELEASE} could not be fetched:\n{done.stderr}")
        pytest.skip(f"vLLM {RELEASE} comes from a package index, and none answers here")
    (archive,) = where.glob("*.whl")
    return archive
