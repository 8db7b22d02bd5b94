"""`vplug list`: what is shown, in which order, and that nothing is imported for it."""

from __future__ import annotations

import subprocess
import sys
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
    import zipfile

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
    import json

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
