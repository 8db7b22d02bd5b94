"""The places that are measured: virtual environments with a synthetic or a real site-packages, and the libraries.

Everything lies in one work folder outside the repository and is made once. The libraries (ours and the others) go
into folders without any *.dist-info at the head of PYTHONPATH, the same for every candidate, so that all of them
see the same distributions and list the same folders.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import processes
import site_generator

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "python" / "vplug_rs"
SETTLE = 2.5  # seconds; younger than 2 s counts as dirty in the memo, and no real site is that young
REAL = "real"
REAL_GROUP = "mkdocs.themes"  # its plugins are empty modules, so that loading them (pluggy) costs next to nothing

_CHECK_PROFILE = "from vplug_rs import _core; print(_core.build_info()['profile'])"


def default_work() -> Path:
    """The cache folder; not below /tmp, where stevedore turns its disk cache off."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vplug-bench"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that every benchmark here has."""
    parser.add_argument(
        "--work", type=Path, default=default_work(), help="folder for sites and libraries, kept (%(default)s)"
    )
    parser.add_argument(
        "--python", action="append", metavar="X.Y|PATH", help="interpreters to measure (all that are found)"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, no figures to quote")
    parser.add_argument("--json", type=Path, help="write the result there")
    parser.add_argument(
        "--noise", type=float, default=0.3, help="processors that others may use in a quiet round (%(default)s)"
    )


@dataclass(frozen=True)
class Bed:
    """One environment to measure in."""

    title: str
    version: str
    python: Path
    site: Path
    path: str
    work: Path
    group: str

    def environment(self, extra: dict[str, str] | None = None) -> dict[str, str]:
        """Variables for a measured process; `{work}` in `extra` stands for the work folder."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VPLUG", "XDG_"))}
        values = {k: v.replace("{work}", str(self.work)) for k, v in (extra or {}).items()}
        return {**kept, "PYTHONPATH": self.path, "HOME": str(self.work / "home"), **values}


def _uv() -> list[str]:
    """How uv is called here: from PATH, or as a module of this interpreter."""
    found = shutil.which("uv")
    return [found] if found else [sys.executable, "-m", "uv"]


def _install(arguments: list[str]) -> None:
    done = subprocess.run(
        [*_uv(), "pip", "install", "--quiet", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"uv could not install what is to be measured:\n{done.stderr.strip()}")


def _strip(folder: Path) -> None:
    for info in folder.glob("*.dist-info"):
        shutil.rmtree(info)
    for other in folder.glob("*.pth"):
        other.unlink()


def _peers(python: Path, version: str, work: Path) -> Path:
    folder = work / f"peers-{version}"
    if not (folder / "pluggy").is_dir():
        _install(["--python", str(python), "--target", str(folder), "-r", str(HERE / "peers.txt")])
        _strip(folder)
    return folder


def library(python: Path, version: str, work: Path, requirement: str) -> Path:
    """A folder with one library and nothing else, its bytecode compiled as any user's is; `requirement` is pinned."""
    folder = work / f"{requirement.replace('==', '-')}-{version}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _install(["--python", str(python), "--target", str(folder), "--no-deps", requirement])
        subprocess.run([python, "-m", "compileall", "-q", folder], check=True)
        (folder / "complete").touch()
    return folder


def _product(work: Path) -> Path:
    """A fresh copy of our package as a wheel would install it."""
    folder = work / "product"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PACKAGE, folder / "vplug_rs", ignore=shutil.ignore_patterns("__pycache__"))
    if not list((folder / "vplug_rs").glob("_core*.so")):
        raise SystemExit("the extension is not built: run `make dev` first")
    return folder


def prepare(work: Path) -> Path:
    """Make the work folder, copy our package into it, go into its empty folder and raise our priority."""
    work = work.resolve()
    for name in ("home", "home-on", "cache-on", "cache-off/python-entrypoints", "empty"):
        (work / name).mkdir(parents=True, exist_ok=True)
    (work / "cache-off/python-entrypoints/.disable").touch()
    _product(work)
    os.chdir(work / "empty")
    if not processes.raise_priority():
        print("not root: other processes are not held back", file=sys.stderr)
    return work


def _fill(python: Path, folder: Path, size: int | None) -> None:
    site = folder / "lib" / f"python{folder.name.split('-')[1]}" / "site-packages"
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    if size is None:
        print("installing the real environment once …", file=sys.stderr)
        requirements = str(HERE / "real-environment.txt")
        _install(["--no-deps", "--only-binary", ":all:", "--python", str(folder / "bin/python"), "-r", requirements])
    else:
        site_generator.build(site, size)
    (folder / "complete").touch()


def bed(version: str, python: Path, work: Path, size: int | None) -> Bed:
    """A virtual environment of `size` synthetic distributions, or the real one where size is None.

    Raises:
        SystemExit: the extension does not come from a release build.
    """
    title = REAL if size is None else str(size)
    folder = work / f"bed-{version}-{title}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _fill(python, folder, size)
    path = os.pathsep.join(map(str, (work / "product", _peers(python, version, work))))
    site = folder / "lib" / f"python{version}" / "site-packages"
    group = REAL_GROUP if size is None else site_generator.GROUP
    result = Bed(title, version, folder / "bin/python", site, path, work, group)
    profile = processes.answer(result.python, _CHECK_PROFILE, result.environment())
    if profile != "release":
        raise SystemExit(f"this is a {profile} build; figures come from release builds only: run `make dev`")
    return result


def settle() -> None:
    """Let the folders age past the moment in which a memo must distrust them."""
    time.sleep(SETTLE)
