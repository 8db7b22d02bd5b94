"""Which rooms of the Python face may ask the core, and which know the standard library alone."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import vplug_rs

PACKAGE = Path(vplug_rs.__file__).parent
# Rooms that know the standard library and each other: errors must be there when the extension does not load, and say
# why; groups are data.
GROUND = {"errors", "groups"}


def imported(source: str, package: str) -> set[str]:
    """Give the full names of all modules, or of names in modules, that a source imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def package_of(path: Path) -> str:
    """Give the package that relative imports of a file start from."""
    return ".".join(["vplug_rs", *path.relative_to(PACKAGE).parent.parts])


def test_the_reader_of_imports_sees_every_form() -> None:
    source = "import os.path\ndef f():\n  from . import _core, env\n  from .cli import run\n  from ..a import b\n"
    assert imported(source, "vplug_rs.x") == {
        "os.path",
        "vplug_rs.x._core",
        "vplug_rs.x.env",
        "vplug_rs.x.cli.run",
        "vplug_rs.a.b",
    }


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_stay_in_their_room(path: Path) -> None:
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    names = imported(path.read_text("utf-8"), package_of(path))
    outside = {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names | {"vplug_rs"}}
    # The backport that install() accelerates, the user's own that `vplug run` hands on to, and what later interpreters
    # have in the standard library.
    allowed = {"importlib_metadata", "annotationlib"}
    # what is there wherever the file is of use
    allowed |= {"_run": {"sitecustomize"}, "vllm": {"prometheus_client"}}.get(room, set())
    assert {name.partition(".")[0] for name in outside} <= allowed, outside
    own = {name for name in names if name.startswith("vplug_rs")}
    if room in GROUND:
        assert {name.split(".")[1] for name in own} <= GROUND, own
