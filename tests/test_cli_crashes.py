"""Plugins that end, crash or hold up the process that tries them, and what that process may not touch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_lab import CommandLab, lab

__all__ = ["lab"]

PAGE = (Path(__file__).parent.parent / "docs" / "loader.md").read_text(encoding="utf-8")

FINE = "def run(): pass\n"
EXITS = "import os\nos._exit(3)\n"
DIES = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
HANGS = "import time\ntime.sleep(600)\n"
SLOW = "import time\ntime.sleep(1.5)\ndef run(): pass\n"
AFTER_ONE = "import os, sys\nif 'one_mod' in sys.modules: os._exit(5)\ndef run(): pass\n"


def site_of(lab: CommandLab, **sources: str) -> Path:
    """Make a site with one plugin for each source."""
    site = lab.site()
    for name, source in sources.items():
        lab.plugin(site, name, module=False)
        (site / f"{name}_mod.py").write_text(source, encoding="utf-8")
    return site


def timings(lab: CommandLab, site: Path, *words: str) -> tuple[dict[str, Any], str | None]:
    """Give each plugin's row and the error of `list --timings`, which has to end with 1."""
    found = lab.json(site, "list", "demo.plugins", "--timings", *words, status=1)
    return {row["name"]: row for row in found["plugins"]}, found["error"]


def test_a_plugin_that_ends_the_process_is_found_and_the_others_are_timed(lab: CommandLab) -> None:
    site = site_of(lab, broken="import zzz_missing\n", dies=DIES, exits=EXITS, kept=FINE)
    rows, error = timings(lab, site)
    assert {name: row["state"] for name, row in rows.items()} == {
        "broken": "failed",
        "dies": "crashed",
        "exits": "crashed",
        "kept": "loaded",
    }
    assert rows["exits"]["failure"]["exception"].endswith("ended by itself, with status 3")
    assert rows["dies"]["failure"]["exception"].endswith("by SIGKILL")
    assert error is None, "two plugins have it"


def test_a_plugin_that_hangs_is_called_timed_out(lab: CommandLab) -> None:
    rows, error = timings(lab, site_of(lab, fine=FINE, hangs=HANGS), "--seconds", "2")
    assert {name: row["state"] for name, row in rows.items()} == {"fine": "loaded", "hangs": "timed out"}
    assert rows["hangs"]["failure"]["exception"].endswith("took more than 2 s and was ended")
    assert error is None


def test_plugins_that_crash_only_together_are_told_with_the_first_that_does(lab: CommandLab) -> None:
    site = site_of(lab, none=FINE, one=FINE, three=FINE, two=AFTER_ONE)
    done = lab.run(site, "list", "demo.plugins", "--timings")
    assert done.returncode == 1
    assert done.stderr == (
        "error: the process that loaded group `demo.plugins` ended by itself, with status 5; "
        "no plugin does that alone, `two` does it after `none`, `one`, `three`\n"
    )
    rows, error = timings(lab, site)
    assert {row["state"] for row in rows.values()} == {"loaded"}
    assert error is not None
    assert f"error: {error}\n" == done.stderr


@pytest.mark.slow
def test_plugins_that_take_too_long_only_together_are_told(lab: CommandLab) -> None:
    rows, error = timings(lab, site_of(lab, a_slow=SLOW, b_slow=SLOW), "--seconds", "2.5")
    assert {row["state"] for row in rows.values()} == {"loaded"}
    assert error == (
        "loading group `demo.plugins` took more than 2.5 s and was ended; "
        "no plugin does that alone, `b_slow` does it after `a_slow`"
    )


def test_a_crash_together_is_told_beside_a_plugin_that_hangs_alone(lab: CommandLab) -> None:
    site = site_of(lab, one=FINE, two=AFTER_ONE, z_hangs=HANGS)
    rows, error = timings(lab, site, "--seconds", "2")
    assert rows["z_hangs"]["state"] == "timed out"
    assert error is not None
    assert error.endswith("no plugin does that alone, `two` does it after `one`")


@pytest.mark.parametrize(
    ("source", "state", "why", "hint"),
    [
        (EXITS, "crashed", "ended by itself, with status 3", "report it to its author"),
        (HANGS, "timed out", "took more than 2 s and was ended", "`--seconds` gives more time"),
    ],
    ids=["exits", "hangs"],
)
def test_why_shows_a_plugin_that_does_not_outlive_its_process(
    lab: CommandLab, source: str, state: str, why: str, hint: str
) -> None:
    site = site_of(lab, bad=source)
    lab.plugin(site, "other", "[demo.others]\nbad = fine_mod:run\n", module=False)
    (site / "fine_mod.py").write_text(FINE, encoding="utf-8")
    done = lab.run(site, "why", "bad", "--load", "--seconds", "2")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"`bad` in group `demo.plugins` {state}\n  rule     the default policy restricts nothing\n" in done.stdout
    assert f"{why}\nhint: " in done.stdout
    assert hint in done.stdout
    assert "`bad` in group `demo.others` loads in " in done.stdout
    rows = lab.json(site, "why", "bad", "--load", "--seconds", "2", status=1)["loading"]
    assert [(row["group"], row["state"], row["tried"]) for row in rows] == [
        ("demo.plugins", state, True),
        ("demo.others", "loaded", True),
    ]
    failure = rows[0]["failure"]
    assert (failure["phase"], failure["thread"], failure["attempts"]) == ("process", None, 1)
    assert failure["process"] > 0
    assert failure["seconds"] > 0


def documented(head: str) -> set[str]:
    """Give the keys in the table of docs/loader.md that starts with these words."""
    table = PAGE.partition(f"| {head} | value |\n")[2].partition("\n\n")[0]
    return {key for line in table.splitlines()[1:] for key in re.findall(r"`(\w+)`", line.split("|")[1])}


def test_the_keys_of_the_report_are_those_on_the_page(lab: CommandLab) -> None:
    site = site_of(lab, broken="import zzz_missing\n", exits=EXITS, kept=FINE, out=FINE)
    words = ("--env", "DEMO")
    found = lab.json(site, "list", "demo.plugins", "--timings", *words, status=1, DEMO="broken,exits,kept,kebt")
    rows = found["plugins"]
    assert [row["state"] for row in rows] == ["failed", "crashed", "loaded", "filtered"]
    assert [set(row) for row in rows] == [documented("key")] * 4
    assert [set(row["failure"]) for row in rows if row["failure"]] == [documented("key of a failure")] * 2
    (row,) = lab.json(site, "why", "kept", *words, "--load", DEMO="kept")["loading"]
    assert set(row) - {"group", "tried", "error"} == documented("key") - {"order"}
    (unmatched,) = found["unmatched"]
    beside = {*found, *unmatched} - {"schema", "kind", "error"}
    assert beside <= set(re.findall(r"`(\w+)`", PAGE.partition("Beside `plugins`")[2].partition("\n\n")[0])) | {
        "plugins"
    }


def test_a_trial_runs_nothing_of_the_current_folder(lab: CommandLab) -> None:
    site, here = site_of(lab, fine=FINE), lab.site("here")
    for name in ("json", "sys", "os", "site", "sitecustomize"):
        (here / f"{name}.py").write_text("raise SystemExit('the current folder ran')\n", encoding="utf-8")
    for words in (["why", "fine", "--load"], ["list", "demo.plugins", "--timings"]):
        done = lab.run(site, *words, cwd=here)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("start", [["-c", "import sys; from vplug_rs.cli import main; main()"], ["-m", "vplug_rs"]])
def test_a_trial_has_the_path_of_the_command(lab: CommandLab, start: list[str]) -> None:
    site = site_of(lab, shows="import json, sys\nprint(json.dumps(sys.path), file=sys.stderr)\ndef run(): pass\n")
    environment, here = lab.environment(site), lab.site("here")

    def stderr_of(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], env=environment, cwd=here, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stderr

    # the same way to start a program, for -m and -c put different things in front
    (here / "shows_path.py").write_text((site / "shows_mod.py").read_text("utf-8"), encoding="utf-8")
    wanted = stderr_of("-m", "shows_path") if start[0] == "-m" else stderr_of("-c", "import shows_path")
    assert json.loads(wanted)[0] in {"", str(here)}
    assert stderr_of(*start, "why", "shows", "--load") == wanted


def test_a_plugin_cannot_read_what_the_user_types(lab: CommandLab) -> None:
    site = site_of(lab, reads="import sys\nprint(repr(sys.stdin.read()), file=sys.stderr)\ndef run(): pass\n")
    for words in (["why", "reads", "--load"], ["list", "demo.plugins", "--timings"]):
        done = subprocess.run(
            [*lab.command(), *words],
            env=lab.environment(site),
            input="the next name in a loop\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == "''\n"
