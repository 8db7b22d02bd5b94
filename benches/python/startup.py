"""The start-up benchmark: what asking for one group costs a whole process, beside other libraries.

    python benches/python/startup.py [--quick] [--python 3.12] [--sizes 10,100,300,1000,5000,real]

Two measurements per candidate and round, candidates in random order within a round:
  process  `python -c 'IMPORT; CALL'` minus `python -c pass`: wall and processor time of the whole process
  inside   a fresh process that times its own import, first call, and later calls (the smallest of some)
First every answer is compared with importlib.metadata's; where ours differs no figure is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import beds
import candidates
import interpreters
import statistics_of
from beds import Bed
from candidates import INSTALLED, OURS, PLAIN, STANDARD, Candidate
from processes import Cost, answer, cost
from quiet import Gate, keep

ALL_SIZES = "10,100,300,1000,5000,real"
MAIN_SIZE = 300

_INSIDE = r"""
import time
_now = time.perf_counter_ns
G = {group!r}
_setup, _call = compile({setup!r}, "setup", "exec"), compile({call!r}, "call", "eval")
_space = {{"G": G}}
_0 = _now(); exec(_setup, _space); _1 = _now(); _answer = eval(_call, _space); _2 = _now()
_later = []
for _ in range({later}):
    _a = _now(); eval(_call, _space); _later.append(_now() - _a)
try: _found = len(_answer)
except TypeError: _found = _answer
print((_1 - _0) / 1e6, (_2 - _1) / 1e6, min(_later) / 1e6, _found)
"""

_EQUAL = r"""
def rows(module):
    everything, some = module.entry_points(), module.entry_points(group={group!r})
    if hasattr(everything, "values"):  # 3.11 gives a dict of groups
        everything = sum(map(list, everything.values()), [])
    return [[(e.name, e.value, e.group) for e in found] for found in (everything, some)]
import vplug_rs
ours = rows(vplug_rs)
import importlib.metadata
theirs = rows(importlib.metadata)
assert [sorted(x) for x in ours] == [sorted(x) for x in theirs], "vplug_rs.entry_points() differs"
vplug_rs.install()
assert rows(importlib.metadata) == theirs, "entry_points() under install() differs"
print(len(theirs[0]))
"""


@dataclass(frozen=True)
class Inside:
    """What a process measured of itself, in milliseconds."""

    imported: float
    first: float
    later: float
    found: int


@dataclass(frozen=True)
class Plan:
    """How much is measured on one bed."""

    rounds: int
    names: tuple[str, ...]
    later: int = 15


def check_equal(bed: Bed) -> int:
    """Stop unless our answers are importlib.metadata's; returns how many entry points there are."""
    return int(answer(bed.python, _EQUAL.format(group=bed.group), bed.environment()))


def _inside(bed: Bed, candidate: Candidate, later: int) -> Inside:
    program = _INSIDE.format(group=bed.group, setup=candidate.setup, call=candidate.call, later=later)
    words = answer(bed.python, program, bed.environment(candidate.environment)).split()
    return Inside(float(words[0]), float(words[1]), float(words[2]), int(words[3]))


def code(bed: Bed, candidate: Candidate) -> str:
    """The whole program that asks `candidate` once."""
    return f"G={bed.group!r}\n{candidate.setup}\n{candidate.call}"


Row = dict[str, tuple[Cost, Inside | None]]


def _one_round(bed: Bed, plan: Plan) -> Row:
    plain = bed.environment()
    before = cost(bed.python, "pass", plain)
    row: Row = {}
    for name in random.sample(plan.names, len(plan.names)):
        candidate = candidates.ALL[name]
        environment = bed.environment(candidate.environment)
        row[name] = (cost(bed.python, code(bed, candidate), environment), _inside(bed, candidate, plan.later))
    after = cost(bed.python, "pass", plain)
    row["pass"] = (Cost((before.wall + after.wall) / 2, (before.processor + after.processor) / 2), None)
    return row


def measure(bed: Bed, plan: Plan, noise: float) -> dict[str, Any]:
    """All rounds of one bed, reduced to medians and minima per candidate."""
    for name in plan.names:
        candidate = candidates.ALL[name]
        for _ in range(candidate.warm_up + 1):
            cost(bed.python, code(bed, candidate), bed.environment(candidate.environment))
    beds.settle()
    gate = Gate(noise)
    rounds: list[tuple[bool, Row]] = []
    for _ in range(plan.rounds):
        gate.wait()
        with gate.round() as watched:
            row = _one_round(bed, plan)
        rounds.append((watched.noisy, row))
    rows, quiet = keep(rounds)
    return {
        "python": bed.version,
        "bed": bed.title,
        "distributions": len(list(bed.site.glob("*.dist-info"))),
        "rounds": plan.rounds,
        "quiet": quiet,
        "pass": statistics_of.processes([r["pass"][0] for r in rows]),
        "candidates": {name: _reduced(rows, name) for name in plan.names},
    }


def _reduced(rows: list[Row], name: str) -> dict[str, Any]:
    costs = [row[name][0] for row in rows]
    inside = [found for row in rows if (found := row[name][1]) is not None]
    return {
        "found": inside[0].found,
        "process": statistics_of.over(costs, [row["pass"][0] for row in rows]),
        "import": statistics_of.pair([i.imported for i in inside]),
        "first": statistics_of.pair([i.first for i in inside]),
        "later": statistics_of.pair([i.later for i in inside]),
    }


def _plan(size: int | None, *, main: bool, quick: bool) -> Plan:
    names = tuple(candidates.ALL)
    if not main:
        return Plan(
            15 if quick else 60, (STANDARD, PLAIN, INSTALLED, OURS, candidates.STEVEDORE_HIT, candidates.PLUX_HIT)
        )
    large = size is not None and size > 1000
    return Plan(2 if quick else 4 if large else 9, names, later=3 if large else 7)


def _tell(results: dict[str, Any], newest: dict[str, Any], output: Path | None) -> None:
    """Print one bed, and keep what there is so far: the whole takes long."""
    print(statistics_of.text(newest), flush=True)
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n")


def main() -> None:
    """Measure all that was asked for, print it, and publish where wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beds.add_arguments(parser)
    parser.add_argument("--sizes", default=ALL_SIZES, help="beds for all candidates, on one interpreter (%(default)s)")
    parser.add_argument("--sizes-on", default="3.12", metavar="X.Y", help="the interpreter for that (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, help=f"rounds per interpreter at {MAIN_SIZE} distributions (60; quick 15)"
    )
    arguments = parser.parse_args()
    output = arguments.json and arguments.json.resolve()
    work = beds.prepare(arguments.work)
    pythons = interpreters.find(arguments.python)
    results: dict[str, Any] = {"machine": statistics_of.machine(), "versions": [], "sizes": []}
    for version, python in pythons.items():
        bed = beds.bed(version, python, work, MAIN_SIZE)
        check_equal(bed)
        plan = _plan(MAIN_SIZE, main=False, quick=arguments.quick)
        if arguments.rounds:
            plan = Plan(arguments.rounds, plan.names, plan.later)
        results["versions"].append(measure(bed, plan, arguments.noise))
        _tell(results, results["versions"][-1], output)
    sizes_on = arguments.sizes_on if arguments.sizes_on in pythons else next(iter(pythons))
    for word in filter(None, arguments.sizes.split(",")):
        size = None if word == beds.REAL else int(word)
        bed = beds.bed(sizes_on, pythons[sizes_on], work, size)
        check_equal(bed)
        results["sizes"].append(measure(bed, _plan(size, main=True, quick=arguments.quick), arguments.noise))
        _tell(results, results["sizes"][-1], output)
    print("answers equal to importlib.metadata's on every bed", file=sys.stderr)


if __name__ == "__main__":
    main()
