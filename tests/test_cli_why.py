"""`vplug why`: one test for each thing that can be the matter with a name."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cli_lab import CommandLab, lab

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["lab"]


def egg_info(site: Path, name: str, version: str) -> Path:
    info = site / f"{name}.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return info


def test_live(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    done = lab.run(site, "why", "acme")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "`acme` is live: entry point 1 of 1 in group `demo.plugins`\n"
        "  value         acme_mod:run\n"
        f"  module        {site / 'acme_mod.py'}\n"
        f"  declared in   {info / 'entry_points.txt'}:2\n"
        "  distribution  acme 1.0\n"
    )


def test_live_as_json(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    document = lab.json(site, "why", "acme")
    assert list(document) == [
        "schema",
        "kind",
        "name",
        "group",
        "status",
        "entry_points",
        "distributions",
        "damaged",
        "suggestions",
    ]
    assert document["status"] == "live"
    (case,) = document["entry_points"]
    assert case["path"] == str(info)
    assert case["module"] == {"name": "acme_mod", "state": "found", "path": str(site / "acme_mod.py"), "detail": None}
    assert (case["hidden_by"], case["twins"], case["rivals"], case["findings"]) == (None, [], [], [])


def test_xa13_shadowed(lab: CommandLab) -> None:
    first, site = lab.site("first"), lab.site("site")
    winner = egg_info(first, "acme", "1.4")
    loser = lab.plugin(site, "acme", version="2.0")
    done = lab.run([first, site], "why", "acme")
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout == (
        "`acme` is hidden: another copy of `acme` comes first on the path\n"
        "  value         acme_mod:run\n"
        "  group         demo.plugins\n"
        f"  declared in   {loser / 'entry_points.txt'}:2\n"
        f"  hidden        acme 2.0 in `{loser}`\n"
        f"  used instead  acme 1.4 in `{winner}`, which has no such entry point\n"
        f"hint: if `acme` 2.0 is the one you want, delete `{winner}`\n"
    )


def test_xa13_shadowed_as_json(lab: CommandLab) -> None:
    first, site = lab.site("first"), lab.site("site")
    winner = egg_info(first, "acme", "1.4")
    lab.plugin(site, "acme", version="2.0")
    document = lab.json([first, site], "why", "acme", status=1)
    assert document["status"] == "hidden"
    (case,) = document["entry_points"]
    assert (case["version"], case["state"], case["order"]) == ("2.0", "shadowed", None)
    assert case["hidden_by"] == {
        "distribution": "acme",
        "version": "1.4",
        "path": str(winner),
        "path_entry": str(first),
        "state": "live",
    }


def test_live_but_a_second_copy_is_hidden_behind_it(lab: CommandLab) -> None:
    first, second = lab.site("first"), lab.site("second")
    lab.plugin(first, "acme", version="2.0")
    old = lab.plugin(second, "acme", version="1.0")
    done = lab.run([first, second], "why", "acme")
    assert done.returncode == 0
    assert "is live: entry point 1 of 1" in done.stdout
    assert f"  hides         acme 1.0 in `{old}`\n" in done.stdout
    assert f"hint: if `acme` 2.0 is the one you want, delete `{old}`\n" in done.stdout


def test_the_module_is_missing(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme", module=False)
    done = lab.run(site, "why", "acme")
    assert done.returncode == 1
    assert "`acme` is listed, but its module does not exist" in done.stdout
    assert "there is no module `acme_mod`" in done.stdout
    assert lab.json(site, "why", "acme", status=1)["status"] == "missing-module"


def test_a_line_that_cannot_be_read(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", "[demo.plugins]\nfine = acme_mod:run\nbroken acme_mod:run\n")
    done = lab.run(site, "why", "broken")
    assert done.returncode == 1
    assert "`broken` is damaged: its declaration cannot be read" in done.stdout
    assert f"{info / 'entry_points.txt'}:3" in done.stdout
    assert "hint: " in done.stdout
    assert lab.run(site, "why", "fine").returncode == 0


def test_a_file_that_cannot_be_read(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", b"[demo.plugins]\nlatin = acme_mod:run\nx = acme_mod:\xe9\n")
    document = lab.json(site, "why", "latin", status=1)
    assert document["status"] == "damaged"
    assert lab.run(site, "why", "latin").stdout.startswith("`latin` is damaged: its declaration cannot be read\n")
    assert [finding["path"] for finding in document["damaged"]] == [str(info / "entry_points.txt")]


def test_a_newer_copy_in_the_same_folder(lab: CommandLab) -> None:
    site = lab.site()
    old = lab.plugin(site, "acme", "[demo.plugins]\ngone = acme_mod:run\n", version="1.0")
    lab.plugin(site, "acme", version="2.0")
    done = lab.run(site, "why", "gone")
    assert done.returncode == 1
    assert done.stdout.startswith("`gone` is hidden: another copy of `acme` in the same folder wins\n")
    assert f"  hidden        acme 1.0 in `{old}`\n" in done.stdout


def test_the_remains_of_an_interrupted_uninstall(lab: CommandLab) -> None:
    """Pip replaces the first letter of a folder that it is about to remove."""
    site = lab.site()
    info = lab.plugin(site, "acme").rename(site / "~cme-1.0.dist-info")
    done = lab.run(site, "why", "acme")
    assert done.returncode == 1
    assert done.stdout.startswith("`acme` 1.0 is damaged\n")
    assert f"`{info.name}` was moved aside by an installer that did not finish" in done.stdout
    assert "hint: Remove the folders whose names begin with `~`" in done.stdout


def test_a_value_that_is_no_reference(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme", "[demo.plugins]\nacme = not a reference\n")
    done = lab.run(site, "why", "acme")
    assert done.returncode == 1
    assert "is listed, but cannot be loaded" in done.stdout


def test_claimed_twice(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme", "[demo.plugins]\nshared = acme_mod:run\n")
    lab.plugin(site, "beta", "[demo.plugins]\nshared = beta_mod:run\n")
    done = lab.run(site, "why", "shared")
    assert done.returncode == 1
    assert done.stdout.count("`shared` is claimed by more than one distribution") == 1
    assert "  also claimed  beta 1.0: beta_mod:run, " in done.stdout
    assert "hint: uninstall `acme` or `beta`" in done.stdout
    assert lab.json(site, "why", "shared", status=1)["status"] == "ambiguous"


def test_a_near_miss(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    done = lab.run(site, "why", "Acmee")
    assert done.returncode == 3
    assert "`Acmee` is not here" in done.stdout
    assert "hint: did you mean `acme`, an entry point of group `demo.plugins`?" in done.stdout


def test_nothing_like_it(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    done = lab.run(site, "why", "zzzzzz")
    assert done.returncode == 3
    assert "did you mean" not in done.stdout
    assert "another Python" in done.stdout


def test_in_another_group(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    done = lab.run(site, "why", "acme", "--group", "other")
    assert done.returncode == 3
    assert "hint: it is an entry point of group `demo.plugins`" in done.stdout
    assert lab.run(site, "why", "acme", "--group", "demo.plugins").returncode == 0


def test_the_name_of_a_group(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    done = lab.run(site, "why", "demo.plugins")
    assert done.returncode == 3
    assert "hint: `vplug list demo.plugins` shows that group" in done.stdout


def test_a_distribution_in_another_spelling(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "Acme_Tools", "[demo.plugins]\nrun = Acme_Tools_mod:run\n")
    done = lab.run(site, "why", "acme.tools")
    assert done.returncode == 0
    assert done.stdout == (
        "`Acme_Tools` is an installed distribution, version 1.0\n"
        f"  metadata      {info}\n"
        "  entry points  run = Acme_Tools_mod:run  (demo.plugins)\n"
    )


def test_a_distribution_with_a_damaged_file(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme", "[demo.plugins]\none = acme_mod:run\nbroken\n")
    done = lab.run(site, "why", "acme")
    assert done.returncode == 1
    assert "`acme` 1.0 is damaged" in done.stdout
    assert f"({info / 'entry_points.txt'}:3)" in done.stdout


def test_only_remains(lab: CommandLab) -> None:
    site = lab.site()
    info = lab.plugin(site, "acme")
    (info / "METADATA").unlink()
    (info / "entry_points.txt").unlink()
    done = lab.run(site, "why", "acme")
    assert done.returncode == 1
    assert str(info) in done.stdout


def test_an_empty_name_is_simply_absent(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    assert lab.run(site, "why", "").returncode == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf8(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    (site / "~caf\udce9-1.0.dist-info").mkdir()
    (site / "caf\udce9-1.0.dist-info").mkdir()
    assert lab.run(site, "why", "acme").returncode == 0
    assert lab.run(site, "why", "\udcff").returncode == 3
    assert lab.run(site, "why", "caf\udce9").stdout.startswith("`caf\\udce9` 1.0 is damaged")


def test_an_empty_name_is_absent_beside_folders_without_a_name(lab: CommandLab) -> None:
    site = lab.site()
    (site / ".dist-info").mkdir()
    assert lab.run(site, "why", "").returncode == 3


def test_a_name_declared_twice_in_one_file_hides_nothing(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme", "[demo.plugins]\na = acme_mod:run\na = acme_mod:run\n")
    document = lab.json(site, "why", "a")
    assert [(case["order"], case["twins"]) for case in document["entry_points"]] == [(1, []), (2, [])]
    assert "hides" not in lab.run(site, "why", "a").stdout


def test_many_rivals_are_counted_not_listed(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme", "[demo.plugins]\na = acme_mod:run\n")
    lab.plugin(site, "beta", "[demo.plugins]\n" + "a = beta_mod:run\n" * 40)
    done = lab.run(site, "why", "a")
    assert done.stdout.count("also claimed") == 6
    assert "and 34 more" in done.stdout
    assert len(lab.json(site, "why", "a", status=1)["entry_points"][0]["rivals"]) == 40


MEASURE = """
import sys
from vplug_rs.cli import main
import vplug_rs.cli.why, vplug_rs.cli.explain
opened = lines = 0
def hear(event, args):
    global opened
    opened += event == "open" and str(args[0]).endswith("entry_points.txt")
def trace(frame, event, arg):
    global lines
    if "vplug_rs" not in frame.f_code.co_filename:
        return None
    lines += event == "line"
    return trace
sys.addaudithook(hear)
sys.settrace(trace)
status = main(["why", sys.argv[1]])
sys.settrace(None)
print("COST", status, opened, lines)
"""


def cost(lab: CommandLab, site: Path, name: str) -> tuple[int, int, int]:
    """Run `vplug why NAME`; give its status, how often it opened an entry_points.txt, and the lines it executed."""
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", MEASURE, name],
        env=lab.environment(site),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    status, opened, lines = done.stdout.splitlines()[-1].removeprefix("COST ").split()
    return int(status), int(opened), int(lines)


@pytest.mark.parametrize(
    ("point", "name", "status"), [("word{}", "absent", 3), ("a = m:f", "a", 1), ("a = not a reference", "a", 1)]
)
def test_the_work_grows_with_the_file_not_with_its_square(lab: CommandLab, point: str, name: str, status: int) -> None:
    costs = []
    for number in (400, 1600):
        site = lab.site(f"site{number}")
        for part in range(number // 80):  # the core tells no more than a hundred faults of one file
            points = "".join(point.format(line) + "\n" for line in range(80))
            lab.plugin(site, f"acme{part}", f"[g{part}]\n{points}", module=False)
        costs.append(cost(lab, site, name))
        assert costs[-1][0] == status
        assert costs[-1][1] <= number // 80, "a file is read more than once"
    assert costs[1][2] < 6 * costs[0][2], costs  # four times the lines; the square would be sixteen


def test_the_work_on_one_name_declared_many_times_grows_with_their_number(lab: CommandLab) -> None:
    costs = []
    for number in (400, 1600):
        site = lab.site(f"site{number}")
        lab.plugin(site, "acme", "[g]\n" + "a = m:f\n" * number)
        costs.append(cost(lab, site, "a"))
        assert costs[-1][:2] == (1, 0)
    assert costs[1][2] < 6 * costs[0][2], costs
