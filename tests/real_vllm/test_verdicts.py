"""What a plugin's failure and our variables do to a start: the part of it that loads general plugins."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import lab

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "nothing": {},
    "typo": {"VLLM_PLUGINS": "prob"},
    "strict": {"VPLUG_STRICT": "1"},
    "required, fails": {"VPLUG_REQUIRE": "broken"},
    "required, not there": {"VPLUG_REQUIRE": "prob"},
    "required, filtered": {"VPLUG_REQUIRE": "probe", "VLLM_PLUGINS": "broken"},
    "policy": {"VPLUG_POLICY": "policy.toml"},
}
FAULT = "this plugin was made for another vLLM"


class Verdicts:
    """The outcome and the log of each case."""

    def __init__(self, done: lab.Done, names: list[str]) -> None:
        assert done.status == 0, done.log
        logs = re.findall(r"<case \d+>\n(.*?)</case \d+>", done.log, re.DOTALL)
        self.of = dict(zip(names, zip(done.answer, logs, strict=True), strict=True))


def start(folder: Path, sites: list[Path], model: Path, cases: dict[str, dict[str, str]], **more: str) -> Verdicts:
    env = lab.environment(folder, *sites, **more)
    words = lab.program("start", model, json.dumps(list(cases.values())), folder / "result")
    return Verdicts(lab.run(folder, words, env), list(cases))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory, model: Path, probe: Path, broken: Path) -> Any:
    folder = tmp_path_factory.mktemp("ours")
    (folder / "policy.toml").write_text('deny = ["broken"]\n', "utf-8")
    return start(folder, [broken, probe], model, CASES, VPLUG_VLLM="1").of


@pytest.mark.parametrize("variable", [{}, {"VPLUG_VLLM": "0", "VPLUG_STRICT": "1", "VPLUG_REQUIRE": "prob"}])
def test_without_us_and_by_the_kill_switch_a_failing_plugin_stops_the_start(
    tmp_path: Path, model: Path, probe: Path, broken: Path, variable: dict[str, str]
) -> None:
    found = start(tmp_path, [broken, probe], model, {"nothing": {}}, **variable).of
    assert found["nothing"][0] == f"RuntimeError: {FAULT}\n"
    assert "vplug_rs" not in found["nothing"][1]


def test_a_failing_plugin_no_longer_stops_the_start_and_is_named(ours: Any) -> None:
    outcome, log = ours["nothing"]
    assert outcome == "started"
    assert "plugin `broken` of broken 1.0 failed" in log
    assert FAULT in log


def test_a_name_that_matches_nothing_is_told_with_the_near_one(ours: Any) -> None:
    outcome, log = ours["typo"]
    assert outcome == "started"
    (line,) = [line for line in log.splitlines() if "prob`" in line]
    assert "`probe`" in line
    assert "VLLM_PLUGINS" in line


def test_strict_stops_the_start_by_name(ours: Any) -> None:
    outcome, _ = ours["strict"]
    assert outcome.startswith("vplug_rs.errors.PluginLoadError: ")
    assert "`broken`" in outcome


def test_a_required_plugin_that_fails_stops_the_start_by_name(ours: Any) -> None:
    outcome, _ = ours["required, fails"]
    assert outcome.startswith("vplug_rs.errors.PluginLoadError: ")
    assert "VPLUG_REQUIRE" in outcome
    assert "`broken`" in outcome


def test_a_required_plugin_that_is_not_there_stops_the_start_by_name(ours: Any) -> None:
    outcome, _ = ours["required, not there"]
    assert outcome.startswith("vplug_rs.errors.PluginNotFoundError: ")
    assert "`prob`" in outcome
    assert "`probe`" in outcome


def test_a_required_plugin_that_is_filtered_stops_the_start_by_name(ours: Any) -> None:
    outcome, _ = ours["required, filtered"]
    assert outcome.startswith("vplug_rs.errors.PluginRefusedError: ")
    assert "`probe`" in outcome


def test_a_policy_file_keeps_a_plugin_out(ours: Any) -> None:
    outcome, log = ours["policy"]
    assert outcome == "started"
    assert FAULT not in log


def test_our_variables_cause_no_warning(ours: Any) -> None:
    assert not [log for _, log in ours.values() if "Unknown vLLM environment variable" in log]
