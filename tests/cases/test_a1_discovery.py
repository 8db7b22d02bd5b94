"""Cases A01-A10: finding the distributions that are really there."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from .conftest import Lab


def names(points: Any) -> list[str]:
    return sorted(p.name for p in points)


@pytest.mark.case("A01", "jaraco/keyring#486, python/importlib_metadata#280")
def test_older_copy_later_on_the_path_adds_nothing(md: Any, lab: Lab) -> None:
    user, system = lab.dir("user"), lab.dir("system")
    lab.dist(user, "ringbox-22.0.dist-info", "[a01.stores]\nmac = ringbox.mac\n")
    lab.dist(system, "ringbox-21.0.dist-info", "[a01.stores]\nold_mac = ringbox.gone\n")
    lab.path(user, system)
    assert names(md.entry_points(group="a01.stores")) == ["mac"]
    assert md.version("ringbox") == "22.0"


@pytest.mark.case("A02", "python/importlib_metadata#410, #413, pypa/setuptools#3649")
def test_checkout_egg_info_and_installed_dist_info_count_once(md: Any, lab: Lab) -> None:
    checkout, site = lab.dir("checkout"), lab.dir("site")
    points = "[a02.tools]\nship = ferry:sail\n"
    lab.dist(checkout, "ferry.egg-info", points)
    lab.dist(site, "ferry-1.0.dist-info", points)
    lab.path(checkout, site)
    assert names(md.entry_points(group="a02.tools")) == ["ship"]


@pytest.mark.case(
    "A03",
    "python/importlib_metadata#489, #457, #534, python/cpython#120492",
)
@pytest.mark.standard_defect(
    "before importlib_metadata 8.1 (version) and 10 (entry_points) an empty leftover could win",
    modules=("importlib.metadata",),
)
def test_empty_leftover_folders_do_not_win(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    for old in ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6"):
        lab.dist(site, f"lantern-{old}.dist-info", meta=False)
    lab.dist(site, "lantern-1.0.dist-info", "[a03.lamps]\nred = lantern:red\n")
    lab.path(site)
    assert md.version("lantern") == "1.0"
    assert names(md.entry_points(group="a03.lamps")) == ["red"]


@pytest.mark.case("A04", "PyCQA/flake8#1631 (lib and lib64), pytest-dev/pytest#13983")
@pytest.mark.skipif(sys.platform == "win32", reason="needs symlinks")
def test_same_folder_under_two_names_counts_once(md: Any, lab: Lab) -> None:
    lib = lab.dir("lib")
    (lab.root / "lib64").symlink_to(lib, target_is_directory=True)
    lab.dist(lib, "twins-1.0.dist-info", "[a04.checks]\nT = twins:check\n")
    lab.path(lib, lab.root / "lib64", str(lib) + os.sep, lib)
    assert names(md.entry_points(group="a04.checks")) == ["T"]


@pytest.mark.case("A05", "python/importlib_metadata#94, chaquo/chaquopy#755")
def test_rubbish_on_the_path_is_skipped(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.dist(site, "sturdy-1.0.dist-info", "[a05.x]\nok = sturdy:f\n")
    text = lab.write(lab.root / "notes.txt", "not a zip\n")
    empty = lab.write(lab.root / "empty.zip", b"")
    loop = lab.root / "loop"
    entries = [lab.root / "missing", text, empty, lab.root / "a" / "b" / "c"]
    if sys.platform != "win32":
        loop.symlink_to(loop)
        entries.append(loop)
    lab.path(*entries, site)
    assert names(md.entry_points(group="a05.x")) == ["ok"]
    assert md.version("sturdy") == "1.0"


@pytest.mark.case("A06", "python/importlib_metadata#353, python/cpython#89926")
def test_empty_string_on_the_path_is_the_current_folder(lab: Lab) -> None:
    work = lab.dir("work")
    lab.dist(work, "homebound-3.1.dist-info", "[a06.x]\nhere = homebound:f\n")
    code = """
        assert "" in sys.path or sys.path.insert(0, "") is None
        print(md.version("homebound"), [p.name for p in md.entry_points(group="a06.x")])
    """
    assert lab.run(code, cwd=work) == "3.1 ['here']"


@pytest.mark.case("A07", "pypa/setuptools#510 (discussion), python/cpython#94113")
def test_folder_added_to_the_path_later_is_seen(md: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lab.dir("first"), lab.dir("second")
    lab.dist(first, "early-1.0.dist-info", "[a07.x]\nearly = early:f\n")
    lab.dist(second, "late-1.0.dist-info", "[a07.x]\nlate = late:f\n")
    lab.path(first)
    assert names(md.entry_points(group="a07.x")) == ["early"]
    sys.path.append(str(second))
    assert names(md.entry_points(group="a07.x")) == ["early", "late"]
    sys.path.remove(str(second))
    assert names(md.entry_points(group="a07.x")) == ["early"]
    # and a relative entry
    monkeypatch.chdir(lab.root)
    sys.path.append("second")
    assert names(md.entry_points(group="a07.x")) == ["early", "late"]


@pytest.mark.case("A08", "ROCm/TheRock#5798, unslothai/unsloth#10797, pypa/pipx#1898")
@pytest.mark.standard_defect(
    "before CPython 3.13 (and late 3.12 releases) importlib.invalidate_caches() did not reach the metadata cache",
    modules=("importlib.metadata",) if sys.version_info < (3, 13) else (),
)
def test_invalidate_caches_makes_a_same_tick_install_visible(md: Any, lab: Lab) -> None:
    site = lab.dir("site")
    lab.dist(site, "before-1.0.dist-info", "[a08.x]\nbefore = before:f\n")
    lab.path(site)
    assert names(md.entry_points(group="a08.x")) == ["before"]
    stamp = os.stat(site)
    lab.dist(site, "after-1.0.dist-info", "[a08.x]\nafter = after:f\n")
    os.utime(site, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # coarse file system clock
    importlib.invalidate_caches()
    assert names(md.entry_points(group="a08.x")) == ["after", "before"]


@pytest.mark.case("A09", "ronaldoussoren/py2app#413, pdm-project/pdm#1586, python/importlib_metadata#108, #60")
def test_plugins_inside_a_zip_are_found_and_load(md: Any, lab: Lab) -> None:
    bundle = lab.zip(
        "app.pyz",
        {
            "zipper_a09.py": "def go():\n    return 'from the zip'\n",
            "zipper-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: zipper\nVersion: 1.2\n",
            "zipper-1.2.dist-info/entry_points.txt": "[a09.x]\ngo = zipper_a09:go\n",
            "second-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: second\nVersion: 0.1\n",
            "second-0.1.dist-info/entry_points.txt": "[a09.x]\nother = zipper_a09:go\n",
        },
    )
    lab.path(bundle)
    found = md.entry_points(group="a09.x")
    assert names(found) == ["go", "other"]
    assert found["go"].load()() == "from the zip"
    assert md.version("zipper") == "1.2"


@pytest.mark.case("A10", "jupyter/nbconvert#1782 (own import mechanism), python/importlib_metadata#486")
def test_finders_on_the_meta_path_are_asked(md: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata as standard

    class Memory(standard.Distribution):
        texts: ClassVar[dict[str, str]] = {
            "METADATA": "Metadata-Version: 2.1\nName: in-memory\nVersion: 9\n",
            "entry_points.txt": "[a10.x]\nmemory = json:dumps\n",
        }

        def read_text(self, filename: str) -> str | None:
            return self.texts.get(filename)

        def locate_file(self, path: Any) -> Any:
            raise NotImplementedError

    class Finder:
        @classmethod
        def find_spec(cls, *_args: Any, **_kwargs: Any) -> None:
            return None

        @classmethod
        def find_distributions(cls, context: Any = None) -> Any:
            wanted = getattr(context, "name", None)
            if wanted in (None, "in-memory"):
                yield Memory()

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    site = lab.dir("site")
    lab.dist(site, "on_disk-1.0.dist-info", "[a10.x]\ndisk = json:loads\n")
    lab.path(site)
    assert names(md.entry_points(group="a10.x")) == ["disk", "memory"]
    assert md.version("in-memory") == "9"
