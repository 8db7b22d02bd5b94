"""`vplug list --timings` and `vplug why --load`: plugins tried in processes of their own, policies judged without."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cli_lab import CommandLab, lab

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["lab"]

SOURCES = {
    "works": "import decimal\nprint('noise')\ndef run(): pass\n",
    "broken": "import zzz_missing\n",
    "kept": "def run(): pass\n",
}


@pytest.fixture
def host(lab: CommandLab) -> Path:
    """A site with a plugin that works, one that fails and one more."""
    site = lab.site()
    for name, source in SOURCES.items():
        lab.plugin(site, name, module=False)
        (site / f"{name}_mod.py").write_text(source, encoding="utf-8")
    return site


def test_timings_show_state_cost_and_rule(lab: CommandLab, host: Path) -> None:
    done = lab.run(host, "list", "demo.plugins", "--timings", "--env", "DEMO", DEMO="works, broken, absent")
    assert done.returncode == 1
    assert "noise" not in done.stdout
    head, *rows = [line.split(maxsplit=4) for line in done.stdout.splitlines()]
    assert head[:4] == ["ORDER", "NAME", "DISTRIBUTION", "STATE"]
    assert [(row[1], row[4].split()[0]) for row in rows] == [
        ("broken", "failed"),
        ("kept", "filtered"),
        ("works", "loaded"),
    ]
    assert "import: ModuleNotFoundError: No module named 'zzz_missing'" in done.stdout
    assert "it is not on the allowlist in DEMO" in done.stdout


def test_timings_as_json_are_the_loaders_report(lab: CommandLab, host: Path) -> None:
    done = lab.run(host, "list", "demo.plugins", "--timings", "--json")
    found = json.loads(done.stdout)
    assert (found["kind"], found["group"], found["error"]) == ("list", "demo.plugins", None)
    rows = {row["name"]: row for row in found["plugins"]}
    assert "decimal" in rows["works"]["modules"]
    assert rows["works"]["import_seconds"] > 0
    assert rows["broken"]["failure"]["phase"] == "import"


def test_a_plugin_that_ends_the_process_is_found_and_the_others_are_timed(lab: CommandLab, host: Path) -> None:
    lab.plugin(host, "exits", module=False)
    (host / "exits_mod.py").write_text("import os\nos._exit(3)\n", encoding="utf-8")
    lab.plugin(host, "dies", module=False)
    (host / "dies_mod.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", encoding="utf-8")
    done = lab.run(host, "list", "demo.plugins", "--timings", "--json")
    assert done.returncode == 1
    rows = {row["name"]: row for row in json.loads(done.stdout)["plugins"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "broken": "failed",
        "dies": "crashed",
        "exits": "crashed",
        "kept": "loaded",
        "works": "loaded",
    }
    assert rows["exits"]["failure"]["exception"].endswith("ended by itself, with status 3")
    assert rows["dies"]["failure"]["exception"].endswith("by SIGKILL")


def test_a_plugin_that_hangs_is_ended(lab: CommandLab, host: Path) -> None:
    lab.plugin(host, "hangs", module=False)
    (host / "hangs_mod.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    done = lab.run(host, "why", "hangs", "--load", "--seconds", "1.5")
    assert done.returncode == 1
    assert "took more than 1.5 s" in done.stderr


def test_why_judges_by_a_policy_file_and_imports_nothing(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "loud")
    policy = lab.root / "vplug.toml"
    policy.write_text('deny = ["loud"]\n', encoding="utf-8")
    done = lab.run(site, "why", "loud", "--policy", str(policy))
    assert done.returncode == 1
    assert f"`loud` in group `demo.plugins` may not load\n  rule  `!loud` in {policy} denies it" in done.stdout
    policy.write_text('allow = ["loud"]\n', encoding="utf-8")
    done = lab.run(site, "why", "loud", "--policy", str(policy))
    assert (done.returncode, "may load\n" in done.stdout) == (0, True)


def test_why_says_which_entry_of_the_list_may_have_meant_it(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "loud")
    done = lab.run(site, "why", "loud", "--vllm", VLLM_PLUGINS="Loud,other")
    assert done.returncode == 1
    assert "hint: `Loud` in VLLM_PLUGINS names nothing: did it mean `loud`?" in done.stdout


def test_a_broken_policy_file_is_told_with_its_line(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "loud")
    policy = lab.root / "vplug.toml"
    policy.write_text('allow = ["loud"]\nalow = []\n', encoding="utf-8")
    done = lab.run(site, "why", "loud", "--policy", str(policy))
    assert done.returncode == 2
    assert f"{policy}:2: `alow` is no rule" in done.stderr


def test_why_loads_one_plugin_and_shows_its_own_frames(lab: CommandLab, host: Path) -> None:
    done = lab.run(host, "why", "broken", "--load")
    assert done.returncode == 1
    assert "`broken` in group `demo.plugins` fails at import" in done.stdout
    assert f'File "{host / "broken_mod.py"}", line 1' in done.stdout
    assert "vplug_rs/loader.py" not in done.stdout
    assert "hint: Install what provides `zzz_missing`" in done.stdout
    good = lab.run(host, "why", "works", "--load", "--json")
    assert good.returncode == 0
    (row,) = json.loads(good.stdout)["loading"]
    assert (row["state"], row["tried"], row["error"]) == ("loaded", True, None)


def test_timings_want_a_group(lab: CommandLab, host: Path) -> None:
    done = lab.run(host, "list", "--timings")
    assert done.returncode == 2
    assert "wants a group" in done.stderr


def test_timings_of_a_group_that_is_not_there(lab: CommandLab, host: Path) -> None:
    done = lab.run(host, "list", "demo.plugin", "--timings")
    assert done.returncode == 3
    assert "did you mean `demo.plugins`?" in done.stderr


def test_why_says_that_an_unmet_requirement_keeps_everything_out(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "loud")
    policy = lab.root / "vplug.toml"
    policy.write_text('require = ["absent"]\n', encoding="utf-8")
    done = lab.run(site, "why", "loud", "--policy", str(policy))
    assert done.returncode == 1
    assert f"`loud` in group `demo.plugins` may not load\n  because  {policy} requires `absent`" in done.stdout
    (row,) = lab.json(site, "why", "loud", "--policy", str(policy), status=1)["loading"]
    assert row["error"].startswith(f"{policy} requires `absent`")


def test_why_says_which_denial_may_have_meant_it(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "loud")
    policy = lab.root / "vplug.toml"
    policy.write_text('deny = ["lout"]\n', encoding="utf-8")
    done = lab.run(site, "why", "loud", "--policy", str(policy))
    assert f"may load\n  rule  {policy} restricts nothing\nhint: `!lout` in {policy} names nothing" in done.stdout


def test_timings_number_the_plugins_as_they_are_loaded(lab: CommandLab, host: Path) -> None:
    policy = lab.root / "vplug.toml"
    policy.write_text('order = ["works"]\ndeny = ["kept"]\n', encoding="utf-8")
    words = ("list", "demo.plugins", "--timings", "--policy", str(policy))
    rows = [line.split()[:2] for line in lab.run(host, *words).stdout.splitlines()[1:]]
    assert rows == [["2", "broken"], ["-", "kept"], ["1", "works"]]
    orders = {row["name"]: row["order"] for row in json.loads(lab.run(host, *words, "--json").stdout)["plugins"]}
    assert orders == {"broken": 2, "kept": None, "works": 1}
