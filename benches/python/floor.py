"""The core's scan beside the floor: the bare system calls of discovery, in C (floor.c), one thread.

    python benches/python/floor.py [--quick] [--cold] [--sizes 10,300,real]

`scan` is the Rust program benches/one_pass.rs (built here by cargo): all groups of one folder in one pass, nothing
remembered. --cold (root; disturbs everything else on the machine) drops the page, dentry and inode caches before
each pass and measures that one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import beds
import interpreters
import statistics_of
from quiet import Gate, keep

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
WARM, COLD = 1.25, 0.45
PASSES = 40
FLOOR = "open"
MODES = ("list", "stat", FLOOR, "scan")


def _compiled(folder: Path) -> Path:
    program = folder / "floor"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, HERE / "floor.c"], check=True)
    return program


def built_bench(name: str) -> Path:
    """The executable of a Rust bench, built with the bench profile (the release one plus line tables)."""
    command = ["cargo", "bench", "--locked", "--bench", name, "--no-run", "--message-format", "json"]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return Path(message["executable"])
    raise SystemExit(f"cargo built no {name}")


def _drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def _run(commands: dict[str, list[str]], mode: str, folder: Path, passes: int) -> dict[str, float]:
    done = subprocess.run([*commands[mode], str(folder), str(passes)], capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _one_round(commands: dict[str, list[str]], folder: Path, *, cold: bool) -> dict[str, dict[str, float]]:
    row = {}
    for mode in random.sample(MODES, len(MODES)):
        if cold:
            _drop_caches()
            _run(commands, mode, Path("/dev"), 1)  # the program's own pages back in
        row[mode] = _run(commands, mode, folder, 1 if cold else PASSES)
    return row


def measure(commands: dict[str, list[str]], folder: Path, rounds: int, noise: float, *, cold: bool) -> dict[str, Any]:
    """Microseconds a pass by mode, and each mode's ratio to the floor, round by round and by minima."""
    floor, ours = (_run(commands, mode, folder, 1) for mode in (FLOOR, "scan"))
    for key in ("distributions", "files"):
        if floor[key] != ours[key]:
            raise SystemExit(f"the scan saw {ours[key]} {key}, the floor {floor[key]}: no figure")
    gate = Gate(noise)
    seen = []
    for _ in range(rounds):
        gate.wait()
        with gate.round() as watched:
            row = _one_round(commands, folder, cold=cold)
        seen.append((watched.noisy, row))
    rows, quiet = keep(seen)
    middle, least = ("first_us", "first_us") if cold else ("median_us", "min_us")
    modes = {}
    for mode in MODES:
        minimum = min(row[mode][least] for row in rows)
        modes[mode] = {
            "median": statistics.median(row[mode][middle] for row in rows),
            "min": minimum,
            "over_floor_median": statistics.median(row[mode][middle] / row[FLOOR][middle] for row in rows),
            "over_floor_min": minimum / min(row[FLOOR][least] for row in rows),
        }
    return {
        "distributions": floor["distributions"],
        "files": floor["files"],
        "cold": cold,
        "rounds": rounds,
        "quiet": quiet,
        "modes": modes,
    }


def text(result: dict[str, Any]) -> str:
    """A table for the terminal."""
    wanted = COLD if result["cold"] else WARM
    head = (
        f"\n{result['distributions']:.0f} distributions, {'cold' if result['cold'] else 'warm'}, "
        f"{result['rounds']} rounds, {result['quiet']} quiet; us a pass, median (min) and as much of {FLOOR}; "
        f"wanted: scan at most {wanted}"
    )
    lines = [
        f"{mode:6} {row['median']:8.1f} ({row['min']:.1f}) {row['over_floor_median']:.2f} ({row['over_floor_min']:.2f})"
        for mode, row in result["modes"].items()
    ]
    return "\n".join([head, *lines])


def main() -> None:
    """Measure all beds asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beds.add_arguments(parser)
    parser.add_argument("--sizes", default="10,300,1000,real")
    parser.add_argument("--cold", action="store_true", help="drop the caches before each pass (root)")
    parser.add_argument("--rounds", type=int, help="15, cold 7; quick 3")
    arguments = parser.parse_args()
    if arguments.cold and os.geteuid() != 0:
        raise SystemExit("--cold needs root")
    output = arguments.json and arguments.json.resolve()
    scan = built_bench("one_pass")
    work = beds.prepare(arguments.work)
    version, python = next(iter(interpreters.find(arguments.python).items()))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        floor = str(_compiled(Path(folder)))
        commands = {mode: [str(scan)] if mode == "scan" else [floor, mode] for mode in MODES}
        for word in arguments.sizes.split(","):
            bed = beds.bed(version, python, work, None if word == beds.REAL else int(word))
            rounds = arguments.rounds or (3 if arguments.quick else 7 if arguments.cold else 15)
            results.append(measure(commands, bed.site, rounds, arguments.noise, cold=arguments.cold))
            print(text(results[-1]), flush=True)
    if output:
        output.write_text(json.dumps({"machine": statistics_of.machine(), "beds": results}, indent=1) + "\n")
    print("scan and floor saw the same files", file=sys.stderr)


if __name__ == "__main__":
    main()
