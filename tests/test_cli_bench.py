"""`vplug bench`: figures of the right shape. How small they are is for the benchmarks to say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vplug_rs
from cli_lab import CommandLab, lab

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


LISTENER = """
import os, sys
def hear(event, args):
    if event == "compile" and str(args[1]).endswith(".py"):
        with open({log!r}, "a") as log: log.write(f"{{os.getpid()}}\\n")
sys.addaudithook(hear)
with open({log!r}, "a") as log: log.write(f"start {{os.getpid()}}\\n")
"""


@pytest.mark.parametrize("more", [{}, {"PYTHONDONTWRITEBYTECODE": "1"}])
def test_no_measured_process_compiles_and_nothing_is_left(lab: CommandLab, site: Path, more: dict[str, str]) -> None:
    """Whatever stops Python from keeping byte code: here there is none yet, and it may not be written."""
    log, temporary = lab.root / "log", lab.site("temporary")
    (site / "sitecustomize.py").write_text(LISTENER.format(log=str(log)))
    lab.package.joinpath("vplug_rs").unlink()
    source = Path(vplug_rs.__file__).parent
    shutil.copytree(source, lab.package / "vplug_rs", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-B", *lab.command()[1:], "bench", "--rounds", "3"],
        env=lab.environment(site, TMPDIR=str(temporary), **more),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    started = [line.removeprefix("start ") for line in lines if line.startswith("start ")]
    compiling = {line for line in lines if not line.startswith("start ")}
    # One answer and one rehearsal for each side; what comes after is measured.
    assert len(started) >= 4 + 3 * 5
    assert compiling <= set(started[:4])
    assert list(temporary.iterdir()) == []
    assert not list(lab.package.rglob("__pycache__"))
