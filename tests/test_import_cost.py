"""What a program pays that imports the package: few modules, no output, nothing of the forbidden list."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from interpreters import clean_environment, each_minor, import_root, need

if TYPE_CHECKING:
    from pathlib import Path

# Not before they are used; what an interpreter has loaded by itself does not count.
FORBIDDEN = {
    "csv", "dataclasses", "email", "importlib.metadata", "inspect", "json", "logging", "pathlib", "re", "tempfile",
    "typing", "zipfile",
}  # fmt: skip
FRAMEWORKS = {"jax", "numpy", "torch", "triton", "vllm", "vplug_logits"}

# `site` would have loaded os; it is left out so that the count does not depend on what is installed here.
MEASURE = """
import os, sys
before = set(sys.modules)
{statement}
new = sorted(set(sys.modules) - before)
print("NEW", *new)
"""


def new_modules(minor: int, root: Path, statement: str) -> set[str]:
    """Run a statement in a fresh interpreter, and give the modules that it loaded."""
    done = subprocess.run(
        [need(minor).executable, "-S", "-B", "-W", "error", "-c", MEASURE.format(statement=textwrap.dedent(statement))],
        env=clean_environment(PYTHONPATH=str(root)),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "it says something on stderr"
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"it says something on stdout: {lines[:-1]}"
    return set(lines[0].split()[1:])


def unwanted(loaded: set[str]) -> set[str]:
    """Pick those modules that the lists above name, their submodules included."""
    return {name for name in loaded if name in FORBIDDEN or name.partition(".")[0] in FORBIDDEN | FRAMEWORKS}


def test_the_lists_catch_what_they_are_for() -> None:
    assert unwanted({"email.message", "importlib.metadata._meta", "torch.nn", "importlib.machinery", "vplug_rs"}) == {
        "email.message",
        "torch.nn",
    }
    assert unwanted({"importlib.metadata"}) == {"importlib.metadata"}


@each_minor()
def test_the_measure_sees_modules_and_output(minor: int, tmp_path: Path) -> None:
    assert "json" in new_modules(minor, tmp_path, "import json")
    with pytest.raises(AssertionError, match="stdout"):
        new_modules(minor, tmp_path, "print('hello')")


@each_minor()
def test_the_import_loads_its_own_modules_alone(minor: int, tmp_path: Path) -> None:
    loaded = new_modules(minor, import_root(tmp_path / "root"), "import vplug_rs")
    assert unwanted(loaded) == set()
    # not even the extension: hosts ask for our entry points where it may not load
    assert loaded == {"vplug_rs"}


@each_minor()
def test_the_first_listing_loads_little_more(minor: int, tmp_path: Path) -> None:
    statement = "import vplug_rs\nvplug_rs.entry_points(group='no such group')"
    loaded = new_modules(minor, import_root(tmp_path / "root"), statement)
    assert unwanted(loaded) == set()
    assert len(loaded) <= 8, sorted(loaded)


@each_minor()
def test_results_load_no_forbidden_module_either(minor: int, tmp_path: Path) -> None:
    root = import_root(tmp_path / "root")
    info = root / "one-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[some.group]\na = json:dumps\n", "utf-8")
    statement = """
        import vplug_rs
        [point] = vplug_rs.entry_points(group="some.group")
        assert (point.name, point.value, point.group) == ("a", "json:dumps", "some.group"), point
    """
    assert unwanted(new_modules(minor, root, statement)) == set()


@each_minor()
def test_installing_does_not_import_the_genuine_module(minor: int, tmp_path: Path) -> None:
    loaded = new_modules(minor, import_root(tmp_path / "root"), "import vplug_rs\nvplug_rs.install()")
    assert "importlib.metadata" not in loaded
    assert unwanted(loaded) == set()


def test_every_public_name_is_there(tmp_path: Path) -> None:
    code = "import vplug_rs, json; print(json.dumps([n for n in vplug_rs.__all__ if not hasattr(vplug_rs, n)]))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=clean_environment(PYTHONPATH=str(import_root(tmp_path / "root"))),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    missing: list[Any] = json.loads(done.stdout)
    assert missing == []
