"""importlib.metadata, importlib_metadata and vplug_rs in one process, in each of the six orders of import."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from interpreters import clean_environment, import_root, linked_packages, located
from sites import build, dist

if TYPE_CHECKING:
    from pathlib import Path

MODULES = ("importlib.metadata", "importlib_metadata", "vplug_rs.metadata")


@pytest.mark.parametrize("install", [False, True], ids=["alone", "installed"])
@pytest.mark.parametrize("order", list(itertools.permutations(MODULES)), ids="-".join)
def test_each_distribution_counts_once(order: tuple[str, ...], install: bool, tmp_path: Path) -> None:
    root = import_root(tmp_path / "root")
    linked_packages(root, [located(name) for name in ("importlib_metadata", "zipp")])
    site = build(
        tmp_path / "site",
        {**dist("one", "1", "[g]\na = m:f\n", RECORD="one.py,,\n"), **dist("two", "2", "[g]\nb = m:f\n"), "one.py": ""},
    )
    code = f"""
        import importlib, sys
        if {install}:
            importlib.import_module("vplug_rs").install()
        modules = [importlib.import_module(name) for name in {order!r}]
        keep = sys.path[:]
        sys.path[:] = [{str(site)!r}] + [p for p in keep if "site-packages" not in p]
        for md in modules:
            names = sorted(d.metadata["Name"] for d in md.distributions() if d.metadata["Name"] in ("one", "two"))
            assert names == ["one", "two"], (md, names)
            points = sorted(p.name for p in md.entry_points(group="g"))
            assert points == ["a", "b"], (md, points)
            assert md.packages_distributions()["one"] == ["one"], (md, md.packages_distributions())
            assert md.version("two") == "2", md
        print("ok")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=clean_environment(PYTHONPATH=str(root)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "ok", done.stdout + done.stderr
