"""Shared fixtures of the cases from public reports.

The module under test is named by the environment variable VPLUG_MODULE (default: vplug_rs.metadata); it must offer the
importlib.metadata names.  With VPLUG_CASES_INSTALL set, `vplug_rs.install()` is called first: an acceleration that
promises the standard's answers shows the standard's own expected failures.

Two marks are used:

* ``case(id, reports)``            which public reports the case comes from;
* ``standard_defect(why, modules=..)``  the standard's own answer is wrong (or was wrong in older releases); for those
  modules the case is an expected failure, for every other module it must pass.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MODULE = os.environ.get("VPLUG_MODULE", "vplug_rs.metadata")
STANDARD = ("importlib.metadata", "importlib_metadata")
HERE = Path(__file__).resolve().parent


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, and patch the genuine module when that is what is tested."""
    config.addinivalue_line("markers", "case(id, reports): origin of the case")
    config.addinivalue_line("markers", "standard_defect(why, modules): the standard itself gets it wrong")
    if os.environ.get("VPLUG_CASES_INSTALL"):
        import vplug_rs

        vplug_rs.install()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures that the module under test is known for."""
    for item in items:
        if HERE not in item.path.resolve().parents:
            continue
        for mark in item.iter_markers("standard_defect"):
            if MODULE in mark.kwargs.get("modules", STANDARD):
                item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=False))


@pytest.fixture
def md() -> Any:
    """Give the module under test."""
    return importlib.import_module(MODULE)


class Lab:
    """Builds tiny installations on disk and puts them on sys.path."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._mp = monkeypatch
        self._original = list(sys.path)
        self._modules: list[str] = []

    def dir(self, name: str) -> Path:
        """Make a folder."""
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def dist(
        self,
        where: Path,
        stem: str,
        points: str | bytes | None = None,
        *,
        meta: str | bool | None = None,
        files: Mapping[str, str | bytes] | None = None,
    ) -> Path:
        """Create WHERE/STEM, a .dist-info or .egg-info folder.

        Args:
            where: the folder for it.
            stem: its name.
            points: text of entry_points.txt.
            meta: text of METADATA or PKG-INFO; made from the stem when None, left out when False.
            files: further files of the folder, by name.
        """
        info = where / stem
        info.mkdir()
        base, _, suffix = stem.rpartition(".")
        if meta is None:
            name, _, version = base.partition("-")
            meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version or '1.0'}\n"
        if isinstance(meta, str):
            target = "METADATA" if suffix == "dist-info" else "PKG-INFO"
            (info / target).write_text(meta, encoding="utf-8")
        if points is not None:
            self.write(info / "entry_points.txt", points)
        for name, text in (files or {}).items():
            self.write(info / name, text)
        return info

    @staticmethod
    def write(path: Path, text: str | bytes) -> Path:
        """Write a file; text is dedented."""
        data = text if isinstance(text, bytes) else textwrap.dedent(text).lstrip("\n").encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def module(self, where: Path, name: str, source: str) -> Path:
        """Write a module that is forgotten again after the test."""
        self._modules.append(name)
        return self.write(where / f"{name}.py", source)

    def path(self, *entries: str | os.PathLike[str]) -> None:
        """Set sys.path to the entries and what was there before."""
        self._mp.setattr(sys, "path", [os.fspath(e) for e in entries] + self._original)

    def zip(self, name: str, tree: Mapping[str, str]) -> Path:
        """Write an archive."""
        target = self.root / name
        with zipfile.ZipFile(target, "w") as archive:
            for member, text in tree.items():
                archive.writestr(member, textwrap.dedent(text).lstrip("\n"))
        return target

    def run(self, code: str, *, path: tuple[Path, ...] = (), cwd: Path | None = None, timeout: float = 120) -> str:
        """Run CODE in a new interpreter, in which ``md`` is the module under test, and give what it printed."""
        install = "importlib.import_module('vplug_rs').install()\n" if os.environ.get("VPLUG_CASES_INSTALL") else ""
        prelude = (
            "import importlib, os, sys\n"
            f"sys.path[:0] = {[os.fspath(p) for p in path]!r}\n{install}"
            f"md = importlib.import_module({MODULE!r})\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", prelude + textwrap.dedent(code)],
            cwd=cwd or self.root,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def forget(self) -> None:
        """Drop the modules that were written."""
        for name in list(sys.modules):
            if name.split(".")[0] in self._modules:
                del sys.modules[name]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Give a place to build installations in."""
    made = Lab(tmp_path, monkeypatch)
    yield made
    made.forget()
