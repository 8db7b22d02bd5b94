"""`vplug doctor`: each finding with its place and advice, silence on a healthy site."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import interpreters
from cli_lab import CommandLab, lab

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

__all__ = ["lab"]


@pytest.fixture
def damaged(lab: CommandLab) -> Path:
    """Build the site of XA15."""
    site = lab.site()
    (site / ".dist-info").mkdir()
    lab.plugin(site, "~old", module=False)
    lab.plugin(site, "dup", version="2.0")
    (site / "dup-1.0.dist-info").mkdir()
    lab.plugin(site, "equals", "[demo.plugins]\nfine = equals_mod:run\nno equals sign\n")
    lab.plugin(site, "latin", b"[demo.plugins]\nlatin = latin_mod:\xe9\n")
    lab.plugin(site, "mark", b"\xef\xbb\xbf[demo.plugins]\nmark = mark_mod:run\n")
    lab.plugin(site, "ghost", module=False)
    lab.plugin(site, "pair_a", "[demo.plugins]\npair = pair_a_mod:run\n")
    lab.plugin(site, "pair_b", "[demo.plugins]\npair = pair_b_mod:run\n")
    return site


EIGHT = {
    "folder-nameless": (".dist-info", None),
    "folder-interrupted-uninstall": ("~old-1.0.dist-info", None),
    "distribution-leftover": ("dup-1.0.dist-info", None),
    "entry-points-line-without-equals": ("equals-1.0.dist-info/entry_points.txt", 3),
    "entry-points-not-utf8": ("latin-1.0.dist-info/entry_points.txt", 2),
    "entry-points-byte-order-mark": ("mark-1.0.dist-info/entry_points.txt", 1),
    "module-missing": ("ghost-1.0.dist-info/entry_points.txt", 2),
    "entry-point-name-collision": ("pair_b-1.0.dist-info/entry_points.txt", 2),
}


def test_xa15_eight_findings_as_json(lab: CommandLab, damaged: Path) -> None:
    document = lab.json(damaged, "doctor", status=1)
    found = {finding["code"]: finding for finding in document["findings"]}
    assert sorted(finding["code"] for finding in document["findings"]) == sorted(EIGHT)
    for code, (child, _) in EIGHT.items():
        assert found[code]["path"] == str(damaged / child), code
        assert found[code]["severity"] in {"error", "warning", "note"}
        assert found[code]["message"]
        assert found[code]["advice"]
    assert {code: finding["line"] for code, finding in found.items()} == {
        code: line for code, (_, line) in EIGHT.items()
    }
    assert sum(document["counts"].values()) == 8


def test_xa15_eight_findings_as_text(lab: CommandLab, damaged: Path) -> None:
    done = lab.run(damaged, "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    blocks = done.stdout.rstrip("\n").split("\n\n")
    assert len(blocks) == 9
    for block in blocks[:-1]:
        what, where, *hint = block.split("\n")
        assert what.startswith(("error[", "warning[", "note["))
        assert where.startswith(f"  --> {damaged}")
        assert len(hint) == 1
        assert hint[0].startswith("hint: ")
    assert blocks[-1].startswith("7 distributions: ")


def test_xa15_healthy(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "one")
    lab.plugin(site, "two")
    done = lab.run(site, "doctor")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 distributions, no findings\n", "")
    assert lab.json(site, "doctor") == {
        "schema": 1,
        "kind": "doctor",
        "distributions": 2,
        "counts": {"error": 0, "warning": 0, "note": 0},
        "findings": [],
    }


def codes(document: Any) -> list[tuple[str, str, int | None]]:
    return [(finding["code"], finding["path"], finding["line"]) for finding in document["findings"]]


def test_two_versions_in_one_folder(lab: CommandLab) -> None:
    site = lab.site()
    old = lab.plugin(site, "acme", version="1.0")
    lab.plugin(site, "acme", version="2.0")
    assert codes(lab.json(site, "doctor", status=1)) == [("distribution-two-versions", str(old), None)]


def test_a_shadowed_copy_is_a_note(lab: CommandLab) -> None:
    first, second = lab.site("first"), lab.site("second")
    lab.plugin(first, "acme", version="2.0")
    old = lab.plugin(second, "acme", version="1.0")
    assert codes(lab.json([first, second], "doctor")) == [("distribution-shadowed", str(old), None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [("metadata-missing", "", None)]),
        (b"Metadata-Version: 2.1\nVersion: 1.0\n", [("metadata-without-name", "METADATA", None)]),
        (b"Metadata-Version: 2.1\nName: acme\n", [("metadata-without-version", "METADATA", None)]),
        (b"Name: acme\nVersion: 1.0\nAuthor: \xe9\n", [("metadata-not-utf8", "METADATA", 3)]),
    ],
)
def test_a_damaged_metadata_file(
    lab: CommandLab, text: bytes | None, expected: list[tuple[str, str, int | None]]
) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    (info / "METADATA").unlink()
    if text is not None:
        (info / "METADATA").write_bytes(text)
    assert codes(lab.json(site, "doctor", status=1)) == [
        (code, str(info / child), line) for code, child, line in expected
    ]


def test_a_folder_that_is_on_the_path_twice(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    twin = lab.root / "lib64"
    twin.symlink_to(site, target_is_directory=True)
    assert codes(lab.json([site, twin], "doctor")) == [("path-entry-duplicate", str(twin), None)]


def test_names_that_are_meant_to_be_repeated_do_not_collide(lab: CommandLab) -> None:
    site = lab.site()
    for name in ("one", "two"):
        lab.plugin(site, name, f"[pyinstaller40]\nhook-dirs = {name}_mod:hooks\n")
    assert codes(lab.json(site, "doctor")) == []


def test_a_submodule_that_is_missing(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", "[demo.plugins]\na = pack.here:run\nb = pack.gone:run\nc = space.sub.mod:run\n")
    (site / "pack").mkdir()
    (site / "pack" / "__init__.py").write_text("raise SystemExit\n")
    (site / "pack" / "here.py").write_text("raise SystemExit\n")
    (site / "space" / "sub").mkdir(parents=True)
    (site / "space" / "sub" / "mod.py").write_text("raise SystemExit\n")
    assert codes(lab.json(site, "doctor", status=1)) == [("module-missing", str(info / "entry_points.txt"), 3)]


def test_a_package_that_makes_its_submodules_at_import_cannot_be_checked(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", "[demo.plugins]\na = pack.gone:run\n")
    (site / "pack").mkdir()
    (site / "pack" / "__init__.py").write_text("__path__.append('elsewhere')\n")
    assert codes(lab.json(site, "doctor")) == [("module-unchecked", str(info / "entry_points.txt"), 2)]


def test_an_editable_install_whose_folder_is_gone(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    folder = lab.site("my project")
    url = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(url))
    assert codes(lab.json(site, "doctor")) == []
    folder.rmdir()
    document = lab.json(site, "doctor", status=1)
    assert codes(document) == [("editable-stale", str(info / "direct_url.json"), None)]
    assert str(folder) in document["findings"][0]["message"]


@pytest.mark.parametrize("text", ["{", "", "editable", "[" * 100_000, b"\xff\xfe"])
def test_a_direct_url_that_is_no_json(lab: CommandLab, text: str | bytes) -> None:
    site = lab.site()
    path = lab.plugin(site, "acme") / "direct_url.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert codes(lab.json(site, "doctor", status=1)) == [("direct-url-malformed", str(path), None)]


@pytest.mark.parametrize("text", ["[]", "{}", '{"url": 3, "dir_info": {"editable": true}}', '"editable"'])
def test_an_odd_direct_url_is_left_alone(lab: CommandLab, text: str) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    (info / "direct_url.json").write_text(text)
    assert codes(lab.json(site, "doctor")) == []


def test_an_egg_link(lab: CommandLab) -> None:
    site = lab.site()
    target = lab.site("project")
    link = site / "acme.egg-link"
    link.write_text(f"{target}\n.")
    assert codes(lab.json(site, "doctor")) == [("egg-link", str(link), 1)]
    target.rmdir()
    assert codes(lab.json(site, "doctor", status=1)) == [("editable-stale", str(link), 1)]


def test_an_editable_finder(lab: CommandLab) -> None:
    """Its table is read, the finder is not run: it provides `pack` and promises `lost`."""
    site = lab.site()
    source = lab.site("source")
    (source / "pack").mkdir()
    (source / "pack" / "__init__.py").write_text("raise SystemExit\n")
    (source / "pack" / "sub.py").write_text("raise SystemExit\n")
    finder = site / "__editable___acme_1_0_finder.py"
    mapping = {"pack": str(source / "pack"), "lost": str(source / "lost")}
    finder.write_text(f"raise SystemExit\nMAPPING: dict[str, str] = {mapping!r}\nNAMESPACES: dict = {{}}\n")
    lab.plugin(site, "acme", "[demo.plugins]\na = pack.sub:run\n")
    assert codes(lab.json(site, "doctor", status=1)) == [("editable-stale", str(finder), 2)]


def test_pth_files(lab: CommandLab) -> None:
    """In a real environment, since Python obeys .pth files in site directories only."""
    prefix = lab.root / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True, timeout=60)
    python = prefix / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    folder = lab.root / "environment" / site
    info = lab.plugin(folder, "owner", "")
    (info / "RECORD").write_text("owned.pth,sha256=abc,40\nowner-1.0.dist-info/RECORD,,\n")
    second = lab.plugin(folder, "second", "")
    (second / "RECORD").write_text("owned.pth,sha256=abc,40\n")
    (folder / "owned.pth").write_text("# comment\nimport sys; sys.path_marker = 1\n")
    (folder / "stray.pth").write_text("import sys\n/nonexistent/folder\n\n.\n")
    done = subprocess.run(
        [python, "-P", "-m", "vplug_rs", "doctor", "--json"],
        env=interpreters.clean_environment(PYTHONPATH=str(lab.package)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    document = json.loads(done.stdout)
    found = {(f["code"], f["path"], f["line"]): f for f in document["findings"] if f["code"].startswith("pth-")}
    assert set(found) == {
        ("pth-executes-code", str(folder / "owned.pth"), 2),
        ("pth-executes-code", str(folder / "stray.pth"), 1),
        ("pth-folder-missing", str(folder / "stray.pth"), 2),
    }
    assert found["pth-executes-code", str(folder / "owned.pth"), 2]["distribution"] == "owner 1.0"
    assert found["pth-executes-code", str(folder / "stray.pth"), 1]["distribution"] is None
    assert done.returncode == 1


def test_a_read_only_site(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    before = sorted(path.name for path in site.rglob("*"))
    site.chmod(0o555)
    for words in (("list",), ("why", "acme"), ("doctor",)):
        assert lab.run(site, *words).returncode == 0
    assert sorted(path.name for path in site.rglob("*")) == before


def test_things_that_are_no_files(lab: CommandLab) -> None:
    """A FIFO would wait for ever; a folder in place of a file must not end the command."""
    site = lab.site()
    info = lab.plugin(site, "acme")
    (info / "direct_url.json").mkdir()
    (info / "RECORD").mkdir()
    (site / "odd.egg-link").mkdir()
    (site / "__editable___odd_finder.py").mkdir()
    if hasattr(os, "mkfifo"):
        os.mkfifo(site / "pipe.egg-link")
    document = lab.json(site, "doctor", status=1)
    assert {finding["code"] for finding in document["findings"]} == {
        "direct-url-malformed",
        "editable-stale",
        "record-unreadable",
    }


PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
NOT_UTF8 = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")


@PIPES
def test_a_package_whose_init_is_a_fifo_is_a_namespace_as_for_the_import_system(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", "[demo.plugins]\na = ffpkg.sub:f\n")
    (site / "ffpkg").mkdir()
    os.mkfifo(site / "ffpkg" / "__init__.py")
    expected = [("module-missing", str(info / "entry_points.txt"), 2)]
    assert codes(lab.json(site, "doctor", status=1)) == expected
    assert lab.json(site, "why", "a", status=1)["status"] == "missing-module"


def test_a_package_whose_init_is_too_large_to_be_read_cannot_be_checked(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", "[demo.plugins]\na = pack.sub:f\n")
    (site / "pack").mkdir()
    with (site / "pack" / "__init__.py").open("wb") as file:
        file.truncate(1 << 30)
    assert codes(lab.json(site, "doctor")) == [("module-unchecked", str(info / "entry_points.txt"), 2)]


@NOT_UTF8
def test_a_folder_name_that_is_not_utf8(lab: CommandLab) -> None:
    """The core names the distribution in its findings, and so do the checks of the command line."""
    site = lab.site()
    info = site / "caf\udce9-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[demo.plugins]\nfine = caf_mod:run\nno equals sign\n")
    document = lab.json(site, "doctor", status=1)
    assert [(finding["code"], finding["distribution"]) for finding in document["findings"]] == [
        ("module-missing", "caf\ufffd 1.0"),
        ("entry-points-line-without-equals", "caf\ufffd 1.0"),
        ("metadata-missing", "caf\ufffd 1.0"),
    ]


def test_every_finding_names_a_distribution_as_its_folder_does(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "gam", "[demo.plugins]\nlost = lost_mod:run\nno equals sign\nshared = gam_mod:run\n")
    (info / "METADATA").write_text("Version: 1.0\n")
    (info / "RECORD").write_text("a.py,sha256=x,1,2,3\n")
    (info / "direct_url.json").write_text('{"url": "file:///nowhere/at/all", "dir_info": {"editable": true}}')
    lab.plugin(site, "alpha", "[demo.plugins]\nshared = alpha_mod:run\n")
    plain = site / "plain.egg-info"
    plain.mkdir()
    (plain / "PKG-INFO").write_text("Name: plain\n")
    named = {finding["code"]: finding["distribution"] for finding in lab.json(site, "doctor", status=1)["findings"]}
    assert named == {
        "entry-points-line-without-equals": "gam 1.0",
        "module-missing": "gam 1.0",
        "metadata-without-name": "gam 1.0",
        "record-malformed": "gam 1.0",
        "editable-stale": "gam 1.0",
        "entry-point-name-collision": "gam 1.0",
        "metadata-without-version": "plain",
    }


def obedient(lab: CommandLab, site: Path, *words: str) -> Any:
    """Run `vplug WORDS --json` as somebody whom file modes stop."""
    if os.geteuid():
        done = subprocess.run(
            [*lab.command(), *words, "--json"], env=lab.environment(site), capture_output=True, text=True, check=False
        )
    elif shutil.which("setpriv"):
        drop = "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"
        done = subprocess.run(
            ["setpriv", *drop, *lab.command(), *words, "--json"],
            env=lab.environment(site),
            capture_output=True,
            text=True,
            check=False,
        )
    else:
        pytest.skip("root reads everything here, and there is no setpriv")
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


@PIPES
@pytest.mark.parametrize("what", ["folder", "file"])
def test_metadata_that_may_not_be_read_is_not_called_missing(lab: CommandLab, what: str) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    closed = info if what == "folder" else info / "METADATA"
    closed.chmod(0)
    document = obedient(lab, site, "doctor")
    closed.chmod(0o755)
    found = {finding["code"]: finding for finding in document["findings"]}
    assert "metadata-missing" not in found
    assert found["metadata-unreadable"]["path"] == str(info / "METADATA")
    assert found["metadata-unreadable"]["message"] == "it cannot be read: Permission denied"
    assert "remove" not in found["metadata-unreadable"]["advice"]


@PIPES
def test_metadata_that_is_no_file_is_not_called_missing(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    (info / "METADATA").unlink()
    os.mkfifo(info / "METADATA")
    (found,) = lab.json(site, "doctor", status=1)["findings"]
    assert (found["code"], found["path"]) == ("metadata-unreadable", str(info / "METADATA"))
    assert found["message"] == "it is not a regular file"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"acme_mod.py,sha256=x,1\nacme-1.0.dist-info/RECORD,,\n", []),
        (b"gone.py,,\n", []),
        (b"a.py,,\nb.py,,1,2\n", [("record-malformed", 2)]),
        (b"a.py,,twelve\n", [("record-malformed", 1)]),
        (b"a.py,,\ncaf\xe9.py,,\n", [("record-not-utf8", 2)]),
        (None, [("record-unreadable", None)]),
        (1 << 27, [("record-too-large", None)]),
    ],
    ids=["whole", "of a file that is gone", "columns", "size", "latin-1", "no file", "too large"],
)
def test_the_list_of_files_is_read(
    lab: CommandLab, text: bytes | int | None, expected: list[tuple[str, int | None]]
) -> None:
    site = lab.site()
    record = lab.plugin(site, "acme") / "RECORD"
    if text is None:
        record.mkdir()
    elif isinstance(text, int):
        with record.open("wb") as file:
            file.truncate(text)
    else:
        record.write_bytes(text)
    document = lab.json(site, "doctor", status=int(bool(expected)))
    assert codes(document) == [(code, str(record), line) for code, line in expected]
    assert {finding["distribution"] for finding in document["findings"]} <= {"acme 1.0"}
    assert lab.run(site, "why", "acme", "--group", "demo.plugins").returncode == 0  # the entry point is whole
