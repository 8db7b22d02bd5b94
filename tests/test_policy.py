"""Policies from code, a variable and a file: what they let in, and what is wrong in them, with its line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from vplug_rs import Policy, PolicyError, toml_lines
from vplug_rs.loading import conditions

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
        ({"groups": {"g": ["a"]}}, "`groups.g` is"),
        ({"groups": {"g": None}}, "`groups.g` is"),
        ({"groups": {"g": {"deny": "a"}}}, "`deny` is a text"),
        ({"groups": [("g", {})]}, "`groups` is"),
        ({"groups": {3: {}}}, "`groups` is"),
        ({"when": ["a"]}, "`when` is"),
        ({"when": {"a": 3}}, "`when` has 3"),
        ({"when": "a"}, "`when` is"),
        ({"host": "ab"}, "`host` is 'ab'"),
        ({"host": ("demo", 2)}, "`host` is"),
        ({"host": ("demo",)}, "`host` is"),
        ({"strict": "no"}, "`strict` is 'no'"),
        ({"allow": 3}, "`allow` is 3"),
        ({"allow": ["a\udce4"]}, "is no Unicode text"),
        ({"allow": ["a", "!"]}, "`!` in code is no pattern: it names nothing"),
        ({"deny": ["!"]}, "`!` in code is no pattern: it names nothing"),
        ({"deny": ["dist: "]}, "`dist:` in code is no pattern: it names nothing"),
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
        ("[tool.vplug]\nallow = [\n  'a',\n  '[b',\n]\n", 4, "`[b` is no pattern"),
        ("[tool.vplug]\ndeny = [\n  '!', ]\n", 3, "`!` is no pattern: it names nothing"),
        ("[tool.vplug]\ngroups.g.deny = ['a']\ngroups.'h'.deny = ['[']\n", 3, "`[` is no pattern"),
        ("[tool.vplug]\n[[tool.vplug.groups.g]]\nallow = []\n", 2, "`g` has to be a table"),
        ('[tool.vplug]\ngroups."g".allow = 3\n', 2, "`allow` has to be a list of texts"),
        ('["tool".\'vplug\' . "groups"."a.b"] # why\ndeny = 3\n', 2, "`deny` has to be a list of texts"),
        ("[tool.vplug]\norder = ['''\nalow = 1\n[x]''']\nalow = 2\n", 5, "`alow` is no rule"),
        ('[tool.vplug]\norder = ["""\\"""\nalow = 1\n""""]\n"al\\u006fw" = 2\n', 5, "`alow` is no rule"),
        ("[tool.vplug]\nhost = { name = 'x', version.a = 1 }\n", 2, "`version` has to be a text"),
        ("[tool.vplug]\nallow = [", 2, "Invalid value (at end of document)"),
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


def told(policy: Policy, elsewhere: list[str | tuple[str, str]] | None = None, **more: Any) -> list[tuple[str, str]]:
    rows = policy.judge(GROUP, PLUGINS, elsewhere or [], **more).unmatched
    return [(f"{entry} in {origin}", near or "") for entry, origin, near, _ in rows]


def test_entries_of_every_rule_that_name_nothing_are_told() -> None:
    policy = Policy(deny=["bb", "dist:tree"], order=["aa", "b"], when={"c*": "json", "d*": "json"})
    assert told(policy) == [
        ("!bb in code", "b"),
        ("!dist:tree in code", "three"),
        ("aa in `order` of code", "a"),
        ("d* in `when` of code", ""),
    ]


def test_an_entry_that_names_a_plugin_of_another_group_is_not_told() -> None:
    policy = Policy(["a", "dist:four"], ["far", "dist:five"], order=["far"], when={"far*": "json"})
    assert told(policy, [("far", "Four"), ("farther", "five")]) == []
    assert told(policy, [("far", "four")]) == [("!dist:five in code", "")]


def test_rules_of_groups_that_are_not_installed_are_told_where_the_groups_are_known() -> None:
    policy = Policy(groups={"demo.plugin": {"deny": ["a"]}, "other": {}}, explicit_only=["Other"])
    assert told(policy) == []
    assert told(policy, groups=["other"]) == [
        ("demo.plugin in `groups` of code", GROUP),
        ("Other in `explicit_only` of code", "other"),
    ]
    assert policy.names_any
    assert Policy(deny=["a"]).names_any
    assert not Policy(require=["a"]).names_any


def test_of_doubles_vllm_keeps_the_first_place_and_the_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    doubled = [("x", "one"), ("y", "one"), ("x", "two"), ("z", "one")]
    judgement = Policy.vllm().judge(GROUP, doubled)
    assert judgement.order == [2, 1, 3]
    assert judgement.verdicts[0][:2] == (False, "collision")
    assert Policy(collision="last").judge(GROUP, doubled).order == [1, 2, 3]


def test_what_may_not_load_for_another_reason_pushes_nothing_out() -> None:
    doubled = [("x", "one"), ("y", "one"), ("x", "two"), ("z", "one")]
    policy = Policy(deny=["z"], require=["x"], collision="error")
    why = ("host-version", "it requires `demo<1`")
    judgement = policy.judge(GROUP, doubled, refused={0: why, 3: why})
    assert judgement.verdicts[0] == (False, *why)
    assert judgement.verdicts[3][1] == "denied"
    assert (judgement.order, judgement.doubled, judgement.missing) == ([1, 2], [], [])
    neither = policy.judge(GROUP, doubled, refused={0: why, 2: why})
    assert (neither.order, neither.missing) == ([1], ["x"])
    first = Policy(order=["x"]).judge(GROUP, doubled, refused={0: why})
    assert first.order == [2, 1, 3]


def test_a_groups_own_require_takes_the_place_of_the_general_one() -> None:
    policy = Policy(["a"], require=["a", "c"], groups={"own": {"require": ["b"]}, "free": {"require": []}})
    assert policy.judge(GROUP, PLUGINS).missing == ["c"]
    assert policy.judge("own", PLUGINS).missing == ["b"]
    assert policy.judge("free", []).missing == []


def test_a_groups_own_require_stands_in_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "vplug.toml"
    path.write_text('[groups.own]\nrequire = ["z"]\n', encoding="utf-8")
    policy = Policy.from_file(path)
    assert policy.judge("own", PLUGINS).missing == ["z"]
    assert policy.judge(GROUP, PLUGINS).missing == []


class Asked:
    """As much of a plugin as conditions look at."""

    def __init__(self, name: str, *requires: str) -> None:
        self.name = name
        self.distribution = self
        self.requires = requires


def lack(module: str) -> str | None:
    found = conditions.refusals([Asked("a")], Policy(when={"*": module}))  # type: ignore[list-item]
    return found[0][1] if found else None


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A regular package with a module, a namespace and another package in it; importing any of them raises."""
    for path in ("zreg/__init__.py", "zreg/sub/__init__.py", "zreg/sub/leaf.py", "zreg/space/leaf.py", "zns/a/b/c.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("raise SystemExit('imported')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "module",
    ["zreg", "zreg.sub.leaf", "zreg.space", "zreg.space.leaf", "zns", "zns.a", "zns.a.b.c", "os.path", "sys", "json"],
)
def test_a_module_is_found_without_importing_any_package_above_it(packages: Path, module: str) -> None:
    before = set(sys.modules)
    assert lack(module) is None
    assert not {name for name in set(sys.modules) - before if name.startswith("z")}


@pytest.mark.parametrize(
    "module",
    [
        "os.zzz_missing",
        "zreg.gone",
        "zreg.sub.leaf.deeper",
        "zns.a.gone",
        "zns.gone.c",
        "sys.x",
        "json.gone",
        "",
        "a..b",
    ],
)
def test_a_module_of_which_only_the_package_is_there_is_not_found(packages: Path, module: str) -> None:
    assert lack(module) == f"`*` in code needs the module `{module}`, which cannot be found"


def test_a_finder_that_raises_is_told_as_the_cause(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            raise RuntimeError("finder\nbroke")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert str(lack("zzz_missing")).endswith("which cannot be found (RuntimeError: finder broke)")
    assert str(lack("json.gone")).endswith("which cannot be found (RuntimeError: finder broke)")
    assert lack("json.decoder") is None


def test_refusals_name_each_candidate_by_its_number() -> None:
    policy = Policy(when={"b": "zzz_missing"}, host=("demo", "2.0"))
    plugins = [Asked("a", "demo<2"), Asked("a", "demo>=2"), Asked("b")]
    assert {number: reason for number, (reason, _) in conditions.refusals(plugins, policy).items()} == {  # type: ignore[arg-type]
        0: "host-version",
        2: "condition",
    }
    assert conditions.refusals(plugins, Policy()) == {}  # type: ignore[arg-type]


def test_a_pyproject_without_the_table_is_a_fault_and_an_empty_table_is_none(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    for text in ("", "[tool.vplugs]\n", "tool = 3\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(PolicyError, match=r"it has no table `\[tool.vplug\]`"):
            Policy.from_file(path)
    path.write_text("[tool.vplug]\n", encoding="utf-8")
    assert allowed(Policy.from_file(path)) == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["allow = " + "[" * 5000 + "]" * 5000, "allow = " + "1" * 5000])
def test_a_file_that_the_reader_chokes_on_is_a_fault_of_the_policy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vplug.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        Policy.from_file(path)
    assert caught.value.path == str(path)


def test_every_key_of_a_file_has_its_line() -> None:
    text = """\
a = 1.5 # b = 2
"c.d" = {e = [1,
  {f = 2}], g.h = "}"}
[[i.j]]
k = \"\"\"
l = 1 \\\"\"\" \"\"\"\"\"
m = 'x = 1'
[[i.j]]
[i.j.n]
o = [[], [
  1979-05-27T07:32:00Z, 1_0.5e-3]]
"""
    lines = toml_lines.lines(text)
    assert {path: line for path, line in lines.items() if line != 4} == {
        ("a",): 1,
        ("c.d",): 2,
        ("c.d", "e"): 2,
        ("c.d", "e", 0): 2,
        ("c.d", "e", 1): 3,
        ("c.d", "e", 1, "f"): 3,
        ("c.d", "g"): 3,
        ("c.d", "g", "h"): 3,
        ("i", "j", 0, "k"): 5,
        ("i", "j", 0, "m"): 7,
        ("i", "j", 1): 8,
        ("i", "j", 1, "n"): 9,
        ("i", "j", 1, "n", "o"): 10,
        ("i", "j", 1, "n", "o", 0): 10,
        ("i", "j", 1, "n", "o", 1): 10,
        ("i", "j", 1, "n", "o", 1, 0): 11,
        ("i", "j", 1, "n", "o", 1, 1): 11,
    }
