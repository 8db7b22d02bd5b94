"""The extension as it was built: for every interpreter, optimised, and no burden to a process that ends."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

kernels = pytest.importorskip("vplug_logits._kernels", reason="`make logits-extension` builds it", exc_type=ImportError)

PLUGIN = Path(__file__).resolve().parent.parent
EXTENSION = Path(str(kernels.__file__))

ENDS = """
import threading, time
import numpy
from vplug_logits import _kernels
data, busy = numpy.zeros(50_000_000, dtype=numpy.uint8), threading.Barrier(4)
def loop():
    busy.wait()
    while True:
        _kernels.read(data.__dlpack__(), 1)
for _ in range(3):
    threading.Thread(target=loop, daemon=True).start()
busy.wait()
time.sleep(0.05)
print("torch" in __import__("sys").modules)
"""


def test_one_serves_every_interpreter() -> None:
    assert EXTENSION.name == "_kernels.abi3.so"
    assert b"libpython" not in EXTENSION.read_bytes()


def test_it_is_the_optimised_one_of_these_sources() -> None:
    told = kernels.build_info()
    manifest = tomllib.loads((PLUGIN / "Cargo.toml").read_text("utf-8"))
    assert told["profile"] == "release", "figures are about `make logits-extension`, not about a debug build"
    assert told["version"] == manifest["package"]["version"]
    assert told["isa"] == told["available"][-1] and told["available"][0] == "portable"


@pytest.mark.parametrize("run", range(3))
def test_a_process_ends_while_daemon_threads_are_in_a_kernel(run: int) -> None:
    """CPython unwinds their stacks, through the frames of the kernels; torch is not there, which would not bear it."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS],
        env={"PYTHONPATH": str(PLUGIN / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
