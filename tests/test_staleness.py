"""A resident process is never stale: whatever changes an installation, it answers as a fresh interpreter does.

Two residents are asked side by side, our flavour and the genuine module after install().  What they remember counts
only once the files are older than two seconds, so before the changes that no directory shows they are asked, left
alone for that long, and asked again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interpreters import clean_environment, running, shared_import_root
from servers import INSTALLED, OURS, Server
from sites import wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.slow, pytest.mark.every_python, pytest.mark.timeout(300)]  # once is enough: it takes a minute

SETTLE = 2.2
GROUP = "stale.group"
FRESH = f"""
import json, sys, importlib.metadata as md
points = sorted([p.name, p.value] for p in md.entry_points(group={GROUP!r}))
versions = sorted([d.name, d.version] for d in md.distributions() if (d.name or "").startswith("stale"))
print(json.dumps([sys.path, points, versions]))
"""
# A build backend without dependencies: an editable wheel is a .pth file and the metadata.
BACKEND = """
import sys, pathlib
sys.path.insert(0, {tests!r})
from sites import wheel
here = pathlib.Path(__file__).parent
def build_wheel(folder, *_):
    return wheel(pathlib.Path(folder), "staleb", "1.0", (here / "points.txt").read_text()).name
def build_editable(folder, *_):
    import zipfile
    made = wheel(pathlib.Path(folder), "staleb", "1.0", (here / "points.txt").read_text())
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("__editable__.staleb.pth", str(here / "src"))
    return made.name
"""


def points(value: str) -> str:
    """Text of an entry_points.txt with one entry point; every `value` of these tests has the same length."""
    return f"[{GROUP}]\nstale = {value}\n"


class Bed:
    """A virtual environment, two residents that watch it, and a fresh interpreter as the judge."""

    def __init__(self, where: Path) -> None:
        self.where = where
        subprocess.run([sys.executable, "-m", "venv", str(where / "venv")], check=True, capture_output=True)
        self.python = str(where / "venv" / "bin" / "python")
        asked = [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        self.site = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
        self.residents = [Server(running().executable, shared_import_root(), what) for what in (OURS, INSTALLED)]
        self.compared = 0

    def run(self, *command: str, cwd: Path | None = None) -> None:
        """Run an installer, without a network."""
        settings = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_OFFLINE": "1", "UV_NO_CACHE": "1"}
        done = subprocess.run(
            command,
            env=clean_environment(**settings, SETUPTOOLS_USE_DISTUTILS="local"),
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def pip(self, verb: str, *arguments: str) -> None:
        """Run the environment's own pip."""
        options = ("-q", "--no-deps") if verb == "install" else ("-q", "-y")
        self.run(self.python, "-m", "pip", verb, *options, *arguments)

    def uv(self, verb: str, *arguments: str) -> None:
        """Run uv on the environment."""
        program = Path(sys.executable).with_name("uv")
        options = ("-q", "--no-deps") if verb == "install" else ("-q",)
        self.run(str(program), "pip", verb, "--python", self.python, *options, *arguments)

    def wheel(self, version: str, value: str) -> str:
        """Make a wheel of `stalea` of its own content."""
        return str(
            wheel(self.where / f"wheel-{version}-{value[-3:]}", "stalea", version, points(value) if value else "")
        )

    @property
    def points(self) -> Path:
        """The installed entry_points.txt of `stalea`."""
        (info,) = self.site.glob("stalea-*.dist-info")
        return info / "entry_points.txt"

    def judge(self) -> tuple[list[str], list[Any], list[Any]]:
        """Ask a fresh interpreter of the environment."""
        done = subprocess.run(
            [self.python, "-c", FRESH], env=clean_environment(), cwd="/", check=True, capture_output=True, text=True
        )
        path, found, versions = json.loads(done.stdout)
        return path, found, versions

    def check(self, label: str) -> list[Any]:
        """Compare both residents with the judge; give the judge's entry points."""
        path, found, versions = self.judge()
        for resident in self.residents:
            answers = dict(resident.ask(path, short=True)["answers"])
            assert answers["entry_points()"][0] == "ok", (label, answers)
            got = sorted([p[0], p[1]] for p in answers["entry_points()"][1] if p[2] == GROUP)
            pairs = sorted([n[1], v[1]] for n, v in answers["distributions()"][1] if str(n[1]).startswith("stale"))
            assert (got, pairs) == (found, versions), f"{label}: {resident.what}"
            self.compared += 1
        return found

    def step(self, label: str, operation: Callable[[], object], *, settle: bool = False, changes: bool = True) -> None:
        """Ask, perhaps let the files age, ask, do it, ask."""
        before = self.check(f"before {label}")
        if settle:
            time.sleep(SETTLE)
            self.check(f"settled before {label}")
        operation()
        after = self.check(label)
        assert (before != after) is changes, f"{label} was to {'' if changes else 'not '}change the answer"

    def close(self) -> None:
        """End the residents."""
        for resident in self.residents:
            resident.close()


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    made = Bed(tmp_path_factory.mktemp("stale"))
    yield made
    made.close()


@pytest.fixture
def installed(bed: Bed) -> Iterator[Bed]:
    """Give the bed with `stalea` in it."""
    bed.pip("install", bed.wheel("1.0", "stalea:one"))
    yield bed
    for left in bed.site.glob("stalea*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    bed.check("cleared")


def test_pip(bed: Bed) -> None:
    bed.step("pip install", lambda: bed.pip("install", bed.wheel("1.0", "stalea:one")), settle=True)
    other = bed.wheel("1.0", "stalea:two")
    bed.step("pip install --upgrade, same version", lambda: bed.pip("install", "--upgrade", other), changes=False)
    bed.step("pip install --force-reinstall", lambda: bed.pip("install", "--force-reinstall", other))
    bed.step("pip install --upgrade", lambda: bed.pip("install", "--upgrade", bed.wheel("2.0", "stalea:six")))
    bed.step("pip uninstall", lambda: bed.pip("uninstall", "stalea"))
    bed.step("pip install without entry points", lambda: bed.pip("install", bed.wheel("3.0", "")), changes=False)
    bed.step("pip uninstall again", lambda: bed.pip("uninstall", "stalea"), changes=False)


@pytest.mark.skipif(
    not Path(sys.executable).with_name("uv").exists(), reason="uv is not installed beside this interpreter"
)
def test_uv(bed: Bed) -> None:
    bed.step("uv pip install", lambda: bed.uv("install", bed.wheel("1.0", "stalea:one")), settle=True)
    bed.step(
        "uv pip install --reinstall",
        lambda: bed.uv("install", "--reinstall", bed.wheel("1.0", "stalea:two")),
        settle=True,
    )
    bed.step("uv pip install --upgrade", lambda: bed.uv("install", "--upgrade", bed.wheel("2.0", "stalea:six")))
    bed.step("uv pip uninstall", lambda: bed.uv("uninstall", "stalea"))


def test_editable(bed: Bed) -> None:
    source = bed.where / "editable"
    (source / "src").mkdir(parents=True)
    (source / "backend.py").write_text(BACKEND.format(tests=str(Path(__file__).parent)), encoding="utf-8")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n', encoding="utf-8"
    )
    text = source / "points.txt"
    text.write_text(points("staleb:one"), encoding="utf-8")
    bed.step("pip install -e", lambda: bed.pip("install", "--no-build-isolation", "-e", str(source)))
    bed.step(
        "edit of an editable, not installed again",
        lambda: text.write_text(points("staleb:two"), encoding="utf-8"),
        changes=False,
    )
    bed.step("pip install -e again", lambda: bed.pip("install", "--no-build-isolation", "-e", str(source)))
    text.write_text(points("staleb:six"), encoding="utf-8")
    if Path(sys.executable).with_name("uv").exists():
        bed.step(
            "uv pip install -e again",
            lambda: bed.uv("install", "--no-build-isolation", "--reinstall", "-e", str(source)),
        )
    bed.step("pip uninstall of an editable", lambda: bed.pip("uninstall", "staleb"))


def test_develop(bed: Bed) -> None:
    """`setup.py develop`, by setuptools where the environment has it, else the same changes by hand."""
    source = bed.where / "develop"
    info = source / "stalec.egg-info"
    source.mkdir()
    asked = [bed.python, "-c", "import setuptools"]
    by_setuptools = subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def egg_info(value: str) -> None:
        if by_setuptools:
            declared = {GROUP: [f"stale = {value}"]}
            setup = f"from setuptools import setup\nsetup(name='stalec', version='1.0', entry_points={declared!r})\n"
            (source / "setup.py").write_text(setup, encoding="utf-8")
            bed.run(bed.python, "setup.py", "-q", "egg_info", cwd=source)
            return
        info.mkdir(exist_ok=True)
        (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: stalec\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(points(value), encoding="utf-8")

    def develop(value: str) -> None:
        egg_info(value)
        if by_setuptools:
            bed.run(bed.python, "setup.py", "-q", "develop", "--no-deps", cwd=source)
            return
        (bed.site / "stalec.egg-link").write_text(f"{source}\n.", encoding="utf-8")
        (bed.site / "easy-install.pth").write_text(f"{source}\n", encoding="utf-8")

    def undo() -> None:
        if by_setuptools:
            bed.run(bed.python, "setup.py", "-q", "develop", "--uninstall", cwd=source)
            return
        (bed.site / "stalec.egg-link").unlink()
        (bed.site / "easy-install.pth").unlink()

    bed.step("setup.py develop", lambda: develop("stalec:one"))
    bed.step("setup.py egg_info again", lambda: egg_info("stalec:two"), settle=True)
    bed.step("setup.py develop again", lambda: develop("stalec:six"))
    bed.step("setup.py develop --uninstall", undo)


def test_edits(installed: Bed) -> None:
    bed = installed

    def rename() -> None:
        other = bed.points.with_name("entry_points.txt.tmp")
        other.write_text(points("stalea:six"), encoding="utf-8")
        other.replace(bed.points)

    def keep_times() -> None:
        stamp = bed.points.stat()
        with bed.points.open("r+", encoding="utf-8") as stream:
            stream.write(points("stalea:ten"))
        os.utime(bed.points, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    def in_place() -> None:
        with bed.points.open("r+", encoding="utf-8") as stream:
            stream.write(points("stalea:two"))

    bed.step("edit in place, same size", in_place, settle=True)
    bed.step("edit by rename", rename, settle=True)
    bed.step("edit in place, mtime put back", keep_times, settle=True)
    bed.step("removal of the file", bed.points.unlink, settle=True)
    bed.step(
        "file added to an existing folder",
        lambda: bed.points.write_text(points("stalea:new"), encoding="utf-8"),
        settle=True,
    )
    text = bed.points.with_name("METADATA").read_text(encoding="utf-8")
    bed.points.with_name("METADATA").write_text(text.replace("1.0", "1.5"), encoding="utf-8")
    bed.check("version edited in place")


def test_a_tree_replaced_with_its_times_restored(installed: Bed) -> None:
    """What rsync -a, tar and image layers do."""
    bed = installed

    def restore() -> None:
        stamp = bed.site.stat()
        info = bed.points.parent
        shutil.copytree(info, bed.where / "copy", copy_function=shutil.copy2)
        shutil.rmtree(info)
        shutil.copytree(bed.where / "copy", info, copy_function=shutil.copy2)
        bed.points.write_text(points("stalea:two"), encoding="utf-8")
        shutil.copystat(bed.where / "copy" / "entry_points.txt", bed.points)
        shutil.copystat(bed.where / "copy", info)
        os.utime(bed.site, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    bed.step("tree replaced, times restored", restore, settle=True)
    stamp = bed.site.stat()

    def another() -> None:
        shutil.copytree(bed.points.parent, bed.site / "stalez-1.0.dist-info")
        (bed.site / "stalez-1.0.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: stalez\nVersion: 1.0\n", encoding="utf-8"
        )
        os.utime(bed.site, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    path, _, _ = bed.judge()
    time.sleep(SETTLE)
    for resident in bed.residents:
        resident.ask(path, short=True)
    another()
    bed.check("a folder added, mtime of the site restored")
    shutil.rmtree(bed.site / "stalez-1.0.dist-info")


def test_an_image_rebuilt_with_normalised_times(installed: Bed) -> None:
    bed = installed
    epoch = 315532800 * 10**9

    def normalise() -> None:
        for folder, folders, files in os.walk(bed.site):
            for name in (*folders, *files):
                os.utime(Path(folder) / name, ns=(epoch, epoch))
        os.utime(bed.site, ns=(epoch, epoch))

    def rebuild() -> None:
        with bed.points.open("r+", encoding="utf-8") as stream:
            stream.write(points("stalea:two"))
        normalise()

    normalise()
    bed.step("image rebuilt with normalised times", rebuild, settle=True)


def test_the_install_race(bed: Bed) -> None:
    """A metadata folder is asked for before its files are written: nothing of that moment may stay."""
    for i in range(5):
        info = bed.site / f"stalerace{i}-1.0.dist-info"
        info.mkdir()
        bed.check("folder made, no file yet")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stalerace{i}\nVersion: 1.0\n", encoding="utf-8")
        bed.check("METADATA written")
        if i == 4:
            time.sleep(SETTLE)
            bed.check("settled")
        (info / "entry_points.txt").write_text(points(f"stalea:{i:03}"), encoding="utf-8")
        assert ["stale", f"stalea:{i:03}"] in bed.check("entry_points.txt written")
    for left in bed.site.glob("stalerace*"):
        shutil.rmtree(left)
    bed.check("removed")


def test_three_hundred_quick_rewrites(installed: Bed) -> None:
    bed = installed
    path, _, _ = bed.judge()
    wrong = {resident.what: 0 for resident in bed.residents}
    for i in range(300):
        with bed.points.open("r+", encoding="utf-8") as stream:
            stream.write(points(f"stalea:{i:03}"))
        for resident in bed.residents:
            answer = dict(resident.ask(path, short=True)["answers"])["entry_points()"]
            wrong[resident.what] += [f"stalea:{i:03}"] != [p[1] for p in answer[1] if p[2] == GROUP]
    assert set(wrong.values()) == {0}, wrong


def test_a_changed_current_folder(bed: Bed, tmp_path: Path) -> None:
    """Relative entries follow the current folder, also when both folders have the same times."""
    for name in ("one", "two"):
        info = tmp_path / name / "lib" / f"stale{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stale{name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(points(f"stale:{name}"), encoding="utf-8")
        os.utime(tmp_path / name / "lib", ns=(10**18, 10**18))
    resident = bed.residents[0]
    for name in ("one", "two", "one"):
        for entry in ("lib", "", "./lib"):
            cwd = tmp_path / name / ("" if entry else "lib")
            answer = dict(resident.ask([entry], short=True, cwd=str(cwd))["answers"])
            assert [p[1] for p in answer["entry_points()"][1]] == [f"stale:{name}"]


def test_a_link_that_is_switched(bed: Bed, tmp_path: Path) -> None:
    """Atomic deployments switch a link between two trees whose folders have equal times."""
    for name in ("one", "two"):
        info = tmp_path / name / "stalelink-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stalelink\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(points(f"stale:{name}"), encoding="utf-8")
        for path in (info / "METADATA", info / "entry_points.txt", info, tmp_path / name):
            os.utime(path, ns=(10**18, 10**18))
    link = tmp_path / "current"
    link.symlink_to("one")
    for name in ("two", "one", "two"):
        for resident in bed.residents:
            resident.ask([str(link)], short=True)
        time.sleep(SETTLE if name == "two" else 0)
        for resident in bed.residents:
            resident.ask([str(link)], short=True)
        link.unlink()
        link.symlink_to(name)
        for resident in bed.residents:
            answer = dict(resident.ask([str(link)], short=True)["answers"])
            assert [p[1] for p in answer["entry_points()"][1]] == [f"stale:{name}"], resident.what


def test_metadata_that_is_a_link_whose_target_comes_and_goes(bed: Bed, tmp_path: Path) -> None:
    """Neither shows in the stamp of the folder that is listed."""
    site, target = tmp_path / "site", tmp_path / "target"
    site.mkdir()
    (site / "stalelink-1.0.dist-info").symlink_to(target)
    (site / "staleloop-1.0.dist-info").mkdir()
    loop = site / "staleloop-1.0.dist-info/entry_points.txt"
    loop.symlink_to(loop)

    def seen(resident: Server) -> tuple[list[str], list[str]]:
        answer = dict(resident.ask([str(site)], short=True)["answers"])
        values = [p[1] for p in answer["entry_points()"][1]] if answer["entry_points()"][0] == "ok" else ["raised"]
        return values, [v[1] for n, v in answer["distributions()"][1] if n[1] == "stalelink"]

    for _ in range(2):
        for resident in bed.residents:
            assert seen(resident)[1] == [], resident.what
        time.sleep(SETTLE)
        for resident in bed.residents:
            assert seen(resident)[1] == [], resident.what
        target.mkdir()
        (target / "METADATA").write_text("Metadata-Version: 2.1\nName: stalelink\nVersion: 1.0\n", encoding="utf-8")
        (target / "entry_points.txt").write_text(points("stale:one"), encoding="utf-8")
        loop.unlink(missing_ok=True)
        for resident in bed.residents:
            assert seen(resident) == (["stale:one"], ["1.0"]), resident.what
        time.sleep(SETTLE)
        for resident in bed.residents:
            assert seen(resident) == (["stale:one"], ["1.0"]), resident.what
        shutil.rmtree(target)


def test_a_replaced_archive(bed: Bed, tmp_path: Path) -> None:
    for value in ("one", "two", "six"):
        made = wheel(tmp_path / value, "stalezip", "1.0", points(f"stale:{value}"))
        made.replace(tmp_path / "bundle.whl")
        answer = dict(bed.residents[0].ask([str(tmp_path / "bundle.whl")], short=True)["answers"])
        assert [p[1] for p in answer["entry_points()"][1]] == [f"stale:{value}"]


def test_after_fork(bed: Bed) -> None:
    """A forked child sees what was installed after the fork, and its parent too."""
    code = f"""
        import os, sys, vplug_rs
        site = {str(bed.site)!r}
        sys.path.insert(0, site)
        ask = lambda: [p.value for p in vplug_rs.entry_points(group={GROUP!r})]
        assert ask() == []
        info = site + "/stalefork-1.0.dist-info"
        pid = os.fork()
        if not pid:
            before = ask()
            os.mkdir(info)
            open(info + "/METADATA", "w").write("Name: stalefork\\nVersion: 1.0\\n")
            open(info + "/entry_points.txt", "w").write({points("stale:one")!r})
            os._exit(0 if (before, ask()) == ([], ["stale:one"]) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), ask())
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env=clean_environment(PYTHONPATH=str(shared_import_root())),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    shutil.rmtree(bed.site / "stalefork-1.0.dist-info", ignore_errors=True)
    assert done.stdout.strip() == "0 ['stale:one']", done.stdout + done.stderr
