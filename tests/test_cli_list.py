"""`vplug list`: what is shown, in which order, and that nothing is imported for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

import interpreters
from cli_lab import CommandLab, lab

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["lab"]


@pytest.fixture
def three(lab: CommandLab) -> Path:
    site = lab.site()
    for name in ("one", "two", "three"):
        lab.plugin(site, name)
    return site


def test_xa16_list_shows_all_without_importing(lab: CommandLab, three: Path) -> None:
    done = lab.run(three, "list")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    header, *rows = [line.split() for line in done.stdout.splitlines()]
    assert header == ["GROUP", "ORDER", "NAME", "VALUE", "DISTRIBUTION", "VERSION", "STATE", "PATH"]
    assert rows == [
        ["demo.plugins", str(order), name, f"{name}_mod:run", name, "1.0", "live", str(three / f"{name}-1.0.dist-info")]
        for order, name in enumerate(("one", "three", "two"), 1)
    ]


def test_xa16_list_as_json(lab: CommandLab, three: Path) -> None:
    document = lab.json(three, "list")
    assert document["group"] is None
    assert [row["name"] for row in document["entry_points"]] == ["one", "three", "two"]
    assert document["entry_points"][1] == {
        "group": "demo.plugins",
        "name": "three",
        "value": "three_mod:run",
        "distribution": "three",
        "version": "1.0",
        "path": str(three / "three-1.0.dist-info"),
        "line": 2,
        "state": "live",
        "order": 2,
    }


@pytest.mark.parametrize("home", ["/nonexistent/home", "", "/proc/self/mem"])
def test_xa16_list_with_a_wrong_home(lab: CommandLab, three: Path, home: str) -> None:
    done = lab.run(three, "list", HOME=home)
    assert (done.returncode, done.stdout.count("live"), done.stderr) == (0, 3, "")


def test_list_without_a_home(lab: CommandLab, three: Path) -> None:
    environment = lab.environment(three)
    environment.pop("HOME", None)
    done = subprocess.run(
        [*lab.command(), "list"], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.count("live") == 3


def test_only_one_group(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "app", "[console_scripts]\napp = app_mod:main\n[demo.plugins]\nextra = app_mod:run\n")
    done = lab.run(site, "list", "console_scripts")
    assert done.returncode == 0
    assert "app_mod:main" in done.stdout
    assert "extra" not in done.stdout


def test_an_unknown_group_is_not_found_and_the_nearest_is_named(lab: CommandLab, three: Path) -> None:
    done = lab.run(three, "list", "demo.plugin")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "error: no entry point in group `demo.plugin`\nhint: did you mean `demo.plugins`?\n"


def test_hidden_ones_with_all(lab: CommandLab) -> None:
    first, second = lab.site("first"), lab.site("second")
    lab.plugin(first, "acme", version="2.0")
    lab.plugin(second, "acme", "[demo.plugins]\nold = acme_mod:old\n", version="1.0")
    assert [row["name"] for row in lab.json([first, second], "list")["entry_points"]] == ["acme"]
    rows = lab.json([first, second], "list", "--all")["entry_points"]
    assert [(row["name"], row["state"], row["order"]) for row in rows] == [
        ("acme", "live", 1),
        ("old", "shadowed", None),
    ]
    table = lab.run([first, second], "list", "--all").stdout.splitlines()
    assert table[2].split()[:3] == ["demo.plugins", "-", "old"]


def test_a_group_whose_entry_points_are_all_hidden(lab: CommandLab) -> None:
    first, second = lab.site("first"), lab.site("second")
    lab.plugin(first, "acme", "", version="2.0")
    lab.plugin(second, "acme", version="1.0")
    done = lab.run([first, second], "list", "demo.plugins")
    assert done.returncode == 3
    assert "hint: all its entry points are hidden; see `vplug list demo.plugins --all`" in done.stderr


def test_an_archive_on_the_path_takes_its_place_in_the_order(lab: CommandLab) -> None:
    before, after = lab.site("before"), lab.site("after")
    lab.plugin(before, "zed")
    lab.plugin(after, "acme", version="9.0")
    lab.plugin(after, "beta")
    archive = lab.root / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("acme-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        file.writestr("acme-1.0.dist-info/entry_points.txt", "[demo.plugins]\nacme = acme_zip:run\n")
    rows = lab.json([before, archive, after], "list", "--all")["entry_points"]
    assert [(row["name"], row["version"], row["state"], row["order"]) for row in rows] == [
        ("zed", "1.0", "live", 1),
        ("acme", "1.0", "live", 2),
        ("acme", "9.0", "shadowed", None),
        ("beta", "1.0", "live", 3),
    ]


def test_the_list_is_what_the_standard_library_sees(lab: CommandLab) -> None:
    """On the environment of the tests, by a fresh interpreter each."""
    code = (
        "import importlib.metadata as m, json, sys; e = m.entry_points(); "
        "e = [x for g in e.values() for x in g] if isinstance(e, dict) else e; "
        "print(json.dumps(sorted([x.group, x.name, x.value] for x in e)))"
    )
    environment = interpreters.clean_environment()
    base = [sys.executable, "-P"]
    theirs = subprocess.run(
        [*base, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    ours = subprocess.run(
        [*base, "-m", "vplug_rs", "list", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rows = json.loads(ours.stdout)["entry_points"]
    assert sorted([row["group"], row["name"], row["value"]] for row in rows) == json.loads(theirs.stdout)


def test_names_that_the_terminal_cannot_show_are_escaped(lab: CommandLab) -> None:
    site = lab.site("sité")
    lab.plugin(site, "acme", "[demo.plugins]\nn\u00e4me = acme_mod:run\n")
    done = lab.run(site, "list", PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert done.returncode == 0, done.stderr
    assert "n\\xe4me" in done.stdout
    assert "sit\\xe9" in done.stdout


def test_names_cannot_steer_the_terminal(lab: CommandLab) -> None:
    site = lab.site("line\nbreak")
    lab.plugin(site, "acme", "[demo.plugins]\nred\x1b[31m = acme_mod:run\nright\u202eleft = acme_mod:run\n")
    done = lab.run(site, "list", PYTHONUTF8="1")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3
    assert "red\\x1b[31m" in done.stdout
    assert "right\\u202eleft" in done.stdout
    names = [row["name"] for row in lab.json(site, "list")["entry_points"]]
    assert names == ["red\x1b[31m", "right\u202eleft"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_path_that_is_not_utf8(lab: CommandLab) -> None:
    site = lab.site("caf\udce9")
    lab.plugin(site, "acme")
    (row,) = lab.json(site, "list")["entry_points"]
    assert row["path"] == str(site / "acme-1.0.dist-info")
    assert row["distribution"] == "acme"
    assert "caf\\udce9" in lab.run(site, "why", "acme").stdout
    assert lab.run(site, "doctor").returncode == 0


def test_a_listing_imports_nothing_heavy(lab: CommandLab, three: Path) -> None:
    code = (
        "import sys; from vplug_rs.cli import main; status = main(['list']); "
        "print(*sorted({'typing','pathlib','email','zipfile','importlib.metadata','dataclasses','logging',"
        "'inspect','csv','json','tempfile','subprocess','importlib_metadata'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", code],
        env=lab.environment(three),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.count("live") == 3
    assert done.stderr.strip() == ""


def archive_of(path: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return path


META = "Metadata-Version: 2.1\nName: zed\nVersion: 1.0\n"
ARCHIVES: dict[str, tuple[dict[str, str | bytes], list[tuple[str, int | None]]]] = {
    "one malformed line": (
        {"METADATA": META, "entry_points.txt": "[g]\nno equals sign\nzz = json:dumps\n"},
        [("entry-points-line-without-equals", 2)],
    ),
    "a line outside of all groups": (
        {"METADATA": META, "entry_points.txt": "a = b:c\n[g]\nzz = json:dumps\n"},
        [("entry-points-outside-section", 1)],
    ),
    "a value that is no reference": (
        {"METADATA": META, "entry_points.txt": "[g]\nzz = json:dumps\nbad = no reference\n"},
        [("entry-points-bad-reference", 3)],
    ),
    "no metadata": ({"entry_points.txt": "[g]\nzz = json:dumps\n"}, []),
    "metadata without a name": ({"METADATA": "Version: 1\n", "entry_points.txt": "[g]\nzz = json:dumps\n"}, []),
    "metadata in latin-1": (
        {"METADATA": META.encode() + b"Author: \xe9\n", "entry_points.txt": "[g]\nzz = json:dumps\n"},
        [],
    ),
    "entry points in latin-1": (
        {"METADATA": META, "entry_points.txt": b"[g]\nzz = json:dumps\ncaf\xe9 = m:f\n"},
        [("entry-points-not-utf8", 3)],
    ),
}


def library(lab: CommandLab, path: Path, group: str) -> list[str]:
    """Ask `vplug_rs.entry_points` itself."""
    code = "import sys, vplug_rs; print(*[e.name for e in vplug_rs.entry_points(group=sys.argv[1])])"
    command = [sys.executable, "-S", "-P", "-W", "ignore", "-c", code, group]
    done = subprocess.run(command, env=lab.environment(path), capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("what", ARCHIVES)
def test_a_damaged_archive_gives_what_the_library_gives_and_doctor_says_why(lab: CommandLab, what: str) -> None:
    files, expected = ARCHIVES[what]
    path = archive_of(lab.root / "b.zip", {f"zed-1.0.dist-info/{name}": text for name, text in files.items()})
    names = library(lab, path, "g")
    assert [row["name"] for row in lab.json(path, "list")["entry_points"]] == names
    assert ("zz" in names) == (what != "entry points in latin-1")
    document = lab.json(path, "doctor", status=int(bool(expected)))
    assert [(f["code"], f["line"], f["distribution"]) for f in document["findings"]] == [
        (code, line, "zed 1.0") for code, line in expected
    ]
    if "zz" in names:
        assert lab.run(path, "why", "zz").returncode == 0


def test_a_member_with_a_wrong_checksum_is_named(lab: CommandLab) -> None:
    files = {"zed-1.0.dist-info/METADATA": META, "zed-1.0.dist-info/entry_points.txt": "[g]\nzz = json:dumps\n"}
    path = archive_of(lab.root / "b.zip", dict(files))
    path.write_bytes(path.read_bytes().replace(b"zz = json", b"zy = json"))
    assert library(lab, path, "g") == []
    assert lab.json(path, "list")["entry_points"] == []
    (found,) = lab.json(path, "doctor", status=1)["findings"]
    assert (found["code"], found["path"]) == ("distribution-failed", f"{path}/zed-1.0.dist-info")
    assert found["distribution"] == "zed 1.0"
    assert "Bad CRC-32" in found["message"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_an_egg_that_is_a_fifo_is_not_opened(lab: CommandLab) -> None:
    path = lab.root / "x-1.egg"
    os.mkfifo(path)
    assert lab.run(path, "list").returncode == 0
    (found,) = lab.json(path, "doctor", status=1)["findings"]
    assert (found["code"], found["path"]) == ("path-entry-unreadable", str(path))


def test_the_findings_of_an_egg_bear_its_name(lab: CommandLab) -> None:
    inside = lab.site("thing-2.5-py3.egg") / "EGG-INFO"
    inside.mkdir()
    (inside / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 2.5\n")
    (inside / "entry_points.txt").write_text("[g]\nno equals sign\nzz = json:dumps\n")
    assert library(lab, inside.parent, "g") == ["zz"]
    assert [row["name"] for row in lab.json(inside.parent, "list")["entry_points"]] == ["zz"]
    (found,) = lab.json(inside.parent, "doctor", status=1)["findings"]
    assert (found["code"], found["line"]) == ("entry-points-line-without-equals", 2)
    assert (found["distribution"], found["path"]) == ("thing 2.5-py3", str(inside / "entry_points.txt"))


def test_without_entry_points_that_is_said(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme", "")
    done = lab.run(site, "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "note: no entry points in 1 distribution\n")
    assert lab.json(site, "list")["entry_points"] == []
    assert lab.run(site, "list", "--json").stderr == ""


def test_where_all_entry_points_are_hidden_that_is_said(lab: CommandLab) -> None:
    first, second = lab.site("first"), lab.site("second")
    lab.plugin(first, "acme", "", version="2.0")
    lab.plugin(second, "acme", version="1.0")
    done = lab.run([first, second], "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("hint: all of them are hidden; see `vplug list --all`\n")


def test_what_is_on_the_path_but_is_no_string_is_passed_over_and_named(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    code = (
        "import sys; sys.path += [3, b'/bytes', None, '/no\\0file', '\\ud800']; from vplug_rs.cli import main; "
        "sys.exit(main([sys.argv[1], '--json']))"
    )
    documents = []
    for command in ("list", "doctor"):
        done = subprocess.run(
            [sys.executable, "-S", "-P", "-c", code, command],
            env=lab.environment(site),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        documents.append(json.loads(done.stdout))
    assert [row["name"] for row in documents[0]["entry_points"]] == ["acme"]
    assert [finding["message"] for finding in documents[1]["findings"]] == [
        "3 is no string",
        "b'/bytes' is no string",
        "None is no string",
    ]
