"""Broken and hostile installations: `vplug` says what is wrong with them; it neither fails nor waits."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostile_sites import CASES, SANE
from interpreters import clean_environment, shared_import_root
from sites import build

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, sockets and capabilities as Linux has them")

HERE = Path(__file__).parent
CHILD = HERE / "cli_hostile_child.py"
COMMANDS = [["doctor", "--json"], ["doctor"], ["list", "--all", "--json"], ["list"], ["why", "ok"], ["why", "odd"]]
ENDINGS = {0, 1, 3}
QUICK = [name for name, case in CASES.items() if not case.heavy]
HEAVY = [name for name, case in CASES.items() if case.heavy]


def ask(where: Path, names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Run all commands on all cases in one process that obeys file modes; give case -> what each command did."""
    if os.geteuid() == 0 and not hasattr(ctypes.CDLL(None), "capset"):
        pytest.skip("root reads everything here, and this C library has no capset()")
    jobs = []
    for number, name in enumerate(names):
        here, case = where / str(number), CASES[name]
        build(here, {"site": {**SANE, **case.site}, **case.beside})
        words = [*COMMANDS, *(["why", asked] for asked in case.names if asked.isprintable())]
        jobs.append(
            {"case": name, "here": str(here), "path": [e.format(here=here) for e in case.path], "commands": words}
        )
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-P", str(CHILD), "--obey-modes"],
            input="".join(json.dumps(job) + "\n" for job in jobs),
            env=clean_environment(PYTHONPATH=os.pathsep.join([str(shared_import_root()), str(HERE / "oracle")])),
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
    finally:
        for folder, _, _ in os.walk(where):  # let pytest remove what nobody may read
            for child in Path(folder).iterdir():
                if not child.is_symlink() and child.is_dir():
                    child.chmod(0o755)
    answers: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        answers.setdefault(answer["case"], []).append(answer)
    assert done.returncode == 0, f"after {list(answers)[-1:]}: {done.stderr}"
    return answers


def faults(answers: dict[str, list[dict[str, Any]]]) -> list[tuple[object, ...]]:
    """Give what should not be: endings, messages, sane answers that are gone, damage that is not named."""
    wrong: list[tuple[object, ...]] = []
    for name, results in answers.items():
        wrong += [
            (name, result["words"], result["status"], result["err"])
            for result in results
            if result["status"] not in ENDINGS or "Traceback" in result["err"] or "internal" in result["err"]
        ]
        if wrong and wrong[-1][0] == name:
            continue
        doctor, _, listed = results[:3]
        if ("ok", "sane:f", "live") not in {
            (row["name"], row["value"], row["state"]) for row in json.loads(listed["out"])["entry_points"]
        }:
            wrong.append((name, "the healthy distribution is not listed"))
        codes = {finding["code"] for finding in json.loads(doctor["out"])["findings"]}
        if CASES[name].codes and not codes & set(CASES[name].codes):
            wrong.append((name, "doctor", sorted(codes), CASES[name].codes))
    return wrong


def test_hostile_sites_are_explained_by_every_command(tmp_path: Path) -> None:
    answers = ask(tmp_path, QUICK)
    assert list(answers) == QUICK
    assert faults(answers) == []


@pytest.mark.slow
@pytest.mark.every_python
@pytest.mark.parametrize("name", HEAVY)
def test_large_hostile_sites_are_explained_by_every_command(name: str, tmp_path: Path) -> None:
    assert faults(ask(tmp_path, [name])) == []
