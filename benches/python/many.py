"""Many processes at once on one site, as a server starts its workers: wall and processor time over `pass`.

python benches/python/many.py [--quick] [--python 3.12] [--count 32]
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

import beds
import candidates
import interpreters
import startup
import statistics_of
from beds import Bed
from candidates import OURS, PLAIN, STANDARD, STEVEDORE_HIT
from processes import Cost, cost
from quiet import Gate, keep

SIZE = 300
NAMES = (STANDARD, STEVEDORE_HIT, PLAIN, OURS)
WANTED = 10


def measure(bed: Bed, count: int, rounds: int, noise: float) -> dict[str, Any]:
    """`count` processes of each candidate at once, over as many that run `pass`."""
    jobs = {"pass": ("pass", bed.environment())}
    for name in NAMES:
        candidate = candidates.ALL[name]
        jobs[name] = (startup.code(bed, candidate), bed.environment(candidate.environment))
        for _ in range(candidate.warm_up + 1):
            cost(bed.python, *jobs[name])
    beds.settle()
    gate = Gate(noise)
    seen: list[tuple[bool, dict[str, Cost]]] = []
    for _ in range(rounds):
        gate.wait()
        with gate.round() as watched:
            row = {name: cost(bed.python, *jobs[name], count) for name in random.sample(list(jobs), len(jobs))}
        seen.append((watched.noisy, row))
    rows, quiet = keep(seen)
    base = [row["pass"] for row in rows]
    return {
        "python": bed.version,
        "count": count,
        "distributions": SIZE,
        "rounds": rounds,
        "quiet": quiet,
        "candidates": {name: statistics_of.over([row[name] for row in rows], base) for name in NAMES},
    }


def text(result: dict[str, Any]) -> str:
    """A table for the terminal."""
    rows = result["candidates"]
    head = (
        f"\nPython {result['python']}, {result['count']} processes at once, {SIZE} distributions, "
        f"{result['rounds']} rounds, {result['quiet']} quiet; ms over pass; wanted: {WANTED} times less cpu"
    )
    lines = [head]
    for name, row in rows.items():
        times = statistics_of.ratio(rows[STANDARD]["cpu"], row["cpu"])
        lines.append(
            f"{name:26} wall {row['wall']['median']:8.1f} ({row['wall']['min']:.1f})"
            f"  cpu {row['cpu']['median']:8.1f} ({row['cpu']['min']:.1f})  {times['median']:.1f} ({times['min']:.1f})x"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure every interpreter that is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beds.add_arguments(parser)
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--rounds", type=int, help="5, quick 3")
    arguments = parser.parse_args()
    output = arguments.json and arguments.json.resolve()
    work = beds.prepare(arguments.work)
    results = []
    for version, python in interpreters.find(arguments.python).items():
        bed = beds.bed(version, python, work, SIZE)
        startup.check_equal(bed)
        rounds = arguments.rounds or (3 if arguments.quick else 5)
        results.append(measure(bed, arguments.count, rounds, arguments.noise))
        print(text(results[-1]), flush=True)
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
