"""Answer on somebody's own environment: entry points, time beside importlib.metadata, one `vplug why`.

    demo.py PYTHON

PYTHON is the interpreter of the environment to look at; nothing is installed there or written to it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import vplug_rs

ROUNDS = 15
OURS, STANDARD = "vplug_rs", "importlib.metadata"

# Run by the environment's interpreter, once a round: what a program pays for its first and its next question.
MEASURE = """
import json, sys, time
start = time.perf_counter()
import {module} as module
points = module.entry_points()
first = time.perf_counter() - start
start = time.perf_counter()
module.entry_points()
later = time.perf_counter() - start
if isinstance(points, dict):
    points = [point for group in points.values() for point in group]
rows = sorted({{(point.group, point.name, point.value) for point in points}})
print(json.dumps([first, later, rows, sum(1 for _ in module.distributions())]))
"""


class Environment:
    """The environment of an interpreter, with our package added to its path for the moment."""

    def __init__(self, python: str, root: str) -> None:
        self.python = python
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        self.variables = kept | {"PYTHONPATH": root}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run its interpreter."""
        return subprocess.run(
            [self.python, *words], env=self.variables, capture_output=True, text=True, timeout=300, check=False
        )

    def measure(self, module: str) -> Any:
        """Give the times and the answers of one module, from a fresh process."""
        # -P: the working folder may hold metadata of its own.  On 3.11 the standard warns about its own dict.
        done = self.run("-P", "-W", "ignore", "-c", MEASURE.format(module=module))
        if done.returncode:
            sys.exit(f"{module} failed in {self.python}:\n{done.stderr}")
        return json.loads(done.stdout)


def compare(environment: Environment) -> list[list[str]]:
    """Print what both find and how long it takes them; give our rows."""
    samples: dict[str, list[Any]] = {OURS: [], STANDARD: []}
    for _ in range(ROUNDS):
        for module, taken in samples.items():
            taken.append(environment.measure(module))
    rows: list[list[str]] = samples[OURS][0][2]
    standard = samples[STANDARD][0][2]
    groups = len({row[0] for row in rows})
    print(f"\n{environment.python}")
    print(f"  {samples[OURS][0][3]} distributions, {len(rows)} entry points in {groups} groups")
    if rows == standard:
        print("  importlib.metadata gives the same entry points")
    else:
        gone = [row for row in standard if row not in rows]
        new = [row for row in rows if row not in standard]
        print(f"  {len(gone)} fewer and {len(new)} more than importlib.metadata, as docs/compatibility.md explains:")
        for sign, row in [("-", row) for row in gone[:5]] + [("+", row) for row in new[:5]]:
            print(f"    {sign} [{row[0]}] {row[1]} = {row[2]}")
    print(f"\n  {'milliseconds, median of ' + str(ROUNDS) + ' (min)':38}{OURS:>20}{STANDARD:>22}{'ratio':>8}")
    for at, label in enumerate(["import and first entry_points()", "next entry_points()"]):
        times = {module: [sample[at] * 1000 for sample in taken] for module, taken in samples.items()}
        middle = {module: statistics.median(values) for module, values in times.items()}
        ours, theirs = (f"{middle[module]:.3f} ({min(times[module]):.3f})" for module in (OURS, STANDARD))
        print(f"  {label:38}{ours:>20}{theirs:>22}{middle[STANDARD] / middle[OURS]:>8.1f}")
    return rows


def explain(environment: Environment, rows: list[list[str]]) -> int:
    """Show `vplug why` on one entry point, of a command where there is one."""
    if not rows:
        print("\nNothing to explain: this environment has no entry points.")
        return 0
    _, name, _ = next((row for row in rows if row[0] == "console_scripts"), rows[0])
    print(f"\n$ vplug why {name}", flush=True)
    done = environment.run("-P", "-m", "vplug_rs", "why", name)
    print(done.stdout + done.stderr)
    # 1 says that there are findings, which is for the reader to judge.
    return 0 if done.returncode in (0, 1) else done.returncode


def main() -> int:
    """Show the demonstration; the exit status is 0 unless something failed."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="vplug-demo-") as folder:
        # A folder with the package alone, so that nothing else of the build environment is seen.
        (Path(folder) / "vplug_rs").symlink_to(Path(vplug_rs.__file__).resolve().parent)
        yours = Environment(sys.argv[1], folder)
        return explain(yours, compare(yours))


if __name__ == "__main__":
    sys.exit(main())
