"""Whole programs that live on importlib.metadata print the same with and without us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vplug_rs
from interpreters import clean_environment, each_minor
from strict_support import bench, write

PLUGGY = """
import pluggy
manager = pluggy.PluginManager("pytest")
print(manager.load_setuptools_entrypoints("pytest11"))
print([(dist.project_name, dist.version) for _, dist in manager.list_plugin_distinfo()])
"""
PROGRAMS = {
    "pip list": ["-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"],
    "pip show": ["-m", "pip", "--disable-pip-version-check", "show", "-f", "pytest", "hypothesis"],
    "pip check": ["-m", "pip", "--disable-pip-version-check", "check"],
    "pytest --version": ["-m", "pytest", "--version", "--version"],
    "pytest -q": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
    "flake8 --version": ["-m", "flake8", "--version"],
    "pluggy": ["-c", PLUGGY],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_prints_the_same(program: str, tmp_path: Path) -> None:
    write(tmp_path, {"test_it.py": "def test_it():\n    assert True\n"})
    words = [sys.executable, *PROGRAMS[program]]
    ran = []
    for command in (words, [sys.executable, "-m", "vplug_rs", "run", "--", *words]):
        # our package may lie on no path but this
        environment = clean_environment(PYTHONPATH=str(Path(vplug_rs.__file__).parent.parent), COLUMNS="200")
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
        )
        ran.append((done.returncode, _timeless(done.stdout), _timeless(done.stderr)))
    if "No module named" in ran[0][2]:
        pytest.skip(f"{program.split(maxsplit=1)[0]} is not installed here")
    assert ran[1] == ran[0]
    assert ran[0][1] + ran[0][2]


def _timeless(text: str) -> str:
    return "\n".join(line.partition(" in ")[0] for line in text.splitlines())


@each_minor()
def test_a_listing_does_not_import_zipfile(minor: int, tmp_path: Path) -> None:
    # 3.11 and 3.12 import it with the module itself; what counts is that a listing adds nothing.
    script = """
        import sys, importlib.metadata as m
        before = set(sys.modules)
        list(m.distributions()); m.entry_points(group="x")
        print(sorted(name for name in set(sys.modules) - before if "vplug" not in name))
    """
    asked = bench(minor, tmp_path)
    assert asked.answer(script, installed=True) == "[]\n"


def test_the_environment_is_the_only_means(tmp_path: Path) -> None:
    show = "import os, json; print(json.dumps(dict(os.environ)))"
    environment = clean_environment(PYTHONPATH=str(Path(vplug_rs.__file__).parent.parent))
    words = [sys.executable, "-c", show]
    plain = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    ours = subprocess.run(
        [sys.executable, "-m", "vplug_rs", "run", "--", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    folder = os.path.join(os.path.dirname(os.path.abspath(vplug_rs.__file__)), "_run")
    wanted = {**json.loads(plain), "PYTHONPATH": f"{folder}{os.pathsep}{environment['PYTHONPATH']}", "VPLUG_RUN": "1"}
    assert json.loads(ours) == wanted
