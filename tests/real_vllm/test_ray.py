"""Our variables on the way to Ray's workers, by vLLM's own forwarding, and in a worker of a local cluster."""

from __future__ import annotations

import importlib.util
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

import lab

if TYPE_CHECKING:
    from pathlib import Path

OURS = {"VPLUG_VLLM": "1", "VPLUG_STRICT": "0", "VPLUG_REQUIRE": "probe"}


def forwarded(folder: Path, probe: Path, *words: str, **more: str) -> Any:
    done = lab.run(folder, lab.program("forwarding", folder / "result", *words), lab.environment(folder, probe, **more))
    assert done.status == 0, done.log
    return done.answer


def test_without_us_they_stay_behind(tmp_path: Path, probe: Path) -> None:
    found = forwarded(tmp_path, probe, **{**OURS, "VPLUG_VLLM": "0"})
    assert found["ours"] == found["early"] == []
    assert "HF_HUB_OFFLINE" in found["others"]


def test_with_us_they_travel(tmp_path: Path, probe: Path) -> None:
    found = forwarded(tmp_path, probe, **OURS)
    assert found["ours"] == found["early"] == sorted(OURS)
    assert "HF_HUB_OFFLINE" in found["others"]


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_a_worker_of_a_cluster_takes_part(tmp_path: Path, probe: Path) -> None:
    # a path of a socket may have 107 characters
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short:
        more = {"RAY_TMPDIR": short, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
        found = forwarded(tmp_path, probe, "ray", **OURS, **more)
    before, state = found["worker"]
    assert before == OURS
    assert state == "active"
    general = [row for row in lab.events(tmp_path) if row["event"] == "general"]
    assert len(general) == 1
