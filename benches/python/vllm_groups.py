"""vLLM's four groups that a server asks for, in one process: importlib.metadata beside ours, first and all calls.

    python benches/python/vllm_groups.py [--quick] [--python 3.12] [--rounds 40]

Each round starts a fresh process for each side, in random order, on a site of 300 distributions.
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
from processes import answer
from quiet import Gate, keep

SIZE = 300
GROUPS = ("vllm.general_plugins", "vllm.platform_plugins", "vllm.stat_logger_plugins", "vllm.endpoint_plugins")
SIDES = {
    "standard": "import importlib.metadata as m",
    "vplug_rs": "import vplug_rs.metadata as m",
    "install()": "import importlib.metadata as m, vplug_rs; vplug_rs.install()",
}
WANTED = {11: 25, 12: 45, 13: 60}  # times, for our objects
_ASK = f"""
import time
{{setup}}
began = time.perf_counter()
for group in {GROUPS!r}:
    list(m.entry_points(group=group))
print((time.perf_counter() - began) * 1e3)
"""


def measure(bed: Bed, rounds: int, noise: float) -> dict[str, Any]:
    """Medians and minima of the four calls together, in milliseconds, and how many times the standard takes."""
    for setup in SIDES.values():  # byte code, and the site in the page cache
        answer(bed.python, _ASK.format(setup=setup), bed.environment())
    gate = Gate(noise)
    seen: list[tuple[bool, dict[str, float]]] = []
    for _ in range(rounds):
        gate.wait()
        with gate.round() as watched:
            row = {
                side: float(answer(bed.python, _ASK.format(setup=SIDES[side]), bed.environment()))
                for side in random.sample(list(SIDES), len(SIDES))
            }
        seen.append((watched.noisy, row))
    rows, quiet = keep(seen)
    times = {side: statistics_of.pair([row[side] for row in rows]) for side in SIDES}
    ratios = {side: statistics_of.ratio(times["standard"], times[side]) for side in SIDES}
    return {"python": bed.version, "rounds": rounds, "quiet": quiet, "times": times, "ratios": ratios}


def main() -> None:
    """Measure every interpreter that is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beds.add_arguments(parser)
    parser.add_argument("--rounds", type=int, help="40; quick 8")
    arguments = parser.parse_args()
    output = arguments.json and arguments.json.resolve()
    work = beds.prepare(arguments.work)
    results = []
    for version, python in interpreters.find(arguments.python).items():
        result = measure(
            beds.bed(version, python, work, SIZE),
            arguments.rounds or (8 if arguments.quick else 40),
            arguments.noise,
        )
        results.append(result)
        wanted = WANTED.get(int(version.split(".")[1]))
        print(f"\nPython {version}, {SIZE} distributions, {result['quiet']} of {result['rounds']} rounds quiet")
        for side, pair in result["times"].items():
            over = result["ratios"][side]
            bar = f"; wanted at least {wanted}" if side == "vplug_rs" and wanted else ""
            print(
                f"{side:10} {pair['median']:.2f} ({pair['min']:.2f}) ms  "
                f"{over['median']:.1f} ({over['min']:.1f}) times less{bar}",
                flush=True,
            )
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
