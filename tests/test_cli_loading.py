"""`vplug list --timings` and `vplug why --load`: plugins tried in processes of their own, policies judged without."""

from __future__ import annotations

import json
import zipfile
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


def test_timings_tell_a_name_on_the_list_that_is_nobodys(lab: CommandLab, host: Path) -> None:
    done = lab.run(host, "list", "demo.plugins", "--timings", "--env", "DEMO", DEMO="works, kpet")
    assert "warning: `kpet` in DEMO names nothing\nhint: did you mean `kept`?\n" in done.stderr


def test_timings_as_json_are_the_loaders_report(lab: CommandLab, host: Path) -> None:
    done = lab.run(host, "list", "demo.plugins", "--timings", "--json")
    found = json.loads(done.stdout)
    assert (found["kind"], found["group"], found["error"]) == ("list", "demo.plugins", None)
    rows = {row["name"]: row for row in found["plugins"]}
    assert "decimal" in rows["works"]["modules"]
    assert rows["works"]["import_seconds"] > 0
    assert rows["broken"]["failure"]["phase"] == "import"


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


def archived(lab: CommandLab, header: str, source: str = "def run(): pass\n") -> Path:
    """Install the plugin `zipped` in an archive."""
    path = lab.root / "acme.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zipped_mod.py", source)
        archive.writestr("Acme_Zip-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\n{header}")
        archive.writestr("Acme_Zip-1.0.dist-info/entry_points.txt", "[demo.plugins]\nzipped = zipped_mod:run\n")
    return path


@pytest.mark.parametrize("header", ["Name: Acme.Zip\nVersion: 1.0\n", ""], ids=["named", "nameless"])
def test_why_judges_and_loads_plugins_in_archives(lab: CommandLab, header: str) -> None:
    path = [archived(lab, header), lab.site()]
    lab.plugin(path[1], "other", "[demo.plugins]\nzipped = other_mod:run\n")
    refused = lab.run(path, "why", "zipped", "--env", "DEMO", DEMO="none")
    assert refused.stdout.count("`zipped` in group `demo.plugins` may not load\n") == 2
    words = ("why", "zipped", "--policy", str(lab.root / "vplug.toml"), "--load")
    (lab.root / "vplug.toml").write_text("collision = 'first'\n", encoding="utf-8")
    rows = lab.json(path, *words, status=1)["loading"]
    assert [(row["value"], row["state"], row["tried"]) for row in rows] == [
        ("zipped_mod:run", "loaded", True),
        ("other_mod:run", "filtered", False),
    ]


def test_why_tells_of_a_failure_in_an_archive(lab: CommandLab) -> None:
    done = lab.run(archived(lab, "Name: acme-zip\nVersion: 1.0\n", "import zzz_missing\n"), "why", "zipped", "--load")
    assert done.returncode == 1
    assert "`zipped` in group `demo.plugins` fails at import" in done.stdout


def test_why_says_that_a_plugin_has_hidden_itself(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "hides", module=False)
    (site / "hides_mod.py").write_text(f"import sys\nsys.path.remove({str(site)!r})\ndef run(): pass\n", "utf-8")
    done = lab.run(site, "why", "hides", "--load")
    assert done.returncode == 1
    assert "`hides` in group `demo.plugins` is not there after loading\n" in done.stdout
    (row,) = lab.json(site, "why", "hides", "--load", status=1)["loading"]
    assert (row["state"], row["tried"], row["error"]) == ("absent", False, "the loader does not find this entry point")


def test_why_says_which_of_two_plugins_of_one_name_was_not_tried(lab: CommandLab) -> None:
    site, policy = lab.site(), lab.root / "vplug.toml"
    for name in ("one", "two"):
        lab.plugin(site, name, f"[demo.plugins]\nsame = {name}_mod:run\n", module=False)
        (site / f"{name}_mod.py").write_text("def run(): pass\n", encoding="utf-8")
    policy.write_text('collision = "all"\n', encoding="utf-8")
    done = lab.run(site, "why", "same", "--load", "--policy", str(policy))
    assert done.returncode == 1, "it is ambiguous"
    assert "`same` in group `demo.plugins` loads in " in done.stdout
    assert "may load, but was not tried: another plugin of that name comes first" in done.stdout


def test_why_judges_and_loads_each_entry_point_of_a_distribution(lab: CommandLab, host: Path) -> None:
    points = "[demo.plugins]\nfirst = works_mod:run\nsecond = broken_mod:run\n[demo.other]\nthird = works_mod:run\n"
    lab.plugin(host, "Acme.Tools", points, module=False)
    done = lab.run(host, "why", "acme-tools", "--env", "DEMO", DEMO="first,third")
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if " load" in line] == [
        "`first` in group `demo.plugins` may load",
        "`second` in group `demo.plugins` may not load",
        "`third` in group `demo.other` may load",
    ]
    rows = lab.json(host, "why", "acme-tools", "--env", "DEMO", "--load", status=1, DEMO="first,second")["loading"]
    assert [(row["name"], row["state"]) for row in rows] == [
        ("first", "loaded"),
        ("second", "failed"),
        ("third", "filtered"),
    ]


@pytest.mark.parametrize("name", ["works", "Acme.Tools", "nothing"])
def test_a_policy_that_cannot_be_read_is_told_whatever_the_name_is(lab: CommandLab, host: Path, name: str) -> None:
    lab.plugin(host, "Acme.Tools", b"", module=False)
    done = lab.run(host, "why", name, "--policy", "/nonexistent")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/nonexistent: it cannot be read" in done.stderr


IDLE = {
    "why works --seconds 5": "--seconds limits loading, so it wants --load",
    "list demo.plugins --policy /nonexistent": "a policy is for loading, so it wants --timings",
    "list demo.plugins --env DEMO": "a policy is for loading, so it wants --timings",
    "list --vllm": "a policy is for loading, so it wants --timings",
    "list demo.plugins --seconds 5": "--seconds limits loading, so it wants --timings",
    "list demo.plugins --timings --all": "what --all shows besides is never loaded",
}


@pytest.mark.parametrize("line", IDLE)
def test_no_option_is_ignored(lab: CommandLab, host: Path, line: str) -> None:
    done = lab.run(host, *line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert IDLE[line] in done.stderr
