"""Each documented defect of the standard that our flavour mends, and each decision beside them, one test apiece.

The numbers are those of `docs/compatibility.md`.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import vplug_rs
import vplug_rs.metadata as md
from interpreters import clean_environment, shared_import_root
from sites import Fifo, Link, Node, build, dist, metadata

if TYPE_CHECKING:
    from pathlib import Path


class Site:
    """A folder in front of sys.path, with what was found wrong in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def build(self, *trees: dict[str, Node]) -> Site:
        """Add trees to the folder."""
        for tree in trees:
            build(self.folder, tree)
        return self

    def found(self, group: str = "g") -> list[tuple[str, str]]:
        """Names and values of a group."""
        return [(p.name, p.value) for p in md.entry_points(group=group)]

    def wrong(self) -> dict[str, Any]:
        """Diagnostics of this folder, by code."""
        return {d.code: d for d in vplug_rs.diagnostics() if d.path.startswith(str(self.folder))}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return Site(folder)


def child(code: str, *options: str) -> str:
    """Run code in a new interpreter and give what it printed, errors last."""
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        env=clean_environment(PYTHONPATH=str(shared_import_root())),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


# ---- the nine


def test_01_a_line_without_equals_is_skipped_and_reported(site: Site) -> None:
    site.build(dist("shabby", "1", "[g]\na = m:f\nno equals here\nb = m:g\n"), dist("tidy", "1", "[g]\nc = m:f\n"))
    assert sorted(site.found()) == [("a", "m:f"), ("b", "m:g"), ("c", "m:f")]
    found = site.wrong()["entry-points-line-without-equals"]
    assert (found.path, found.line) == (str(site.folder / "shabby-1.dist-info" / "entry_points.txt"), 3)
    assert (found.severity, found.distribution) == ("error", "shabby 1")
    assert found.advice


def test_02_a_file_that_is_not_utf8_is_left_out_and_reported(site: Site) -> None:
    site.build(dist("bad", "1", b"[g]\ncaf\xe9 = m:f\n"), dist("good", "1", "[g]\nok = m:f\n"))
    assert site.found() == [("ok", "m:f")]
    found = site.wrong()["entry-points-not-utf8"]
    assert found.path.endswith("bad-1.dist-info/entry_points.txt")
    assert found.line == 2


def test_03_projects_that_share_their_first_word_stay_two(site: Site) -> None:
    for name in ("foo-bar", "foo-baz"):
        site.build({f"{name}.egg-info": {"PKG-INFO": metadata(name, "1"), "entry_points.txt": f"[g]\n{name} = m:f\n"}})
    assert [name for name, _ in site.found()] == ["foo-bar", "foo-baz"]
    assert md.version("foo-bar") == "1"
    assert md.distribution("Foo_Baz").name == "foo-baz"
    with pytest.raises(md.PackageNotFoundError):
        md.version("foo")


def test_03_a_rewritten_name_is_noticed(site: Site) -> None:
    site.build({"foo-bar.egg-info": {"PKG-INFO": metadata("foo-bar", "1")}})
    assert md.distribution("foo-bar").name == "foo-bar"
    (site.folder / "foo-bar.egg-info" / "PKG-INFO").write_text(metadata("foo-qux", "1"), encoding="utf-8")
    assert md.distribution("foo-qux").name == "foo-qux"


@pytest.mark.parametrize("suffix", [".dist-info", ".egg-info"])
def test_04_a_nameless_folder_is_ignored_and_reported(site: Site, suffix: str) -> None:
    site.build({suffix: {"entry_points.txt": "[g]\nx = m:f\n"}}, dist("good", "1", "[g]\nok = m:f\n"))
    assert site.found() == [("ok", "m:f")]
    md.packages_distributions()
    assert site.wrong()["folder-nameless"].path == str(site.folder / suffix)


@pytest.mark.parametrize("folder", ["~ip-23.0.dist-info", "~-ip-23.0.dist-info"])
def test_05_the_remains_of_an_interrupted_pip_are_ignored_and_reported(site: Site, folder: str) -> None:
    remains: dict[str, Node] = {"METADATA": metadata("zip-tool", "23.0"), "entry_points.txt": "[g]\nold = m:f\n"}
    site.build({folder: remains}, dist("zip-tool", "24.0", "[g]\nnew = m:f\n"))
    assert site.found() == [("new", "m:f")]
    assert md.version("zip-tool") == "24.0"
    assert [d.version for d in md.distributions(path=[str(site.folder)])] == ["24.0"]
    assert site.wrong()["folder-interrupted-uninstall"].path == str(site.folder / folder)


def test_06_an_install_of_the_same_clock_tick_is_seen(site: Site) -> None:
    for i in range(30):
        site.found()
        stamp = site.folder.stat()
        site.build(dist(f"p{i:02}", "1", f"[g]\np{i:02} = m:f\n"))
        os.utime(site.folder, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        assert len(site.found()) == i + 1
        assert md.version(f"p{i:02}") == "1"


def test_07_a_byte_order_mark_is_skipped_and_reported(site: Site) -> None:
    site.build(dist("marked", "1", b"\xef\xbb\xbf[g]\na = m:f\n[h]\nb = m:f\n"))
    assert site.found() == [("a", "m:f")]
    assert site.wrong()["entry-points-byte-order-mark"].severity == "warning"


def test_08_the_order_inside_a_folder_is_by_name(site: Site, tmp_path: Path) -> None:
    names = ["zeta", "Alpha", "mid.dle", "beta", "Omega", "a-b"]
    for name in names:
        site.build(
            {f"{name}-1.dist-info": {"METADATA": metadata(name, "1"), "entry_points.txt": f"[g]\n{name} = m:f\n"}}
        )
    build(tmp_path / "second", dist("aaa", "1", "[g]\naaa = m:f\n"))
    sys.path.insert(1, str(tmp_path / "second"))
    assert [name for name, _ in site.found()] == ["a-b", "Alpha", "beta", "mid.dle", "Omega", "zeta", "aaa"]


def test_09_a_listing_imports_nothing_heavy(site: Site) -> None:
    site.build(dist("good", "1", "[g]\nok = m:f\n"))
    forbidden = "re typing pathlib email zipfile importlib.metadata importlib.abc dataclasses logging inspect csv json"
    code = f"""
        import sys
        before = set(sys.modules)
        sys.path.insert(0, {str(site.folder)!r})
        import vplug_rs
        print([p.name for p in vplug_rs.entry_points(group="g")], vplug_rs.version("good"))
        new = set(sys.modules) - before
        print(sorted(new.intersection({(forbidden + " tempfile shutil").split()!r})))
    """
    assert child(code, "-S").splitlines() == ["['ok'] 1", "[]"]


# ---- right in the newest importlib_metadata, wrong in older standard releases


def test_10_leftovers_do_not_win(site: Site) -> None:
    for version in ("0.1", "0.2", "9.9"):
        site.build({f"lantern-{version}.dist-info": {"REQUESTED": "", "entry_points.txt": "[g]\nold = m:f\n"}})
    site.build(dist("lantern", "1.0", "[g]\nnew = m:f\n"))
    assert md.version("lantern") == "1.0"
    assert site.found() == [("new", "m:f")]
    assert "distribution-leftover" in site.wrong()


def test_10_a_leftover_earlier_on_the_path_does_not_hide_the_valid_copy(site: Site, tmp_path: Path) -> None:
    site.build({"lantern-9.9.dist-info": {"REQUESTED": ""}})
    build(tmp_path / "second", dist("lantern", "1.0", "[g]\nnew = m:f\n"))
    sys.path.insert(1, str(tmp_path / "second"))
    assert md.version("lantern") == "1.0"
    assert site.found() == [("new", "m:f")]


def test_10_a_leftover_that_becomes_valid_is_noticed(site: Site) -> None:
    site.build(
        {"lamp-2.0.dist-info": {"entry_points.txt": "[g]\ntwo = m:f\n"}}, dist("lamp", "1.0", "[g]\none = m:f\n")
    )
    assert site.found() == [("one", "m:f")]
    site.build({"lamp-2.0.dist-info": {"METADATA": metadata("lamp", "2.0")}})
    assert site.found() == [("two", "m:f")]
    assert md.version("lamp") == "2.0"


def test_11_invalidate_caches_reaches_us(site: Site) -> None:
    site.build(dist("one", "1", "[g]\na = m:f\n"))
    assert len(site.found()) == 1
    site.build(dist("two", "1", "[g]\nb = m:f\n"))
    importlib.invalidate_caches()
    assert len(site.found()) == 2
    site.build(dist("three", "1", "[g]\nc = m:f\n"))
    md.invalidate_caches()  # type: ignore[attr-defined, unused-ignore]
    assert len(site.found()) == 3


@pytest.mark.parametrize("reference", ["not-a-module!!", "a:b:c", "", "a b"])
def test_12_a_bad_reference_is_listed_and_fails_at_load(site: Site, reference: str) -> None:
    site.build(dist("crooked", "1", f"[g]\nbad = {reference}\n"))
    (point,) = md.entry_points(group="g")
    assert point.value == reference
    with pytest.raises(ValueError, match=r".") as caught:
        point.load()
    assert reference in str(caught.value)
    assert site.wrong()["entry-points-bad-reference"].line == 2


def test_13_files_that_do_not_exist_are_dropped(site: Site) -> None:
    site.build(dist("d", "1", RECORD="here.py,,\ngone.py,,\nd-1.dist-info/RECORD,,\n"), {"here.py": ""})
    assert [str(p) for p in md.files("d") or ()] == ["here.py", "d-1.dist-info/RECORD"]


def test_14_a_forked_child_reads_an_archive_that_its_parent_scanned(tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            stem = name.partition(".")[0]
            archive.writestr(f"{stem}-1.0.dist-info/METADATA", metadata(stem, "1.0"))
            archive.writestr(f"{stem}-1.0.dist-info/entry_points.txt", f"[g]\n{stem} = m:f\n")
    code = f"""
        import os, sys, vplug_rs
        sys.path[:0] = [{str(tmp_path / "one.zip")!r}, {str(tmp_path / "two.zip")!r}]
        ask = lambda: sorted((p.name, p.dist.version) for p in vplug_rs.entry_points(group="g"))
        want = ask()
        assert len(want) == 2, want
        children = []
        for _ in range(4):
            if not (pid := os.fork()):
                os._exit(0 if all(ask() == want for _ in range(20)) else 1)
            children.append(pid)
        same = all(ask() == want for _ in range(20))
        print(same, [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
    """
    assert child(code, "-W", "ignore").strip() == "True [0, 0, 0, 0]"


# ---- decisions beyond the standard


@pytest.mark.parametrize(
    ("older", "newer"), [("9.0", "10.0"), ("1.0rc1", "1.0"), ("1.0", "1.0.post1"), ("2024.1", "1!0.1")]
)
def test_15_of_two_valid_versions_in_one_folder_the_higher_wins(site: Site, older: str, newer: str) -> None:
    for version in (older, newer):
        site.build(dist("twice", version, f"[g]\n{version} = m:f\n"))
    assert md.version("twice") == newer
    assert site.found() == [(newer, "m:f")]
    loser = site.wrong()["distribution-two-versions"]
    assert f"twice-{older}.dist-info" in loser.path
    assert loser.severity == "warning"


def test_15_an_earlier_folder_wins_over_a_higher_version(site: Site, tmp_path: Path) -> None:
    site.build(dist("twice", "1.0", "[g]\none = m:f\n"))
    build(tmp_path / "second", dist("twice", "2.0", "[g]\ntwo = m:f\n"))
    sys.path.insert(1, str(tmp_path / "second"))
    assert md.version("twice") == "1.0"
    assert site.found() == [("one", "m:f")]


@pytest.mark.parametrize("query", ["My.Pkg_x", "my-pkg-x", "MY__PKG..X"])
def test_16_a_query_uses_the_uniqueness_key(site: Site, query: str) -> None:
    site.build({"my-pkg-x.egg-info": {"PKG-INFO": metadata("My.Pkg-x", "3")}})
    assert md.version(query) == "3"
    assert [d.name for d in md.distributions(name=query)] == ["My.Pkg-x"]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="`origin` came with Python 3.13")
def test_26_a_broken_origin_is_none_and_reported(site: Site) -> None:
    for number, text in enumerate(["{", "[" * 100_000, '{"url": {"1": 2}, "a": "b"}', "3"]):
        site.build(dist(f"from{number}", "1", **{"direct_url.json": text}))
    assert [md.distribution(f"from{number}").origin for number in (0, 1)] == [None, None]
    assert md.distribution("from2").origin.a == "b"
    assert "direct-url-malformed" in site.wrong()


def test_27_a_byte_that_is_not_utf8_in_a_record_is_replaced_and_reported_once(site: Site) -> None:
    site.build(
        dist("bad", "1", RECORD=b"a.py,,\n\xff.py,,\n"),
        dist("good", "1", RECORD="a.py,,\n\ufffd.py,,\n"),
        {"a.py": "", "\ufffd.py": ""},
    )
    for name in ("bad", "good"):
        assert "a.py" in [str(path) for path in md.files(name) or ()]
    (found,) = [d for d in vplug_rs.diagnostics() if d.code == "record-not-utf8"]
    assert (found.line, found.distribution) == (2, "bad 1")


def test_28_results_are_of_own_types(site: Site) -> None:
    site.build(dist("own", "1", "[g]\na = m:f\n"))
    standard = importlib.import_module("importlib.metadata")
    (point,) = md.entry_points(group="g")
    assert (type(point), type(md.distribution("own"))) == (md.EntryPoint, md.PathDistribution)
    assert not isinstance(point, standard.EntryPoint)
    assert not isinstance(md.metadata("own"), importlib.import_module("email.message").Message)
    assert "dist" not in vars(point)
    assert point.dist.name == "own"


def test_a_finding_is_forgotten_when_its_file_is_mended(site: Site) -> None:
    site.build(dist("noversion", "1", METADATA="Name: noversion\n"))
    assert md.version("noversion") is None
    assert "metadata-without-version" in site.wrong()
    (site.folder / "noversion-1.dist-info/METADATA").write_text("Name: noversion\nVersion: 1\n", encoding="utf-8")
    assert md.version("noversion") == "1"
    assert site.wrong() == {}


def test_invalidate_caches_forgets_findings(site: Site) -> None:
    site.build(dist("noversion", "1", METADATA="Name: noversion\n"))
    assert md.version("noversion") is None
    md.invalidate_caches()
    assert site.wrong() == {}


def test_a_malformed_line_in_an_archive_is_reported_and_announced(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as bundle:
        bundle.writestr("zipped-1.dist-info/METADATA", "Name: zipped\nVersion: 1\n")
        bundle.writestr("zipped-1.dist-info/entry_points.txt", "[g]\nword\nzz = m:f\n")
    code = f"""
        import sys, vplug_rs
        sys.path[:0] = [{str(archive)!r}]
        print([p.name for p in vplug_rs.entry_points(group="g")])
        print([(d.code, d.line, d.distribution) for d in vplug_rs.diagnostics() if "bundle.zip" in d.path])
    """
    names, found, warned = child(code).splitlines()[:3]
    assert (names, found) == ("['zz']", "[('entry-points-line-without-equals', 2, 'zipped 1')]")
    assert "RuntimeWarning" in warned
    assert "1 installed entry_points.txt file is damaged" in warned


def test_a_pipe_that_is_called_an_egg_is_not_opened(site: Site) -> None:
    build(site.folder, {"p.egg": Fifo(), "x-1.egg": dist("inside", "1", "[g]\nin = m:f\n")})
    site.build(dist("good", "1", "[g]\nok = m:f\n"))
    code = f"""
        import sys, vplug_rs
        site = {str(site.folder)!r}
        sys.path[:0] = [site, site + "/p.egg", site + "/x-1.egg"]
        print(sorted(p.name for p in vplug_rs.entry_points(group="g")), vplug_rs.version("inside"))
    """
    assert child(code).splitlines() == ["['in', 'ok'] 1"]


def test_a_file_of_bad_lines_leaves_a_hundred_findings_and_a_word_about_the_rest(site: Site) -> None:
    site.build(dist("many", "1", "[g]\n" + "word\n" * 50_000 + "ok = m:f\n"))
    assert site.found() == [("ok", "m:f")]
    found = [d for d in vplug_rs.diagnostics() if d.path.startswith(str(site.folder))]
    assert len(found) == 101
    assert "what follows is not listed" in found[-1].message


def test_metadata_that_cannot_be_read_is_not_called_missing(site: Site) -> None:
    site.build(dist("copy", "1"), dist("copy", "2", METADATA=Link("METADATA")))
    assert md.version("copy") == "1"
    assert "distribution-leftover" not in site.wrong()
    site.build(dist("lonely", "1", METADATA=Link("METADATA")))
    assert md.version("lonely") is None
    assert {"metadata-unreadable"} <= site.wrong().keys()
    assert "metadata-missing" not in site.wrong()


DAMAGED = """
    import os, sys, warnings, vplug_rs
    warnings.simplefilter({action!r})
    sys.path[:0] = [{site!r}]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = vplug_rs.entry_points(group="g")
        vplug_rs.entry_points(), list(vplug_rs.distributions()), vplug_rs.packages_distributions()
    print([p.name for p in first], len(caught), len(vplug_rs.diagnostics()) > 2)
    print(*[w.message for w in caught])
"""


def damaged(site: Site) -> Site:
    return site.build(
        dist("a1", "1", "[g]\nword\n"),
        dist("b2", "1", b"\xe9"),
        dist("c3", "1", "[g]\nok = m:f\n"),
        {".dist-info": {}, "~d-1.dist-info": {}},
    )


def test_17_one_warning_a_process_sums_it_up(site: Site) -> None:
    first, second, *more = child(DAMAGED.format(action="default", site=str(damaged(site).folder))).splitlines()
    assert first == "['ok'] 1 True"
    assert "diagnostics" in second
    assert not more


def test_18_with_warnings_as_errors_it_stays_data(site: Site) -> None:
    code = f"""
        import sys, vplug_rs
        sys.path[:0] = [{str(damaged(site).folder)!r}]
        print([p.name for p in vplug_rs.entry_points(group="g")], len(vplug_rs.diagnostics()) > 2)
        print(vplug_rs.version("c3"), len(list(vplug_rs.distributions())) >= 3)
    """
    assert child(code, "-W", "error").splitlines() == ["['ok'] True", "1 True"]


def test_19_package_not_found_is_the_genuine_class() -> None:
    code = """
        import sys, vplug_rs
        caught = None
        try:
            vplug_rs.version("absent-everywhere")
        except ModuleNotFoundError as exc:
            caught = exc
        import importlib.metadata
        genuine = importlib.metadata.PackageNotFoundError
        print(type(caught) is genuine, caught.name, caught, vplug_rs.PackageNotFoundError is genuine)
        import vplug_rs.metadata
        print(vplug_rs.metadata.PackageNotFoundError is genuine)
    """
    expected = "True absent-everywhere No package metadata was found for absent-everywhere True"
    assert child(code).splitlines() == [expected, "True"]


@pytest.mark.parametrize("name", ["", None])
def test_20_an_empty_query_is_refused_as_the_standard_does(name: Any) -> None:
    with pytest.raises(ValueError, match="A distribution name is required"):
        md.distribution(name)


def test_21_select_and_groups_work_on_every_python(site: Site) -> None:
    site.build(dist("p", "1", "[g]\na = m:f\nb = m:g\n[h]\na = n:f\n"))
    found = md.entry_points().select(group="g")
    assert found.names == {"a", "b"}
    assert found.groups == {"g"}
    assert md.entry_points(group="h")["a"].value == "n:f"


def test_22_a_link_to_nowhere_is_no_distribution(site: Site) -> None:
    build(site.folder, {"gone-1.0.dist-info": Link("nowhere")})
    site.build(dist("good", "1", "[g]\nok = m:f\n"))
    assert [d.name for d in md.distributions(path=[str(site.folder)])] == ["good"]
    with pytest.raises(md.PackageNotFoundError):
        md.version("gone")
    assert site.wrong()["folder-dangling-link"].path == str(site.folder / "gone-1.0.dist-info")


def test_23_a_folder_that_stands_twice_on_the_path_counts_once(site: Site, tmp_path: Path) -> None:
    site.build(dist("good", "1", "[g]\nok = m:f\n", RECORD="good.py,,\n"), {"good.py": ""})
    (tmp_path / "alias").symlink_to(site.folder)
    sys.path[1:1] = [str(tmp_path / "alias"), f"{site.folder}/", str(site.folder)]
    assert [d.name for d in md.distributions() if d.name == "good"] == ["good"]
    assert md.packages_distributions()["good"] == ["good"]
    assert site.found() == [("ok", "m:f")]


def test_24_import_names_of_an_unnamed_distribution_lead_to_its_folder(site: Site) -> None:
    site.build(
        {"quiet-1.0.dist-info": {"METADATA": "Version: 1.0\n", "RECORD": "quiet_mod.py,,\n"}, "quiet_mod.py": ""}
    )
    assert md.packages_distributions()["quiet_mod"] == ["quiet"]
    assert md.distribution("quiet").name is None


def test_25_an_open_quote_does_not_swallow_the_rest_of_the_record(site: Site) -> None:
    site.build(dist("q", "1", RECORD='"a.py,,\nb.py,,\n'), {"a.py": "", "b.py": ""})
    assert "b.py" in [str(p) for p in md.files("q") or ()]
    assert "record-malformed" in site.wrong()
