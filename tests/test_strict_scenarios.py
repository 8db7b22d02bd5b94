"""The step-aside rules: whatever a program does to importlib.metadata, `install()` changes none of its answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interpreters import MINORS, each_minor
from strict_support import bench, plain_site

pytestmark = pytest.mark.every_python

SCRIPT = Path(__file__).with_name("strict_scenarios.py")
Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=MINORS, ids=[f"py3.{minor}" for minor in MINORS])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Answers]:
    """The answers of the genuine module, and those after `install()`, of one interpreter."""
    base = tmp_path_factory.mktemp("scenarios")
    asked = bench(request.param, base)
    answers = []
    for mode in ([], ["install"]):
        folder = base / "work"  # the same path both times, for it stands in the answers
        folder.mkdir()
        done = asked.python("-S", "-P", "-B", str(SCRIPT), str(folder), *mode)
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
        folder.rename(base / f"done{len(answers)}")
    return answers[0], answers[1]


def test_every_scenario_answers_as_without_install(both: tuple[Answers, Answers]) -> None:
    genuine, installed = both
    assert installed.keys() == genuine.keys()
    different = [
        f"{scenario}: {question}\n  genuine   {answer}\n  installed {installed[scenario].get(question)}"
        for scenario, questions in genuine.items()
        for question, answer in questions.items()
        if installed[scenario].get(question) != answer
    ]
    assert not different, "\n".join(different[:10])
    assert sum(map(len, genuine.values())) > 5000


def test_the_scenarios_do_disturb(both: tuple[Answers, Answers]) -> None:
    # A disturbance that no answer shows would prove nothing about stepping aside.
    genuine, _ = both
    unseen = [name for name in genuine if name not in _HARMLESS and genuine[name] == genuine["nothing"]]
    assert unseen == []


# The last two show from 3.12 on, where `files` looks whether a file exists.
_HARMLESS = {
    "nothing", "nothing, again", "arguments", "finder_attribute_none", "entry_point_subclass", "path_str_subclass",
    "path_tuple", "builtin_open_replaced", "path_with_surrogate", "stat_replaced", "path_exists_replaced",
}  # fmt: skip


COUNT_EVENTS = """
import sys, importlib.metadata as m, csv, email.message
list(m.distributions()); m.version("pkg0")
m.metadata("pkg0")                       # imports what the genuine code imports late
found = list(m.distributions())
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event in ("open", "os.listdir") else None)
calls = {
    "entry_points": lambda: m.entry_points(),
    "group": lambda: m.entry_points(group="demo.plugins"),
    "value": lambda: m.entry_points(value="pkg1:run"),
    "version": lambda: m.version("pkg1"),
    "packages_distributions": m.packages_distributions,
    "distribution": lambda: m.distribution("pkg1"),
    "requires": lambda: m.requires("pkg1"),
    "files": lambda: m.files("pkg1"),
    "metadata": lambda: m.metadata("pkg1"),
    "distributions": lambda: list(m.distributions()),
    "by path": lambda: list(m.distributions(path=[sys.argv[1]])),
    "name": lambda: [d.name for d in found],
    "points": lambda: [d.entry_points for d in found],
}
for label, call in calls.items():
    m.FastPath.__new__.cache_clear()
    del seen[:]
    assert call()
    print(label, len(seen))
"""


@each_minor()
def test_a_healthy_site_is_answered_by_the_core(minor: int, tmp_path: Path) -> None:
    # Python's own opens and listings raise audit events, the core's do not: that tells who has answered.
    asked = bench(minor, tmp_path)
    script = "import sys; sys.path[:] = [sys.argv[1]] + sys.path\n" + COUNT_EVENTS
    site = str(plain_site(tmp_path / "site"))
    counted = dict(line.rsplit(" ", 1) for line in asked.answer(script, site, installed=False).splitlines())
    assert "0" not in counted.values(), "the genuine module opens files in each of these calls"
    counted = dict(line.rsplit(" ", 1) for line in asked.answer(script, site, installed=True).splitlines())
    assert {label for label, events in counted.items() if events != "0"} == set()


@each_minor()
def test_paths_made_quickly_are_the_same_paths(minor: int, tmp_path: Path) -> None:
    # The maker knows pathlib's slots: every short name over the characters that matter, against the class.
    script = """
        import itertools, importlib.metadata as m
        from vplug_rs._strict._files import _path_maker, _state
        make = _path_maker(m.PackagePath)
        names = ["".join(c) for length in range(1, 7) for c in itertools.product("/a.", repeat=length)] + ["\u00e9/b c"]
        print(make is not m.PackagePath, [n for n in names if _state(make(n)) != _state(m.PackagePath(n))], len(names))
    """
    assert bench(minor, tmp_path).answer(script, installed=True) == "True [] 1093\n"
