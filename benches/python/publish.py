"""Writes what was measured into docs/benchmarks.md, README.md and docs/startup.png.

    python benches/python/publish.py --measure     run every benchmark first (about 25 minutes, root for the cold ones)
    python benches/python/publish.py RESULTS       from a folder of earlier results

Each table stands between `<!-- bench:NAME:start -->` and `<!-- bench:NAME:end -->`; README's between
`<!-- bench:start -->` and `<!-- bench:end -->`. The raw results go to docs/benchmarks.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import beds
import once
import plot
import tables

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
RUNS = {
    "startup": ["startup.py"],
    "calls": ["calls.py"],
    "importing": ["importing.py"],
    "many": ["many.py"],
    "loading": ["loading.py"],
    "once": ["once.py"],
    "vllm": ["vllm_groups.py"],
    "floor": ["floor.py"],
    "floor-cold": ["floor.py", "--cold", "--sizes", "300,real"],
}


def _measure(results: Path, work: Path) -> None:
    results.mkdir(parents=True, exist_ok=True)
    for name, command in RUNS.items():
        if name == "floor-cold" and os.geteuid() != 0:
            print("cold storage is not measured: dropping the caches needs root", file=sys.stderr)
            continue
        script, *options = command
        places = ["--work", str(work), "--json", str(results / f"{name}.json")]
        whole = [sys.executable, str(HERE / script), *options, *places]
        subprocess.run(whole, check=True)


def _fill(path: Path, marker: str, text: str) -> None:
    """Put `text` between the markers of `path`; without them say so, and leave the file alone."""
    start, end = f"<!-- {marker}:start -->", f"<!-- {marker}:end -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        print(f"{path.name} has no place for {marker}: put {start} and {end} on lines of their own", file=sys.stderr)
        return
    path.write_text(f"{before}{start}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def publish(results: Path) -> None:
    """Write tables and plot from the JSON files in `results`."""
    seen: dict[str, Any] = {
        name: json.loads(path.read_text()) for name in RUNS if (path := results / f"{name}.json").exists()
    }
    missing = [name for name in RUNS if name not in seen]
    if missing:
        print(f"no results for {', '.join(missing)}: those tables stay as they are", file=sys.stderr)
    document = REPOSITORY / "docs" / "benchmarks.md"
    for name, text in tables.everything(seen).items():
        _fill(document, f"bench:{name}", text)
    if "startup" in seen:
        plot.draw(seen["startup"], REPOSITORY / "docs" / "startup.png")
    (REPOSITORY / "docs" / "benchmarks.json").write_text(json.dumps(seen, indent=1) + "\n")
    if "startup" in seen:
        _fill(REPOSITORY / "README.md", "bench", tables.readme(seen))
    if "once" in seen:
        _fill(REPOSITORY / "README.md", "bench:once", once.markdown(seen["once"][0]))


def main() -> None:
    """Measure where asked, then write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", help="folder of results (default: WORK/results)")
    parser.add_argument("--measure", action="store_true", help="run every benchmark first")
    parser.add_argument("--work", type=Path, default=beds.default_work(), help="as for each benchmark (%(default)s)")
    arguments = parser.parse_args()
    results = arguments.results or arguments.work / "results"
    if arguments.measure:
        _measure(results.resolve(), arguments.work.resolve())
    publish(results.resolve())


if __name__ == "__main__":
    main()
