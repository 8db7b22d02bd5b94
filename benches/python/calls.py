"""importlib.metadata's other calls, the standard library beside ours, on the real environment.

    python benches/python/calls.py [--quick] [--python 3.12] [--only files,version]

Each round runs, per call and side, a fresh process that times its first call and later ones (the smallest of some).
First the answers are compared, in one process; a call whose answer differs is reported and not timed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import dataclass
from typing import Any

import beds
import interpreters
import statistics_of
from beds import Bed
from processes import answer
from quiet import Gate, keep

STANDARD = "import importlib.metadata as m"
OURS = "import vplug_rs.metadata as m"
INSTALL = "import importlib.metadata as m, vplug_rs; vplug_rs.install()"
SIDES = {"standard": STANDARD, "vplug_rs": OURS, "install()": INSTALL}


@dataclass(frozen=True)
class Call:
    """One call to compare.

    Attributes:
        expression: what is timed, the same text for every side.
        plain: makes its answer comparable between the standard's (`r`) and ours.
        exact: the same for install(), where order counts too; `plain` where it is empty.
        later: how many later calls are timed.
        targets: least wanted ratio by minor version for our objects, then for install().
    """

    expression: str
    plain: str
    exact: str = ""
    later: int = 3
    targets: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None


# without arguments 3.11 gives a dict of groups
_ROWS = "[(e.name, e.value, e.group) for e in (sum(map(list, r.values()), []) if hasattr(r, 'values') else r)]"
_FILES = "[(str(f), f.size, f.hash and (f.hash.mode, f.hash.value)) for f in r]"

CALLS = {
    "entry_points, one group": Call("m.entry_points(group=G)", f"sorted({_ROWS})", _ROWS, 7),
    "entry_points, all": Call("m.entry_points()", f"sorted({_ROWS})", _ROWS, 7),
    "packages_distributions": Call(
        "m.packages_distributions()",
        "{k: sorted(v) for k, v in r.items()}",
        "[list(r), r]",
        targets=((40, 90, 90), (20, 45, 45)),
    ),
    "all names and versions": Call(
        "[(d.name, d.version) for d in m.distributions()]",
        "sorted(r)",
        "r",
        targets=((80, 80, 80), (0, 0, 0)),
    ),
    "all names and versions, one parse": Call(
        "[(h['Name'], h['Version']) for h in (d.metadata for d in m.distributions())]", "sorted(r)", "r"
    ),
    "version of 100 names": Call("[m.version(n) for n in NAMES]", "r", targets=((30, 30, 30), (15, 15, 15))),
    "version of one name": Call("m.version(NAMES[0])", "r", later=50),
    "requires": Call("m.requires(REQUIRING)", "r", later=20),
    "files, longest RECORD": Call("m.files(BIG)", f"sorted({_FILES})", _FILES, targets=((6, 6, 6), (1.3, 3, 4.5))),
}

_FIND = r"""
import importlib.metadata as m, json, random
found = {d.metadata["Name"]: d for d in m.distributions()}
lines = {n: len((d.read_text("RECORD") or "").splitlines()) for n, d in found.items()}
big = max(lines, key=lambda n: lines[n])
requiring = max(found, key=lambda n: len(found[n].requires or ()))
names = sorted(found); random.Random(3).shuffle(names)
print(json.dumps({"NAMES": names[:100], "BIG": big, "REQUIRING": requiring, "lines": lines[big], "count": len(names)}))
"""

_EQUAL = r"""
import json, sys
globals().update(json.loads({values!r}))
def ask(setup):
    space = dict(globals())
    exec(setup, space)
    return eval({expression!r}, space)
plain, exact = (eval("lambda r: " + text) for text in ({plain!r}, {exact!r}))
standard = ask({standard!r})
wanted = plain(standard), exact(standard)
ours = plain(ask({ours!r})) == wanted[0]
print(json.dumps([ours, exact(ask({install!r})) == wanted[1]]))
"""

_TIME = r"""
import json, time
space = json.loads({values!r})
_now = time.perf_counter_ns
exec({setup!r}, space)
call = compile({expression!r}, "call", "eval")
_0 = _now(); eval(call, space); _1 = _now()
later = []
for _ in range({later}):
    _a = _now(); eval(call, space); later.append(_now() - _a)
print((_1 - _0) / 1e6, min(later) / 1e6)
"""


def _equal(bed: Bed, call: Call, values: str) -> list[bool]:
    code = _EQUAL.format(
        values=values,
        expression=call.expression,
        plain=call.plain,
        exact=call.exact or call.plain,
        standard=STANDARD,
        ours=OURS,
        install=INSTALL,
    )
    equal: list[bool] = json.loads(answer(bed.python, code, bed.environment()))
    return equal


def _timed(bed: Bed, call: Call, side: str, values: str) -> tuple[float, float]:
    code = _TIME.format(values=values, setup=SIDES[side], expression=call.expression, later=call.later)
    first, later = answer(bed.python, code, bed.environment()).split()
    return float(first), float(later)


def measure(bed: Bed, names: list[str], rounds: int, noise: float) -> dict[str, Any]:
    """Medians and minima of first and later calls, per call and side, and the standard's cost over each."""
    facts = json.loads(answer(bed.python, _FIND, bed.environment()))
    values = json.dumps({**facts, "G": bed.group if bed.title != beds.REAL else "console_scripts"})
    checked = {name: _equal(bed, CALLS[name], values) for name in names}
    different = [
        f"{n} ({w})"
        for n, e in checked.items()
        for w, same in zip(("vplug_rs", "install()"), e, strict=True)
        if not same
    ]
    for text in different:
        print(f"DIFFERS, so not timed: {text} on {bed.version}", file=sys.stderr)
    work = [(n, s) for n in names for s in SIDES if s == "standard" or f"{n} ({s})" not in different]
    beds.settle()
    gate = Gate(noise)
    seen: list[tuple[bool, dict[tuple[str, str], tuple[float, float]]]] = []
    for _ in range(rounds):
        gate.wait()
        with gate.round() as watched:
            row = {(n, s): _timed(bed, CALLS[n], s, values) for n, s in random.sample(work, len(work))}
        seen.append((watched.noisy, row))
    rows, quiet = keep(seen)
    times = {
        name: {
            side: {
                kind: statistics_of.pair([r[name, side][i] for r in rows]) for i, kind in enumerate(("first", "later"))
            }
            for side in SIDES
            if (name, side) in work
        }
        for name in names
    }
    return {
        "python": bed.version,
        "bed": bed.title,
        "distributions": facts["count"],
        "record_lines": facts["lines"],
        "rounds": rounds,
        "quiet": quiet,
        "different": different,
        "calls": times,
    }


def text(result: dict[str, Any]) -> str:
    """A table for the terminal; ratios by medians, by minima in brackets, and what was wanted."""
    head = (
        f"\nPython {result['python']}, {result['bed']} ({result['distributions']} distributions, longest RECORD "
        f"{result['record_lines']} lines), {result['rounds']} rounds, {result['quiet']} quiet\n"
        f"{'ms: first, later':36}{'standard':>18}{'vplug_rs':>18}{'first x':>16}{'later x':>16}"
        f"{'wanted':>7}{'install()':>18}{'first x':>16}{'later x':>16}{'wanted':>7}"
    )
    lines = [head]
    minor = interpreters.SUPPORTED.index(result["python"])
    for name, sides in result["calls"].items():
        cells = [f"{name:36}"]
        for number, (side, times) in enumerate(sides.items()):
            cells.append(f"{times['first']['median']:.3f} {times['later']['median']:.3f}".rjust(18))
            if side == "standard":
                continue
            for kind in ("first", "later"):
                over = statistics_of.ratio(sides["standard"][kind], times[kind])
                cells.append(f"{over['median']:.1f} ({over['min']:.1f})".rjust(16))
            targets = CALLS[name].targets
            wanted = targets[number - 1][minor] if targets else 0
            cells.append(f"{wanted or '':>7}")
        lines.append("".join(cells))
    return "\n".join(lines)


def main() -> None:
    """Measure every interpreter that is found and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beds.add_arguments(parser)
    parser.add_argument("--bed", default=beds.REAL, help="real, or a number of synthetic distributions (%(default)s)")
    parser.add_argument("--only", help="comma list of beginnings of calls' names")
    parser.add_argument("--rounds", type=int, help="7, quick 3")
    arguments = parser.parse_args()
    output = arguments.json and arguments.json.resolve()
    work = beds.prepare(arguments.work)
    chosen = tuple(arguments.only.split(",")) if arguments.only else ("",)
    names = [name for name in CALLS if name.startswith(chosen)]
    results = []
    for version, python in interpreters.find(arguments.python).items():
        size = None if arguments.bed == beds.REAL else int(arguments.bed)
        bed = beds.bed(version, python, work, size)
        rounds = arguments.rounds or (3 if arguments.quick else 7)
        results.append(measure(bed, names, rounds, arguments.noise))
        print(text(results[-1]), flush=True)
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n")
    if any(result["different"] for result in results):
        raise SystemExit("some answers differ; see above")


if __name__ == "__main__":
    main()
