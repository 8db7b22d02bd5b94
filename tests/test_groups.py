"""The six groups: what stands in the table, and which values are refused with which fix."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from interpreters import each_minor, import_root
from test_import_cost import new_modules, unwanted
from vllm_bed import VllmBed
from vplug_rs import groups
from vplug_rs.groups import GROUPS

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
    ran = []
    class Thing:
        class Inner: ...
        def __new__(cls, *arguments):
            ran.append("made")
            return super().__new__(cls)
    def run():
        ran.append("called")
        return {answer}
    thing = object.__new__(Thing)
    text = "x_mod.Thing"
    nothing = None
"""
WORDS = {
    groups.GENERAL: "a function without arguments that does the work; what it returns is ignored",
    groups.PLATFORM: (
        "a function without arguments that returns a class's dotted name, or `None` where it does not apply"
    ),
    groups.ENDPOINT: "a class or function without arguments that gives the plugin object",
    groups.STAT_LOGGER: "the class itself",
}


def test_the_table_is_complete() -> None:
    assert list(GROUPS) == [
        "vllm.general_plugins",
        "vllm.platform_plugins",
        "vllm.io_processor_plugins",
        "vllm.stat_logger_plugins",
        "vllm.endpoint_plugins",
        "vllm.logits_processors",
    ]
    for group in GROUPS.values():
        assert all((group.processes, group.when, group.value, group.fatal, group.ours)), group
    assert [group.name for group in GROUPS.values() if group.unset == "none"] == [groups.ENDPOINT]
    assert [group.name for group in GROUPS.values() if not group.listed] == [groups.LOGITS_PROCESSOR]
    assert {group.name: group.kind for group in GROUPS.values() if group.kind == "class"} == {
        groups.STAT_LOGGER: "class",
        groups.LOGITS_PROCESSOR: "class",
    }


@each_minor()
def test_the_table_costs_nothing_to_import(minor: int, tmp_path: Path) -> None:
    loaded = new_modules(minor, import_root(tmp_path / "root"), "import vplug_rs.groups")
    assert unwanted(loaded) == set()
    assert loaded >= {"vplug_rs.groups", "vplug_rs.errors"}
    assert len(loaded) <= 6, sorted(loaded)


def checked(tmp_path: Path, group: str, value: str, answer: str = "None", *, call: bool = False) -> Any:
    bed = VllmBed(tmp_path, group).offer("x", SOURCE.format(answer=answer), value, version="2.1")
    (said,) = bed.run(
        f"""
        from vplug_rs import groups
        from vplug_rs.loading import wanted
        plugin = PluginLoader(G, policy=Policy(), kind="any", call={call}).get("x")
        ran = list(sys.modules["x_mod"].ran)
        error = groups.check_answer(plugin, plugin.result) if {call} else groups.check(plugin)
        assert sys.modules["x_mod"].ran == ran, "a check runs nothing"
        record = wanted.check(plugin)
        if error is None:
            say(None, record)
        else:
            assert isinstance(error, TypeError) and error.distribution == "acme-x" and error.version == "2.1"
            assert str(record.exception) == error.reason and record.hint == error.hint
            say(str(error), error.hint, str(record))
    """.replace("(G,", f"({group!r},")
    )
    return said


@pytest.mark.parametrize(
    ("group", "value", "found", "fix"),
    [
        (groups.GENERAL, "x_mod", "the module `x_mod`", "Name an object in the module: `x_mod:function`."),
        (groups.GENERAL, "x_mod:text", "the text 'x_mod.Thing'", "Name a function: `x_mod:function`."),
        (groups.GENERAL, "x_mod:nothing", "`None`", "Name a function: `x_mod:function`."),
        (
            groups.PLATFORM,
            "x_mod:Thing",
            "the class `Thing` itself",
            'Name a function that returns its name: `x_mod:function`, with `return "x_mod.Thing"` in it.',
        ),
        (
            groups.PLATFORM,
            "x_mod:Thing.Inner",
            "the class `Thing.Inner` itself",
            'Name a function that returns its name: `x_mod:function`, with `return "x_mod.Class"` in it.',
        ),
        (
            groups.STAT_LOGGER,
            "x_mod [gpu]",
            "the module `x_mod`",
            "Name the class in the module: `x_mod:Class`.",
        ),
        (groups.PLATFORM, "x_mod:text", "the text 'x_mod.Thing'", "Name a function: `x_mod:function`."),
        (groups.STAT_LOGGER, "x_mod", "the module `x_mod`", "Name the class in the module: `x_mod:Class`."),
        (
            groups.STAT_LOGGER,
            "x_mod:run",
            "a function",
            "Name the class itself, `x_mod:Class`, and no function that gives it.",
        ),
        (
            groups.STAT_LOGGER,
            "x_mod:thing",
            "an object of type `Thing`",
            "Name the class itself: `x_mod:Thing`.",
        ),
        (groups.ENDPOINT, "x_mod:thing", "an object of type `Thing`", "Name the class itself: `x_mod:Thing`."),
        (groups.ENDPOINT, "x_mod", "the module `x_mod`", "Name an object in the module: `x_mod:function`."),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_the_fix(
    tmp_path: Path, group: str, value: str, found: str, fix: str
) -> None:
    reason = f"it is {found}, and {group} wants {WORDS[group]}"
    assert checked(tmp_path, group, value) == [
        f"plugin `x` of acme-x 2.1 cannot be used (`{value}` in {group}): {reason}",
        fix,
        f"plugin `x` of acme-x 2.1 failed at resolve (`{value}` in {group}): TypeError: {reason}",
    ]


@pytest.mark.parametrize(
    ("group", "value"),
    [
        (groups.GENERAL, "x_mod:run"),
        (groups.GENERAL, "x_mod:Thing"),
        (groups.PLATFORM, "x_mod:run"),
        (groups.IO_PROCESSOR, "x_mod:run"),
        (groups.STAT_LOGGER, "x_mod:Thing"),
        (groups.LOGITS_PROCESSOR, "x_mod:Thing"),
        (groups.ENDPOINT, "x_mod:Thing"),
        (groups.ENDPOINT, "x_mod:run"),
        ("somebody.elses", "x_mod"),
    ],
)
def test_a_value_of_the_right_kind_passes(tmp_path: Path, group: str, value: str) -> None:
    assert checked(tmp_path, group, value) == [None, None]


ANSWER = "a class's dotted name is wanted, as `package.module.Class`, or `None` where it does not apply"


@pytest.mark.parametrize(
    ("answer", "told", "fix"),
    [
        ('""', "the text ''", "Return `None` where the plugin does not apply."),
        ("False", "an object of type `bool`", "Return `None` where the plugin does not apply."),
        (
            "Thing",
            "the class `Thing` itself",
            'Return its name, not the class itself: `return "x_mod.Thing"`.',
        ),
        (
            '"x_mod:Thing"',
            "the text 'x_mod:Thing'",
            'vLLM splits at the last dot, and strips nothing: `return "x_mod.Thing"`.',
        ),
        (
            '" x_mod.Thing"',
            "the text ' x_mod.Thing'",
            'vLLM splits at the last dot, and strips nothing: `return "x_mod.Thing"`.',
        ),
        ('"Thing"', "the text 'Thing'", 'Return the full name of the class, as `return "package.module.Class"`.'),
        (
            "thing",
            "an object of type `Thing`",
            'Return the full name of the class, as `return "package.module.Class"`.',
        ),
    ],
)
@pytest.mark.parametrize("group", [groups.PLATFORM, groups.IO_PROCESSOR])
def test_an_answer_that_names_no_class_is_refused(tmp_path: Path, group: str, answer: str, told: str, fix: str) -> None:
    reason = f"its call gave {told}, and {ANSWER}"
    assert checked(tmp_path, group, "x_mod:run", answer, call=True) == [
        f"plugin `x` of acme-x 2.1 cannot be used (`x_mod:run` in {group}): {reason}",
        fix,
        f"plugin `x` of acme-x 2.1 failed at call (`x_mod:run` in {group}): TypeError: {reason}",
    ]


@pytest.mark.parametrize(
    ("answer", "told", "fix"),
    [
        ("None", "`None`", "It lacks a `return`."),
        ("Thing", "the class `Thing` itself", "Return an object of it: `return Thing()`."),
    ],
)
def test_a_factory_has_to_give_an_object(tmp_path: Path, answer: str, told: str, fix: str) -> None:
    text, hint, _ = checked(tmp_path, groups.ENDPOINT, "x_mod:run", answer, call=True)
    assert text.endswith(f"(`x_mod:run` in {groups.ENDPOINT}): its call gave {told}, and a plugin object is wanted")
    assert hint == fix


@pytest.mark.parametrize(
    ("group", "answer"),
    [
        (groups.PLATFORM, "None"),
        (groups.PLATFORM, '"x_mod.Thing"'),
        (groups.IO_PROCESSOR, '"x_mod.Thing"'),
        (groups.GENERAL, '"anything"'),
        (groups.ENDPOINT, "thing"),
        ("somebody.elses", "Thing"),
    ],
)
def test_a_right_answer_passes(tmp_path: Path, group: str, answer: str) -> None:
    assert checked(tmp_path, group, "x_mod:run", answer, call=True) == [None, None]


def test_the_error_travels_between_processes() -> None:
    import pickle

    from vplug_rs.errors import PluginKindError

    error = PluginKindError("all", reason="why", plugin="x", distribution="acme-x", version="1", hint="fix")
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.reason, back.plugin, back.distribution, back.version, back.hint, back.exit_status) == (
        "all",
        "why",
        "x",
        "acme-x",
        "1",
        "fix",
        1,
    )
    assert "vllm" not in sys.modules
