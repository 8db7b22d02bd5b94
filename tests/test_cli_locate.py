"""Where a module lies, looked up without importing: the interpreter's own `find_spec` is the oracle."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from vplug_rs.cli.locate import Locator, module_of

if TYPE_CHECKING:
    from pathlib import Path


def test_every_top_level_module_is_found_where_the_interpreter_finds_it() -> None:
    locator = Locator(sys.path)
    names = {module.name for module in pkgutil.iter_modules()}
    assert len(names) > 100
    for name in sorted(names):
        if not name.isidentifier() or name in {"__main__", "distutils"}:  # setuptools' import hook answers for one
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin in {None, "built-in", "frozen"}:
            continue
        found = locator.find(name)
        assert (found.state, found.path) == ("found", spec.origin), name


def test_submodules_of_imported_packages() -> None:
    locator = Locator(sys.path)
    for name in ("json.decoder", "email.mime.text", "importlib.metadata", "_pytest.config.argparsing"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert locator.find(name).path == spec.origin


def test_built_in() -> None:
    assert Locator([]).find("sys").state == "found"


@pytest.mark.parametrize("name", ["no_such_module_zzz", "json.no_such_module_zzz", "sys.zzz", "no_such.zzz"])
def test_missing(name: str) -> None:
    found = Locator(sys.path).find(name)
    assert found.state in {"missing", "unknown"}
    assert name.rsplit(".", maxsplit=1)[-1] in found.detail or name.split(".", maxsplit=1)[0] in found.detail


def test_in_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("alone.py", "raise SystemExit\n")
        file.writestr("pack/__init__.py", "raise SystemExit\n")
        file.writestr("pack/sub.py", "raise SystemExit\n")
    locator = Locator([str(archive)])
    assert locator.find("alone").state == "found"
    assert locator.find("pack.sub").state == "found"
    assert locator.find("pack.sub").path == str(archive / "pack" / "sub.py")
    assert locator.find("pack.gone").state != "found"


def test_a_package_wins_over_a_module_and_a_module_over_a_namespace(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "thing").mkdir(parents=True)
    (two / "thing").mkdir(parents=True)
    locator = Locator([str(one), str(two)])
    assert locator.find("thing").path == str(one / "thing")
    (two / "thing.py").write_text("")
    assert Locator([str(one), str(two)]).find("thing").path == str(two / "thing.py")
    (two / "thing" / "__init__.py").write_text("")
    assert Locator([str(one), str(two)]).find("thing").path == str(two / "thing" / "__init__.py")


def test_portions_of_a_namespace_are_searched_together(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "space").mkdir(parents=True)
    (two / "space").mkdir(parents=True)
    (two / "space" / "mod.py").write_text("")
    assert Locator([str(one), str(two)]).find("space.mod").path == str(two / "space" / "mod.py")


@pytest.mark.parametrize(
    ("value", "module"),
    [
        ("a.b:c.d", "a.b"),
        ("a", "a"),
        ("a.b : c [x, y]", "a.b"),
        ("a [x]", "a"),
        ("é:ü", "é"),
        ("a-b:c", None),
        ("", None),
        (":c", None),
        ("a..b:c", None),
    ],
)
def test_the_module_of_a_value(value: str, module: str | None) -> None:
    assert module_of(value) == module


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_what_is_no_regular_file_is_passed_over_as_the_interpreter_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("pipe_pack", "folder_pack"):
        (tmp_path / package).mkdir()
    os.mkfifo(tmp_path / "pipe_pack" / "__init__.py")
    (tmp_path / "folder_pack" / "__init__.py").mkdir()
    os.mkfifo(tmp_path / "pipe_mod.py")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    locator = Locator([str(tmp_path)])
    for name in ("pipe_pack", "folder_pack", "pipe_mod", "pipe_pack.sub"):
        spec = importlib.util.find_spec(name)
        assert (locator.find(name).state == "found") == (spec is not None), name
        assert spec is None or spec.origin is None
