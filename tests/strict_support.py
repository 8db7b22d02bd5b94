"""Ask a fresh process the same thing twice: with the genuine module as it is, and after `install()`."""

from __future__ import annotations

import importlib.util
import subprocess
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from interpreters import clean_environment, import_root, linked_packages, located, need

INSTALL = "import vplug_rs\nundo = vplug_rs.install()\n"


@dataclass(frozen=True)
class Bench:
    """An interpreter, with nothing but the standard library and `vplug_rs` to import."""

    executable: str
    root: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter in the empty folder; without site-packages unless `arguments` begin otherwise."""
        return subprocess.run(
            [self.executable, *arguments],
            cwd=self.folder,
            env=clean_environment(PYTHONPATH=str(self.root), PYTHONHASHSEED="0") | self.environment | environment,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    def answer(self, script: str, *arguments: str, installed: bool) -> str:
        """What a script prints, standard error included; its failure is the test's."""
        code = (INSTALL if installed else "") + textwrap.dedent(script)
        done = self.python("-S", "-P", "-B", "-c", code, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def same(self, script: str, *arguments: str) -> str:
        """What a script prints, after checking that `install()` changes nothing of it."""
        genuine = self.answer(script, *arguments, installed=False)
        assert self.answer(script, *arguments, installed=True) == genuine
        return genuine


def bench(minor: int, tmp_path: Path) -> Bench:
    """The interpreter of 3.minor, or a skip that says what is missing."""
    interpreter = need(minor)
    folder = tmp_path / "empty"
    folder.mkdir()
    return Bench(interpreter.executable, import_root(tmp_path / "import"), folder)


def backport(where: Path) -> Path:
    """A folder to import `importlib_metadata` and what it needs from, or a skip that says what is missing."""
    needed = [located(name) for name in ("importlib_metadata", "zipp")]
    if importlib.util.find_spec("lazy_importer") is not None:  # newer releases need it
        needed.append(located("lazy_importer"))
    return linked_packages(where, needed)


def write(site: Path, files: dict[str, str]) -> Path:
    """Make a folder from `{relative path: text}`."""
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return site


def plain_site(site: Path, count: int = 3) -> Path:
    """A healthy site of `count` distributions, each with all metadata files."""
    files: dict[str, str] = {}
    for number in range(count):
        name = f"pkg{number}"
        files |= {
            f"{name}/__init__.py": "",
            f"{name}-1.{number}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.{number}\n"
            "Requires-Dist: x\n\nbody\n",
            f"{name}-1.{number}.dist-info/entry_points.txt": f"[demo.plugins]\n{name} = {name}:run\n",
            f"{name}-1.{number}.dist-info/RECORD": f"{name}/__init__.py,sha256=x,0\n",
        }
    return write(site, files)
