"""What differs from vLLM's loader on purpose: for each difference vLLM's answer and ours, side by side."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from test_vllm_oracle import Side, sides

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["sides"]

GENERAL, PLATFORM, ENDPOINT, LOGITS = (
    f"vllm.{name}" for name in ("general_plugins", "platform_plugins", "endpoint_plugins", "logits_processors")
)
NOTE = "import sys\ndef note(*what): sys.oracle_events.append(list(what))\n"
OURS = "vplug_lora"
NOBODY = dict.fromkeys(("tpu", "cuda", "rocm", "xpu", "cpu"), "declines")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each job is answered in a forked child")


class Case:
    """An installation in one folder, and what both sides answer on it."""

    def __init__(self, folder: Path, sides: tuple[Side, Side]) -> None:
        self.folder, self.sides = folder, sides
        self.count = 0

    def plugin(self, group: str, name: str, source: str, *, reference: str = "run", more: str = "") -> Case:
        """A distribution of its own for each plugin, in the order of the calls on the path."""
        self.count += 1
        module, entry = f"mended{self.count}", self.folder / f"{self.count:02}"
        info = entry / f"dist{self.count}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dist{self.count}\nVersion: 1.0\n", "utf-8")
        value = f"{module}:{reference}" if reference else module
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n{more}", "utf-8")
        (entry / f"{module}.py").write_text(NOTE + source, "utf-8")
        return self

    def ask(
        self,
        *operations: list[Any],
        plugins: str | None = None,
        builtin: dict[str, str] | None = None,
        device: str = "",
    ) -> Any:
        """(vLLM's answers, ours), for each operation."""
        job = {
            "path": [str(entry) for entry in sorted(self.folder.iterdir())],
            "plugins": plugins,
            "device": device,
            "builtin": {**NOBODY, **(builtin or {})},
            "operations": operations,
        }
        return tuple(_without_ours(side.ask(job)) for side in self.sides)


def _without_ours(answer: Any) -> Any:
    """An answer without the plugin that this distribution brings: it is installed on our side alone."""
    if not isinstance(answer, list):
        return answer
    return [_without_ours(part) for part in answer if not (isinstance(part, list) and OURS in part)]


@pytest.fixture
def case(tmp_path: Path, sides: tuple[Side, Side]) -> Case:
    return Case(tmp_path, sides)


def calls(answer: list[Any]) -> list[str]:
    return [name for what, name in answer[1] if what == "call"]


def levels(answer: list[Any], kind: str) -> list[list[Any]]:
    return [[level, name] for level, found, name in answer[2] if found == kind]


def called(name: str, then: str = "pass") -> str:
    return f"def run():\n    note('call', {name!r})\n    {then}\n"


def test_a_failing_call_stops_nobody_and_is_tried_again(case: Case) -> None:
    case.plugin(GENERAL, "first", called("first", "raise RuntimeError('no')")).plugin(
        GENERAL, "second", called("second")
    )
    theirs, ours = case.ask(["general"], ["general"])
    assert [answer[0][0] for answer in theirs] == ["raises", "ok"]
    assert [calls(answer) for answer in theirs] == [["first"], []]
    assert [answer[0] for answer in ours] == [["ok", None]] * 2
    assert [calls(answer) for answer in ours] == [["first", "second"], ["first"]]
    assert levels(ours[0], "failed") == [["ERROR", "first"]]


def test_an_exit_is_contained(case: Case) -> None:
    case.plugin(GENERAL, "leaves", "raise SystemExit(3)\n").plugin(GENERAL, "stays", called("stays"))
    theirs, ours = case.ask(["group", GENERAL])
    assert theirs[0][0][1][0] == "SystemExit"
    assert ours[0][0] == ["ok", [["stays", "mended2:run"]]]


def test_a_nested_call_waits_for_nobody_and_runs_nothing_twice(case: Case) -> None:
    again = "from vplug_rs.vllm.functions import load_general_plugins as again; again()"
    case.plugin(GENERAL, "nests", called("nests", again)).plugin(GENERAL, "other", called("other"))
    _, ours = case.ask(["general"], ["general"])
    assert [sorted(calls(answer)) for answer in ours] == [["nests", "other"], []]


@pytest.mark.parametrize("listed", [None, "", ","])
def test_a_plugin_without_a_name_is_never_let_in(case: Case, listed: str | None) -> None:
    theirs, ours = case.plugin(GENERAL, "", called("nameless")).ask(["group", GENERAL], plugins=listed)
    assert theirs[0][0] == ["ok", [["", "mended1:run"]]]
    assert ours[0][0] == ["ok", []]


def test_a_name_that_matches_nothing_is_told(case: Case) -> None:
    theirs, ours = case.plugin(GENERAL, "good", called("good")).ask(["group", GENERAL], plugins="goood")
    assert theirs[0][0] == ours[0][0] == ["ok", []]
    assert {level for level, _, _ in theirs[0][2]} == {"DEBUG"}
    assert levels(ours[0], "warning") == [["WARNING", None]]


def test_two_plugins_of_one_name_count_as_in_vllm_and_are_told(case: Case) -> None:
    case.plugin(GENERAL, "twin", called("one")).plugin(GENERAL, "twin", called("two"))
    theirs, ours = case.ask(["group", GENERAL], ["general"])
    assert theirs[0][0] == ours[0][0] == ["ok", [["twin", "mended2:run"]]]
    assert calls(theirs[1]) == calls(ours[1]) == ["two"]
    assert not levels(theirs[0], "warning")
    assert levels(ours[0], "warning") == [["WARNING", None]]


def test_damaged_metadata_of_one_package_takes_nobody_down(case: Case) -> None:
    case.plugin(GENERAL, "sound", called("sound")).plugin(GENERAL, "other", called("other"), more="no equals sign\n")
    theirs, ours = case.ask(["group", GENERAL], ["general"], ["general"])
    assert [answer[0][0] for answer in theirs] == ["raises", "raises", "ok"]  # the last is silent: the flag is set
    assert ours[0][0] == ["ok", [["sound", "mended1:run"], ["other", "mended2:run"]]]
    assert calls(ours[1]) == ["sound", "other"]


def test_the_platform_that_wins_is_asked_once(case: Case) -> None:
    source = "asked = []\n" + called("chip", "asked.append(1)\n    if len(asked) > 1: raise OSError('again')")
    theirs, ours = case.plugin(PLATFORM, "chip", source + "    return 'pkg.Chip'\n").ask(["platform"])
    assert theirs[0][0][1][0] == "OSError"
    assert calls(theirs[0]) == ["chip", "chip"]
    assert ours[0][0] == ["ok", "pkg.Chip"]
    assert calls(ours[0]) == ["chip"]


@pytest.mark.parametrize(
    ("answer", "theirs_say"),
    [("''", ""), ("object", "builtins:object"), ("'Chip'", "Chip")],
    ids=["empty", "class", "bare"],
)
def test_an_answer_that_names_no_class_is_no_platform(case: Case, answer: str, theirs_say: str) -> None:
    theirs, ours = case.plugin(PLATFORM, "chip", called("chip", f"return {answer}")).ask(["platform"])
    assert theirs[0][0] == ["ok", theirs_say]
    assert ours[0][0] == ["ok", "vllm.platforms.interface.UnspecifiedPlatform"]
    assert levels(ours[0], "probe") == [["WARNING", "chip"]]


def test_a_plugin_that_is_left_out_is_named_with_the_rule_at_the_level_of_its_group(case: Case) -> None:
    case.plugin(GENERAL, "out", called("out")).plugin(PLATFORM, "out", called("out")).plugin(
        GENERAL, "in", called("in")
    )
    _, ours = case.ask(["group", GENERAL], ["group", PLATFORM], plugins="in")
    skipped = [[one for one in levels(answer, "skipped") if one[1] == "out"] for answer in ours]
    assert skipped == [[["DEBUG", "out"]], [["INFO", "out"]]]


def test_an_ordered_cpu_that_is_not_there_is_an_error_in_both(case: Case) -> None:
    theirs, ours = case.plugin(GENERAL, "any", called("any")).ask(["platform"], builtin={"cpu": "none"}, device="cpu")
    assert theirs[0][0][1][0] == "AssertionError"
    assert "PlatformError" in ours[0][0][1]


def test_a_plugin_called_as_a_built_in_platform_does_not_hide_it(case: Case) -> None:
    case.plugin(PLATFORM, "cuda", called("cuda", "return None"))
    theirs, ours = case.ask(["platform"], builtin={"cuda": "here"})
    assert theirs[0][0] == ["ok", None]
    assert ours[0][0] == ["ok", "builtin.cuda.Platform"]


def test_two_platforms_are_an_error_that_says_whose_they_are(case: Case) -> None:
    for name in ("one", "two"):
        case.plugin(PLATFORM, name, called(name, f"return 'pkg.{name}'"))
    theirs, ours = case.ask(["platform"])
    assert theirs[0][0][1][0] == "RuntimeError"
    assert "RuntimeError" in ours[0][0][1]
    assert "one of dist1 1.0, two of dist2 1.0" in ours[0][0][2]


def test_two_platforms_that_are_one_class_are_an_error_in_both(case: Case) -> None:
    for name in ("one", "two"):
        case.plugin(PLATFORM, name, called(name, "return 'pkg.One'"))
    theirs, ours = case.ask(["platform"])
    assert theirs[0][0][1][0] == "RuntimeError"
    assert "RuntimeError" in ours[0][0][1]


def test_an_endpoint_plugin_whose_tasks_cannot_be_read_is_left_out(case: Case) -> None:
    broken = "class run:\n    @property\n    def required_tasks(self): raise RuntimeError('not yet')\n"
    case.plugin(ENDPOINT, "broken", broken).plugin(ENDPOINT, "sound", "class run:\n    required_tasks = None\n")
    theirs, ours = case.ask(["endpoint", None], plugins="broken,sound")
    assert theirs[0][0][1][0] == "RuntimeError"
    assert ours[0][0] == ["ok", ["mended2:run instance"]]
    assert levels(ours[0], "failed") == [["ERROR", "broken"]]


def test_a_value_of_the_wrong_kind_is_told_with_the_fix(case: Case) -> None:
    theirs, ours = case.plugin(GENERAL, "whole", "", reference="").ask(["group", GENERAL])
    assert theirs[0][0] == ours[0][0] == ["ok", [["whole", "module mended1"]]]
    assert not levels(theirs[0], "warning")
    assert levels(ours[0], "warning") == [["WARNING", None]]


def test_a_broken_logits_processor_stops_the_start_in_both(case: Case) -> None:
    case.plugin(LOGITS, "broken", "raise OSError('no')\n")
    theirs, ours = case.ask(["logits"], plugins="")  # no list applies here
    assert theirs[0][0][1][0] == "RuntimeError"
    assert "RuntimeError" in ours[0][0][1]
    assert "dist1 1.0" in ours[0][0][2]
