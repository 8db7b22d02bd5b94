"""Somebody is called right after a module was executed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vplug_logits.adapters.vllm.watch import when_imported


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from; the finders and modules are as before afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_it_is_called_once_with_the_whole_module(site: Path) -> None:
    (site / "watched_late.py").write_text("first = 1\nlast = 2\n", "utf-8")
    seen: list[Any] = []
    finders = len(sys.meta_path)
    when_imported("watched_late", lambda module: seen.append((module.__name__, module.last)))
    assert not seen
    module = importlib.import_module("watched_late")
    assert seen == [("watched_late", 2)]
    assert len(sys.meta_path) == finders
    assert "exec_module" not in vars(module.__loader__ or object())
    importlib.reload(module)
    assert len(seen) == 1


def test_a_module_that_is_there_is_handed_over_at_once(site: Path) -> None:
    (site / "watched_early.py").write_text("", "utf-8")
    module = importlib.import_module("watched_early")
    seen: list[ModuleType] = []
    when_imported("watched_early", seen.append)
    assert seen == [module]


def test_two_may_wait_for_the_same_module(site: Path) -> None:
    (site / "watched_twice.py").write_text("", "utf-8")
    seen: list[str] = []
    when_imported("watched_twice", lambda _: seen.append("a"))
    when_imported("watched_twice", lambda _: seen.append("b"))
    importlib.import_module("watched_twice")
    assert sorted(seen) == ["a", "b"]


def test_a_module_that_fails_fails_as_without_us_and_may_be_tried_again(site: Path) -> None:
    path = site / "watched_broken.py"
    path.write_text("raise RuntimeError('theirs')\n", "utf-8")
    seen: list[ModuleType] = []
    when_imported("watched_broken", seen.append)
    with pytest.raises(RuntimeError, match="theirs"):
        importlib.import_module("watched_broken")
    assert not seen


def test_other_modules_are_not_looked_at(site: Path) -> None:
    (site / "not_watched.py").write_text("", "utf-8")
    seen: list[ModuleType] = []
    when_imported("watched_never", seen.append)
    importlib.import_module("not_watched")
    assert not seen
