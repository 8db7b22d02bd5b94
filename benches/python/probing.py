"""What the passive probe of all platforms costs, beside `import pynvml` alone.

    python benches/python/probing.py [--quick] [--python 3.12]

Three roots: this machine's `/`; a made one with 300 PCI functions, eight of them GPUs; and the same with the links that
the kernel makes, half of them to functions behind a bridge: in a made root they are followed name by name. Both sides
are timed inside the same fresh processes, started with `-I -S`, one of each in turn, so that no side pays for the
interpreter: ours is the first call of a process and the median of later ones, theirs the import, its bytecode compiled,
no library loaded and no driver asked.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import beds
import interpreters
import statistics_of
from quiet import Gate, keep

FUNCTIONS = 300
PYNVML = "nvidia-ml-py==13.615.71"
MACHINE, MADE, LINKED = "this machine", f"{FUNCTIONS} PCI functions", f"{FUNCTIONS}, linked"
MILLISECONDS = {MACHINE: 1.0, MADE: 3.0, LINKED: 3.0}
TIMES = 20
LATER = 50

_OURS = """
import sys, time
sys.path.insert(0, sys.argv[1])
from vplug_rs import _core
import os
times = []
for _ in range(int(sys.argv[3])):
    a = time.perf_counter_ns()
    found = _core.probe_passive(sys.argv[2], os.environ)
    times.append((time.perf_counter_ns() - a) / 1e6)
first, later = times[0], sorted(times[1:])
print(first, later[len(later) // 2], later[0], sum(one[1] == "cuda.pci" for one in found[0]))
"""
_THEIRS = """
import sys, time
sys.path.insert(0, sys.argv[1])
a = time.perf_counter_ns()
import pynvml
b = time.perf_counter_ns()
assert pynvml.nvmlInit and "torch" not in sys.modules
print((b - a) / 1e6)
"""


def made_root(folder: Path, *, linked: bool) -> Path:
    """A root with FUNCTIONS PCI functions: eight H100, fifteen disks, network cards and bridges."""
    shutil.rmtree(folder, ignore_errors=True)
    devices = folder / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    addresses = [f"{number // 256:04x}:{number % 256:02x}:00.0" for number in range(FUNCTIONS)]
    for number, address in enumerate(addresses):
        if number % 40 == 7:
            driver, kind, ids = "nvidia", "30200", "10DE:2330"
        elif number % 20 == 1:
            driver, kind, ids = "nvme", "10802", "144D:A80A"
        else:
            driver, kind, ids = (
                ("mlx5_core", "20000", "15B3:101E") if number % 2 else ("pcieport", "60400", "8086:352A")
            )
        bridge = f"{addresses[number - 1]}/" if number % 2 else ""
        real = f"devices/pci{number // 256:04x}:{number % 256 // 64:x}0/{bridge}{address}"
        place = folder / "sys" / real if linked else devices / address
        place.mkdir(parents=True)
        text = f"DRIVER={driver}\nPCI_CLASS={kind}\nPCI_ID={ids}\nPCI_SUBSYS_ID={ids}\nPCI_SLOT_NAME={address}\n"
        (place / "uevent").write_text(f"{text}MODALIAS=pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n")
        if linked:
            (devices / address).symlink_to(f"../../../{real}")
    return folder


def run(python: Path, code: str, arguments: list[str]) -> list[float]:
    """The numbers that a child prints.

    Raises:
        SystemExit: it failed; its error is shown.
    """
    command = [str(python), "-I", "-S", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed:\n{code}\n{done.stderr.strip()}")
    return [float(word) for word in done.stdout.split()]


def measure(version: str, python: Path, work: Path, rounds: int, noise: float) -> dict[str, Any]:
    """Each root and the import once in each round, in an order by chance."""
    pynvml = beds.library(python, version, work, PYNVML)
    roots = {
        MACHINE: Path("/"),
        MADE: made_root(work / "root-plain", linked=False),
        LINKED: made_root(work / "root-linked", linked=True),
    }
    jobs = {title: (_OURS, [str(work / "product"), str(root), str(LATER + 1)]) for title, root in roots.items()}
    jobs["pynvml"] = (_THEIRS, [str(pynvml)])
    for title in (MADE, LINKED):
        if run(python, *jobs[title])[3] != sum(number % 40 == 7 for number in range(FUNCTIONS)):
            raise SystemExit(f"not all GPUs of {title} were seen")
    run(python, *jobs["pynvml"])
    gate = Gate(noise)
    seen: list[tuple[bool, dict[str, list[float]]]] = []
    for _ in range(rounds):
        gate.wait()
        with gate.round() as watched:
            row = {title: run(python, *jobs[title]) for title in random.sample(list(jobs), len(jobs))}
        seen.append((watched.noisy, row))
    rows, quiet = keep(seen)
    theirs = statistics_of.pair([row["pynvml"][0] for row in rows])
    result: dict[str, Any] = {"python": version, "rounds": rounds, "quiet": quiet, "pynvml": theirs, "roots": {}}
    for title in roots:
        first = statistics_of.pair([row[title][0] for row in rows])
        later = {
            "median": statistics_of.pair([row[title][1] for row in rows])["median"],
            "min": min(row[title][2] for row in rows),
        }
        result["roots"][title] = {
            "first": first,
            "later": later,
            "times": {"first": statistics_of.ratio(theirs, first), "later": statistics_of.ratio(theirs, later)},
        }
    return result


def text(result: dict[str, Any]) -> str:
    """A table for the terminal."""
    theirs = result["pynvml"]
    head = f"Python {result['python']}, {result['rounds']} rounds, {result['quiet']} quiet"
    lines = [
        f"\n{head}; import pynvml {theirs['median']:.1f} ({theirs['min']:.1f}) ms",
        f"{'ms, median (min)':22}{'first call':>18}{'x':>14}{'later call':>18}{'x':>14}   wanted",
    ]
    for title, row in result["roots"].items():
        cells = [f"{title:22}"]
        for kind in ("first", "later"):
            own, times = row[kind], row["times"][kind]
            cells.append(f"{own['median']:9.3f} ({own['min']:.3f})".rjust(18))
            cells.append(f"{times['median']:.0f} ({times['min']:.0f})".rjust(14))
        most = MILLISECONDS.get(title)
        wanted = [f"at most {most:g} ms"] if most else []
        if title == MACHINE:
            wanted.append(f"{TIMES} times")
        lines.append("".join(cells) + "   " + ", ".join(wanted))
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
        results.append(measure(version, python, work, 10 if arguments.quick else 60, arguments.noise))
        print(text(results[-1]), flush=True)
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
