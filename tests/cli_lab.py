"""Sites for the tests of the command line, and the command run on them in a process of its own.

Every plugin module of such a site writes `touched` and raises, so that a command that imports one is found out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import interpreters

if TYPE_CHECKING:
    from collections.abc import Iterator

LOUD = "import pathlib\npathlib.Path({touched!r}).write_text(__name__)\nraise SystemExit('imported')\n"


class CommandLab:
    """A folder with sites in it, and `vplug` on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.touched = root / "touched"
        self.package = interpreters.import_root(root / "package")

    def site(self, name: str = "site") -> Path:
        """Make an empty folder for the path."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        return folder

    def plugin(
        self, site: Path, name: str, points: str | bytes | None = None, *, version: str = "1.0", module: bool = True
    ) -> Path:
        """Install a plugin: NAME-VERSION.dist-info, and NAME_mod.py which must never be imported."""
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if points is None:
            points = f"[demo.plugins]\n{name} = {name}_mod:run\n"
        (info / "entry_points.txt").write_bytes(points if isinstance(points, bytes) else points.encode())
        if module:
            (site / f"{name}_mod.py").write_text(LOUD.format(touched=str(self.touched)))
        return info

    def command(self, python: str = sys.executable) -> list[str]:
        """Give the words that run `vplug` on this path alone: no site-packages, no current folder."""
        return [python, "-S", "-P", "-m", "vplug_rs"]

    def environment(self, *path: Path, **more: str) -> dict[str, str]:
        """Give the environment that puts the sites on the path."""
        entries = os.pathsep.join([*map(str, path), str(self.package)])
        return interpreters.clean_environment(PYTHONPATH=entries) | more

    def run(
        self,
        path: Path | list[Path],
        *words: str,
        python: str = sys.executable,
        cwd: Path | None = None,
        **more: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run `vplug WORDS`; whatever it did, no plugin may have been imported."""
        path = [path] if isinstance(path, Path) else path
        done = subprocess.run(
            [*self.command(python), *words],
            env=self.environment(*path, **more),
            cwd=cwd or self.root,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not self.touched.exists(), f"imported: {self.touched.read_text()}"
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def json(self, path: Path | list[Path], *words: str, status: int = 0, **more: str) -> Any:
        """Run `vplug WORDS --json` and give the object."""
        done = self.run(path, *words, "--json", **more)  # type: ignore[arg-type]  # all of them for the environment
        assert done.returncode == status, done.stdout + done.stderr
        document = json.loads(done.stdout)
        assert document["schema"] == 1
        assert document["kind"] == words[0]
        return document


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[CommandLab]:
    """Give a place to build sites in."""
    made = CommandLab(tmp_path)
    yield made
    for folder in (path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()):
        folder.chmod(0o755)  # a test may have made it read-only
