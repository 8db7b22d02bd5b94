"""The interpreters that this machine has, for the tests that run on each of them.

Looked for, in this order: what `VPLUG_TEST_PYTHONS` lists (separated like PATH), the interpreter that runs the tests,
`python3.11` to `python3.13` on PATH, and the versions kept by pyenv.  One is taken of each minor version.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MINORS = (11, 12, 13)
_ASK = "import sys; print(*sys.version_info[:3], sys.implementation.name, sys.executable, sep='|')"


@dataclass(frozen=True)
class Interpreter:
    """A CPython that can be run, with its version."""

    executable: str
    version: tuple[int, int, int]

    @property
    def minor(self) -> int:
        """The 12 of 3.12.1."""
        return self.version[1]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def _candidates() -> Iterator[str]:
    for given in os.environ.get("VPLUG_TEST_PYTHONS", "").split(os.pathsep):
        if given:
            yield given
    yield sys.executable
    for minor in MINORS:
        # a shim of a version manager may answer "not installed" here; asking it decides
        if found := shutil.which(f"python3.{minor}"):
            yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted(root.glob("versions/3.*"), reverse=True):
        yield str(folder / "bin" / "python")


def _asked(executable: str) -> Interpreter | None:
    try:
        done = subprocess.run([executable, "-I", "-c", _ASK], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    parts = done.stdout.strip().split("|")
    if done.returncode or len(parts) != 5 or parts[3] != "cpython":
        return None
    return Interpreter(parts[4], (int(parts[0]), int(parts[1]), int(parts[2])))


@functools.cache
def found() -> dict[int, Interpreter]:
    """One interpreter for each minor version that is here."""
    chosen: dict[int, Interpreter] = {}
    for executable in _candidates():
        interpreter = _asked(executable)
        if interpreter and interpreter.version[0] == 3 and interpreter.minor in MINORS:
            chosen.setdefault(interpreter.minor, interpreter)
    return chosen


def each_minor() -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrise a test with `minor`: 11, 12, 13; `need(minor)` gives the interpreter or skips."""
    parametrised = pytest.mark.parametrize("minor", MINORS, ids=[f"py3.{minor}" for minor in MINORS])
    return lambda test: parametrised(pytest.mark.every_python(test))


def need(minor: int) -> Interpreter:
    """Give the interpreter of 3.minor, or skip the calling test and say how to provide one."""
    interpreter = found().get(minor)
    if interpreter is None:
        pytest.skip(f"no CPython 3.{minor} here: put python3.{minor} on PATH or name it in VPLUG_TEST_PYTHONS")
    return interpreter


def import_root(where: Path) -> Path:
    """Make in the folder `where` a folder to import from that holds `vplug_rs` and nothing else."""
    import vplug_rs

    return linked_packages(where, [str(Path(vplug_rs.__file__).parent)])


@functools.cache
def shared_import_root() -> Path:
    """Give one folder to import `vplug_rs` from for the whole run; removed at the end."""
    where = tempfile.mkdtemp(prefix="vplug-import-")
    atexit.register(shutil.rmtree, where, ignore_errors=True)
    return import_root(Path(where))


def running() -> Interpreter:
    """Give the interpreter that runs the tests."""
    return Interpreter(sys.executable, sys.version_info[:3])


def linked_packages(where: Path, sources: list[str]) -> Path:
    """Make links to packages or modules in the folder `where`, so that another interpreter can import just these."""
    where.mkdir(parents=True, exist_ok=True)
    for source in sources:
        (where / Path(source).name).symlink_to(source)
    return where


def located(module: str) -> str:
    """Where a pure Python module or package of this interpreter lies."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        pytest.skip(f"{module} is not installed: `make dev` installs what the tests need")
    origin = Path(spec.origin)
    return str(origin.parent if origin.name == "__init__.py" else origin)


def clean_environment(**more: str) -> dict[str, str]:
    """Give this process's environment without what steers Python, with `more` added."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VPLUG", "COV"))}
    return kept | more
