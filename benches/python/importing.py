"""What importing us costs in a fresh interpreter, beside `_queue`, the smallest extension of the standard library.

    python benches/python/importing.py [--quick] [--python 3.12]

Also what a program pays that calls install() and then never asks: whole process minus `pass`.
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

import beds
import interpreters
import statistics_of
from beds import Bed
from processes import Cost, answer, cost
from quiet import Gate, keep

SIZE = 300
FLOOR = "_queue"
MODULES = (FLOOR, "vplug_rs._core", "vplug_rs")
WANTED = 3.2
INSTALL = "import vplug_rs; vplug_rs.install()"
INSTALL_MILLISECONDS = 3.0
FORBIDDEN = (
    "re",
    "typing",
    "pathlib",
    "email",
    "zipfile",
    "importlib.metadata",
    "dataclasses",
    "logging",
    "inspect",
    "csv",
    "json",
    "tempfile",
    "torch",
    "numpy",
)

_TIME = "import time\na = time.perf_counter_ns()\nimport {}\nprint((time.perf_counter_ns() - a) / 1e6)"
_NEW = "import sys; old = set(sys.modules)\nimport vplug_rs\nprint(*sorted(set(sys.modules) - old))"


def measure(bed: Bed, rounds: int, noise: float) -> dict[str, Any]:
    """Import times of MODULES in turn, and whole processes with and without install()."""
    environment = bed.environment()
    new = answer(bed.python, _NEW, environment).split()
    bad = [name for name in FORBIDDEN if name in new]
    if bad:
        raise SystemExit(f"import vplug_rs brings what it must not on {bed.version}: {', '.join(bad)}")
    for module in MODULES:
        answer(bed.python, f"import {module}", environment)
    gate = Gate(noise)
    seen: list[tuple[bool, dict[str, float], tuple[Cost, Cost]]] = []
    for _ in range(rounds):
        gate.wait()
        with gate.round() as watched:
            row = {
                m: float(answer(bed.python, _TIME.format(m), environment)) for m in random.sample(MODULES, len(MODULES))
            }
            pair = cost(bed.python, "pass", environment), cost(bed.python, INSTALL, environment)
        seen.append((watched.noisy, row, pair))
    rows, quiet = keep([(noisy, (row, pair)) for noisy, row, pair in seen])
    times = {module: statistics_of.pair([row[module] for row, _ in rows]) for module in MODULES}
    return {
        "python": bed.version,
        "rounds": rounds,
        "quiet": quiet,
        "import": times,
        "new_modules": new,
        "install": statistics_of.over([p[1] for _, p in rows], [p[0] for _, p in rows]),
    }


def text(result: dict[str, Any]) -> str:
    """A table for the terminal."""
    times = result["import"]
    new = " ".join(result["new_modules"])
    lines = [f"\nPython {result['python']}, {result['rounds']} rounds, {result['quiet']} quiet; new modules: {new}"]
    for module, pair in times.items():
        over = statistics_of.ratio(pair, times[FLOOR])
        lines.append(
            f"import {module:20} {pair['median']:.3f} ({pair['min']:.3f}) ms  "
            f"{over['median']:.2f} ({over['min']:.2f}) times {FLOOR}; wanted at most {WANTED} by minima"
        )
    for kind in ("wall", "cpu"):
        pair = result["install"][kind]
        lines.append(
            f"process that calls install() and never asks, {kind} over pass: "
            f"{pair['median']:.2f} ({pair['min']:.2f}) ms; wanted under {INSTALL_MILLISECONDS}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure every interpreter that is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beds.add_arguments(parser)
    arguments = parser.parse_args()
    output = arguments.json and arguments.json.resolve()
    work = beds.prepare(arguments.work)
    results = []
    for version, python in interpreters.find(arguments.python).items():
        bed = beds.bed(version, python, work, SIZE)
        results.append(measure(bed, 20 if arguments.quick else 60, arguments.noise))
        print(text(results[-1]), flush=True)
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
