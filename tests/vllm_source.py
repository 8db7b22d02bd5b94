"""The few files of vLLM's release that are the oracle: fetched from the package index, kept outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

RELEASE = "0.33.0"
MEMBERS = {
    "plugins": "vllm/plugins/__init__.py",
    "platforms": "vllm/platforms/__init__.py",
    "logits": "vllm/v1/sample/logits_processor/__init__.py",
    "logits_v2": "vllm/v1/worker/gpu/sample/logits_processor/loader.py",
    "io_processors": "vllm/plugins/io_processors/__init__.py",
    "endpoints": "vllm/plugins/endpoint_plugins/interface.py",
    "prometheus": "vllm/v1/metrics/prometheus.py",
}
KEPT = Path(__file__).resolve().parent.parent / ".cache" / f"vllm-{RELEASE}"


def modules() -> Path:
    """The folder that holds them, as `plugins.py` and so on; skips, or fails in CI, where they cannot be fetched."""
    if not all((KEPT / f"{name}.py").is_file() for name in MEMBERS):
        _fetch()
    return KEPT


def _fetch() -> None:
    with tempfile.TemporaryDirectory(prefix="vplug-vllm-") as where:
        options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--retries", "1")
        wanted = ("--platform", "manylinux_2_28_x86_64", "--dest", where, f"vllm=={RELEASE}")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", *options, *wanted],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            if os.environ.get("CI"):
                pytest.fail(f"vLLM's release could not be fetched:\n{done.stderr}")
            pytest.skip("vLLM's release comes from a package index, and none answers here")
        (wheel,) = Path(where).iterdir()
        KEPT.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name, member in MEMBERS.items():
                new = KEPT / f".{name}.{os.getpid()}"
                new.write_bytes(archive.read(member))
                new.replace(KEPT / f"{name}.py")
