"""What importing the distribution costs: nothing of torch, and no extension."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parent.parent / "python"
HEAVY = ("vplug_logits._kernels", "torch", "numpy", "transformers", "safetensors", "vllm", "triton")


@pytest.mark.parametrize("module", ["vplug_logits", "vplug_logits.errors"])
def test_an_import_brings_nothing_heavy(module: str) -> None:
    program = f"import sys; import {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCES)}
    )
    assert done.stdout.strip() == "[]"


def test_each_name_of_the_front_is_there() -> None:
    import vplug_logits

    for name in vplug_logits.__all__:
        assert getattr(vplug_logits, name).__name__ == name
