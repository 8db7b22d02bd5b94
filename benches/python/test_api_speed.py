"""pytest-benchmark for the API, the standard library in the same table; every pair's answers are compared first.

python -m pytest benches/python --benchmark-only --benchmark-group-by=group
"""

from __future__ import annotations

import importlib.metadata
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import site_generator
import vplug_rs.metadata

SIZE = 300
SETTLE = 2.5
SIDES = (importlib.metadata, vplug_rs.metadata)


@pytest.fixture(scope="session", autouse=True)
def release_build() -> None:
    """Figures come from release builds only."""
    profile = importlib.import_module("vplug_rs._core").build_info()["profile"]
    if profile != "release":
        pytest.exit(f"this is a {profile} build: run `make dev`", returncode=2)


@pytest.fixture(scope="session")
def aged_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic site, old enough for the memo to trust."""
    site = tmp_path_factory.mktemp("bench") / "site-packages"
    site_generator.build(site, SIZE)
    for record in sorted(site.glob("*.dist-info/RECORD"))[:150]:
        for line in record.read_text(encoding="utf-8").splitlines():
            file = site / line.split(",")[0]  # ours lists what exists
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    time.sleep(SETTLE)
    return site


@pytest.fixture
def names(aged_site: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put the site alone on sys.path; a hundred of its projects."""
    monkeypatch.setattr(sys, "path", [str(aged_site)])
    found = sorted(distribution.name for distribution in importlib.metadata.distributions())
    return found[:100]


def _rows(entry_points: Any) -> list[tuple[str, str, str]]:
    if isinstance(entry_points, dict):  # without parameters, 3.11 gives groups
        entry_points = [e for points in dict.values(entry_points) for e in points]
    return sorted((e.name, e.value, e.group) for e in entry_points)


def _compare_then_time(
    benchmark: BenchmarkFixture,
    module: ModuleType,
    ask: Callable[[Any], Any],
    comparable: Callable[[Any], Any],
    *,
    first: bool = False,
) -> None:
    """Equality with importlib.metadata first, then the clock; `first` forgets everything before each call."""
    assert comparable(ask(vplug_rs.metadata)) == comparable(ask(importlib.metadata))
    if not first:
        benchmark(ask, module)
        return

    def forget() -> tuple[tuple[ModuleType], dict[str, Any]]:
        # what invalidate_caches() is for, but cannot be called on 3.11
        importlib.metadata.FastPath.__new__.cache_clear()  # type: ignore[attr-defined]
        vplug_rs.metadata.invalidate_caches()
        return (module,), {}

    benchmark.pedantic(  # type: ignore[no-untyped-call]
        ask, setup=forget, rounds=20
    )


sides = pytest.mark.parametrize("module", SIDES, ids=lambda module: module.__name__)


@sides
@pytest.mark.benchmark(group="entry_points, caches empty")
def test_entry_points_first(benchmark: BenchmarkFixture, module: ModuleType, names: list[str]) -> None:
    """One group, nothing remembered."""
    assert names
    _compare_then_time(benchmark, module, lambda m: m.entry_points(group=site_generator.GROUP), _rows, first=True)


@sides
@pytest.mark.benchmark(group="entry_points, later call")
def test_entry_points_later(benchmark: BenchmarkFixture, module: ModuleType, names: list[str]) -> None:
    """One group, asked again."""
    assert names
    _compare_then_time(benchmark, module, lambda m: m.entry_points(group=site_generator.GROUP), _rows)


@sides
@pytest.mark.benchmark(group="entry_points, all groups")
def test_entry_points_all(benchmark: BenchmarkFixture, module: ModuleType, names: list[str]) -> None:
    """Everything there is."""
    assert names
    _compare_then_time(benchmark, module, lambda m: m.entry_points(), _rows)


@sides
@pytest.mark.benchmark(group="version of 100 names")
def test_version(benchmark: BenchmarkFixture, module: ModuleType, names: list[str]) -> None:
    """A hundred versions."""
    _compare_then_time(benchmark, module, lambda m: [m.version(name) for name in names], list)


@sides
@pytest.mark.benchmark(group="packages_distributions")
def test_packages_distributions(benchmark: BenchmarkFixture, module: ModuleType, names: list[str]) -> None:
    """Import names to distributions."""
    assert names
    _compare_then_time(
        benchmark, module, lambda m: m.packages_distributions(), lambda r: {k: sorted(v) for k, v in r.items()}
    )


@sides
@pytest.mark.benchmark(group="files of 100 names")
def test_files(benchmark: BenchmarkFixture, module: ModuleType, names: list[str]) -> None:
    """The recorded files of a hundred distributions."""
    _compare_then_time(
        benchmark,
        module,
        lambda m: [list(m.files(name) or ()) for name in names],
        lambda lists: [sorted((str(f), f.size, f.hash and f.hash.value) for f in files) for files in lists],
    )
