"""`vplug bench`: figures of the right shape. How small they are is for the benchmarks to say."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from cli_lab import CommandLab, lab

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["lab"]

ROWS = ["import", "first call", "later call", "whole process"]


@pytest.fixture
def site(lab: CommandLab) -> Path:
    folder = lab.site()
    for name in ("one", "two", "three"):
        lab.plugin(folder, name)
    return folder


def test_json(lab: CommandLab, site: Path) -> None:
    document = lab.json(site, "bench", "--rounds", "2")
    assert document["rounds"] == 2
    assert document["equal"] is True
    assert document["entry_points"] == {"importlib.metadata": 3, "vplug_rs": 3}
    assert list(document["times_ns"]) == ROWS
    for row in ("import", "first call", "later call"):
        for side in ("importlib.metadata", "vplug_rs"):
            assert 0 < document["times_ns"][row][side]["minimum"] <= document["times_ns"][row][side]["median"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_system_calls_are_counted(lab: CommandLab, site: Path) -> None:
    document = lab.json(site, "bench", "--rounds", "1", "--group", "demo.plugins")
    if document["system_calls"] is None:
        assert document["system_calls_missing"] == "strace cannot trace a process here"
        pytest.skip("strace may not trace here")
    first, later = document["system_calls"].values()
    assert first["vplug_rs"] < first["importlib.metadata"]
    assert 3 <= later["vplug_rs"] <= first["vplug_rs"]


def test_without_strace(lab: CommandLab, site: Path) -> None:
    done = lab.run(site, "bench", "--rounds", "1", PATH="/nonexistent")
    assert done.returncode == 0
    assert done.stderr == "note: strace not found: system calls not counted\n"
    assert [line.split("  ")[0] for line in done.stdout.splitlines()[3:]] == ROWS


def test_a_site_that_the_standard_library_cannot_read(lab: CommandLab, site: Path) -> None:
    lab.plugin(site, "broken", "[demo.plugins]\nfine = broken_mod:run\nno equals sign\n")
    done = lab.run(site, "bench", "--rounds", "1", "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["entry_points"] == {"importlib.metadata": None, "vplug_rs": 4}
    assert "TypeError" in document["errors"]["importlib.metadata"]
    assert list(document["times_ns"]["first call"]) == ["vplug_rs"]
    assert "`vplug doctor` names the package at fault" in done.stderr
