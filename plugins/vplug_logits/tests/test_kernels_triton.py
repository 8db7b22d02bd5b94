"""The Triton kernels without a GPU: interpreted, and compiled for GPUs that are not here.

The interpreter proves results, not what happens between programs that run at once: `triton_ops` argues that.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def child(arguments: list[str], cache: Path, *, interpret: bool) -> subprocess.CompletedProcess[str]:
    """Run Python beside the tests, with or without the interpreter, and a cache of its own."""
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(cache),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    environment.pop("TRITON_INTERPRET", None)
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@needs_triton
@pytest.mark.timeout(320)
def test_interpreted_the_kernels_pass_their_tests(tmp_path: Path) -> None:
    done = child(["-m", "pytest", "-q", "-p", "no:cacheprovider", "triton_kernels"], tmp_path, interpret=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@needs_triton
@pytest.mark.timeout(320)
def test_the_kernels_compile_for_gpus_and_fit_into_them(tmp_path: Path) -> None:
    done = child(["triton_kernels/compiled.py"], tmp_path, interpret=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) > 5
    for name, capability, shared in found:
        limit = {"80": 163, "90": 227}[capability] << 10
        assert int(shared) <= limit, name


def test_importing_the_backend_looks_neither_for_triton_nor_for_a_device(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "from vplug_logits.kernels import triton_backend, triton_bench\n"
        "print(any(name.partition('.')[0] == 'triton' for name in set(sys.modules) - before))\n"
        "print(torch.cuda.is_initialized())\n"
        "print(triton_backend.TritonBackend.name)\n"
    )
    done = child(["-c", code], tmp_path, interpret=False)
    assert done.stdout.split() == ["False", "False", "triton"], done.stderr


@pytest.mark.parametrize(
    "hide", ["import sys; sys.modules['triton'] = None", "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''"]
)
def test_without_triton_or_a_device_the_reason_is_a_sentence(hide: str, tmp_path: Path) -> None:
    code = f"{hide}\nfrom vplug_logits.kernels.triton_backend import available\nprint(available())"
    done = child(["-c", code], tmp_path, interpret=False)
    reasons = ("the package triton is not installed.", "was built without CUDA.", "torch finds no CUDA device.")
    assert done.stdout.strip().endswith(reasons), done.stderr
