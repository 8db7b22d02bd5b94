"""Policies from code, a variable and a file: what they let in, and what is wrong in them, with its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from vplug_rs import Policy, PolicyError

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "demo.plugins"
PLUGINS = [("a", "one"), ("b", "Two.Tools"), ("c", "three")]


def allowed(policy: Policy, group: str = GROUP) -> list[str]:
    judgement = policy.judge(group, PLUGINS)
    return [PLUGINS[number][0] for number in judgement.order]


def test_without_rules_everything_may_load() -> None:
    assert allowed(Policy()) == ["a", "b", "c"]


def test_an_empty_list_allows_nothing() -> None:
    assert allowed(Policy([])) == []


def test_a_list_of_denials_alone_allows_the_rest() -> None:
    assert allowed(Policy(["!b"])) == ["a", "c"]


def test_the_variable_is_read_when_the_policy_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_PLUGINS", " a , dist:two-tools")
    assert allowed(Policy.from_env("DEMO_PLUGINS")) == ["a", "b"]
    monkeypatch.delenv("DEMO_PLUGINS")
    assert allowed(Policy.from_env("DEMO_PLUGINS", deny=["a"])) == ["b", "c"]


def test_every_verdict_names_its_rule() -> None:
    policy = Policy(["a"], ["b"], groups={"other": {"allow": ["c"]}}, explicit_only=["third"])
    assert [rule for _, _, rule in policy.judge(GROUP, PLUGINS).verdicts] == [
        "`a` in code allows it",
        "`!b` in code denies it",
        "it is not on the allowlist in code",
    ]
    assert policy.judge("other", PLUGINS).verdicts[2] == (True, "listed", "`c` in code, group `other` allows it")
    third = Policy(explicit_only=["third"]).judge("third", PLUGINS).verdicts[0]
    assert third == (False, "explicit-only", "`third` is explicit-only, and code names nothing")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"allow": "a,b"}, "`allow` is a text"),
        ({"allow": ["a", 3]}, "`allow` has 3"),
        ({"deny": ["[a"]}, "`[a` in code is no pattern"),
        ({"collision": "newest"}, "`newest` is no collision rule"),
        ({"groups": {"g": {"permit": []}}}, "`permit` is no rule of a group"),
    ],
)
def test_a_rule_of_the_wrong_form_is_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError, match=text.replace("[", r"\[")):
        Policy(**arguments)


FILE = """\
[tool.other]
allow = 3
[tool.vplug]
allow = ["a", "b", "c"]
deny = ["dist:three"]
explicit-only = ["closed"]
require = ["a"]
order = ["b"]
collision = "error"
strict = true
host = { name = "demo", version = "2.0" }
when = { "b*" = "json" }
[tool.vplug.groups."demo.plugins"]
deny = ["a"]
"""


def test_a_file_has_all_rules(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(FILE, encoding="utf-8")
    policy = Policy.from_file(path)
    assert allowed(policy, "another.group") == ["b", "a"]
    assert (policy.require, policy.collision, policy.strict) == (("a",), "error", True)
    assert (policy.host, policy.when) == (("demo", "2.0"), {"b*": "json"})
    assert allowed(policy) == ["b"]


def test_a_file_of_its_own_has_the_rules_at_its_top(tmp_path: Path) -> None:
    path = tmp_path / "vplug.toml"
    path.write_text('allow = ["c"]\n', encoding="utf-8")
    assert allowed(Policy.from_file(path)) == ["c"]
    assert allowed(Policy.from_file(path, deny=["c"])) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[tool.vplug]\nallow = ['a']\nalow = ['b']\n", 3, "`alow` is no rule"),
        ("[tool.vplug]\n\nallow = 'a'\n", 3, "`allow` has to be a list of texts"),
        ("[tool.vplug]\nallow = ['a', 3]\n", 2, "`allow` has to be a list of texts"),
        ("[tool.vplug]\nstrict = 'yes'\n", 2, "`strict` has to be true or false"),
        ("[tool.vplug]\ncollision = 'newest'\n", 2, "`newest` is no collision rule"),
        ("[tool.vplug]\n[tool.vplug.groups.g]\nallow = 3\n", 3, "`allow` has to be a list of texts"),
        ("[tool.vplug]\n[tool.vplug.groups.'a.b']\npermit = []\n", 3, "`permit` is no rule of a group"),
        ("[tool.vplug]\n[tool.vplug.groups]\ng = 3\n", 3, "`g` has to be a table"),
        ("[tool.vplug]\n[tool.vplug.host]\nname = 'x'\n", 2, "`host` has to be a table with `name` and `version`"),
        ("[tool.vplug]\nwhen = {'a' = 3}\n", 2, "`a` has to be a text"),
        ("[tool.vplug]\nallow = [\n", 2, "Invalid value (at end of document)"),
        ("[tool]\nvplug = 3\n", 2, "`[tool.vplug]` is no table"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        Policy.from_file(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert str(caught.value).startswith(f"{path}:{line}: {message}")


def test_a_file_that_is_not_there_or_not_utf8_is_told(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.from_file(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"allow = ['a']\n# \xe9\n")
    with pytest.raises(PolicyError, match="not UTF-8") as caught:
        Policy.from_file(tmp_path / "latin.toml")
    assert caught.value.line == 2
