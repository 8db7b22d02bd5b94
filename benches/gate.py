"""The gate that does not look at a clock: system calls and instructions of discovery against stored numbers.

    python benches/gate.py            compare with benches/gate.json
    python benches/gate.py --record   store what is seen now (say why in the commit)

Counted on a synthetic site, in an isolated interpreter, as differences between programs that differ in one call, so
that starting Python cancels out. Linux with strace and valgrind.

Exit status: 0 within tolerance; 1 something costs more than stored; 3 a tool is missing, nothing was compared;
4 no numbers are stored for this Python.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))

import site_generator  # noqa: E402 - its folder is put on the path above

STORED = HERE / "gate.json"
PACKAGE = HERE.parent / "python"
SIZE = 300
LATER = 10
SETTLE = 2.5
COSTS_MORE, TOOL_MISSING, NOTHING_STORED = 1, 3, 4
TOLERANCE = {"system calls": 0.05, "instructions": 0.15}

_START = (
    "import os, sys; sys.path[:0] = [{package!r}]\n"
    "import vplug_rs\nask = vplug_rs.entry_points\nsys.path[:] = [{site!r}]\n"
)
_ASK = "ask(group={group!r})\n"
# only what asks the file system: under strace storage looks slow, and the number of threads is no constant
_FILE_CALLS = "open,openat,stat,lstat,fstat,newfstatat,statx,access,faccessat2,read,readlink,getdents64,close"
_PROGRAMS = {"import": "", "first": _ASK, "later": _ASK * (1 + LATER), "empty": ""}


def _missing(tool: str) -> str | None:
    """Why `tool` cannot be used here, or None."""
    if sys.platform != "linux":
        return f"{tool} counts on Linux only"
    if not shutil.which(tool):
        return f"{tool} is not installed"
    trial = {"strace": ["strace", "-qq", "-o", "/dev/null", "true"], "valgrind": ["valgrind", "--version"]}[tool]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{tool} does not work here: {done.stderr.strip()}"


def _run(command: list[str], program: str) -> str:
    """Run `program` under a tool and return what the tool wrote to stderr."""
    whole = [*command, sys.executable, "-s", "-S", "-P", "-c", program]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONHASHSEED": "0"}
    done = subprocess.run(whole, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"the measured program failed:\n{done.stderr.strip()}")
    return done.stderr


def _system_calls(program: str) -> int:
    with tempfile.NamedTemporaryFile("r") as log:
        _run(["strace", "-f", "-qq", "-e", f"trace={_FILE_CALLS}", "-o", log.name], program)
        return sum(1 for line in log if "(" in line and "resumed>" not in line)


def _instructions(program: str) -> int:
    text = _run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"], program)
    found = re.search(r"Collected\s*:\s*(\d+)", text)
    if not found:
        raise SystemExit(f"valgrind told no count:\n{text}")
    return int(found[1])


COUNTERS = {"system calls": ("strace", _system_calls), "instructions": ("valgrind", _instructions)}


def _measure(site: Path, counter: str) -> dict[str, float]:
    values = {"package": str(PACKAGE), "site": str(site), "group": site_generator.GROUP}
    count = COUNTERS[counter][1]
    programs = {name: (_START + text).format(**values) for name, text in _PROGRAMS.items()}
    programs["empty"] = "import os, sys\n"
    seen = {name: count(program) for name, program in programs.items()}
    return {
        "import, whole": seen["import"] - seen["empty"],
        "first call, per distribution": round((seen["first"] - seen["import"]) / SIZE, 3),
        "later call, per distribution": round((seen["later"] - seen["first"]) / SIZE / LATER, 3),
    }


def _compare(counter: str, seen: dict[str, float], stored: dict[str, float]) -> bool:
    """Print each number beside the stored one; True where none is above its tolerance."""
    good = True
    for name, value in seen.items():
        limit = stored[name] * (1 + TOLERANCE[counter])
        change = (value / stored[name] - 1) * 100
        word = "ok" if value <= limit else "COSTS MORE"
        if change < -100 * TOLERANCE[counter]:
            word = "better: store it with --record"
        good &= value <= limit
        print(f"{counter}, {name}: {value:,.2f}, stored {stored[name]:,.2f} ({change:+.1f} %), {word}")
    return good


def main() -> int:
    """Count, then compare or store; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="store what is seen")
    arguments = parser.parse_args()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    reasons = {counter: _missing(tool) for counter, (tool, _) in COUNTERS.items()}
    usable = [counter for counter, reason in reasons.items() if reason is None]
    for counter, reason in reasons.items():
        if reason:
            print(f"GATE NOT RUN for {counter}: {reason}", file=sys.stderr)
    if "site-packages" in str(PACKAGE) or not list((PACKAGE / "vplug_rs").glob("_core*.so")):
        raise SystemExit("the extension is not built: run `make dev` first")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site-packages")
        site_generator.build(site, SIZE)
        time.sleep(SETTLE)  # younger than 2 s counts as dirty, and the later call would read again
        seen = {counter: _measure(site, counter) for counter in usable}
    numbers = json.loads(STORED.read_text()) if STORED.exists() else {}
    if arguments.record:
        numbers[version] = {**numbers.get(version, {}), **seen}
        STORED.write_text(json.dumps(dict(sorted(numbers.items())), indent=2) + "\n")
        print(f"stored for Python {version}: {json.dumps(seen)}")
        return TOOL_MISSING if len(usable) < len(COUNTERS) else 0
    if version not in numbers:
        print(
            f"GATE NOT RUN: nothing is stored for Python {version} in {STORED.name}; seen: {json.dumps(seen)}",
            file=sys.stderr,
        )
        return NOTHING_STORED
    results = [_compare(counter, seen[counter], numbers[version][counter]) for counter in usable]
    good = all(results)
    if not good:
        return COSTS_MORE
    return TOOL_MISSING if len(usable) < len(COUNTERS) else 0


if __name__ == "__main__":
    sys.exit(main())
