"""The few files of vLLM's release that are the oracle: fetched from the package index, kept outside the repository."""

from __future__ import annotations

import fcntl
import os
import tempfile
import zipfile
from pathlib import Path

import package_index

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
MORE = {"pynvml": "vllm/third_party/pynvml.py"}
KEPT = Path(__file__).resolve().parent.parent / ".cache" / f"vllm-{RELEASE}"


def modules(*more: str) -> Path:
    """The folder that holds them, as `plugins.py` and so on; skips, or fails in CI, where they cannot be fetched.

    Args:
        more: Names in `MORE` that are needed, too.
    """
    if not _complete(more):
        KEPT.mkdir(parents=True, exist_ok=True)
        # interpreters are tested side by side, and one download of that size is enough
        with (KEPT / ".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _complete(more):
                _fetch()
    return KEPT


def _complete(more: tuple[str, ...]) -> bool:
    return all((KEPT / f"{name}.py").is_file() for name in (*MEMBERS, *more))


def _fetch() -> None:
    with tempfile.TemporaryDirectory(prefix="vplug-vllm-") as where:
        platform = ("--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64")
        wheel = package_index.download(Path(where), f"vllm=={RELEASE}", *platform)
        with zipfile.ZipFile(wheel) as archive:
            for name, member in (MEMBERS | MORE).items():
                new = KEPT / f".{name}.{os.getpid()}"
                new.write_bytes(archive.read(member))
                new.replace(KEPT / f"{name}.py")
