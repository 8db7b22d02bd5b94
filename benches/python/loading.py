"""What the loader adds to plain imports: first load of trivial plugins, and `get` beside a dict look-up.

    python benches/python/loading.py [--quick] [--python 3.12] [--plugins 100]

Each round starts a fresh process for each side, in random order. "first load" finds, judges, imports and looks up every
plugin of a group; its rival is `importlib.import_module` and `getattr` on the same modules, told their names.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import interpreters
import statistics_of
from beds import PACKAGE, SETTLE, add_arguments
from processes import answer
from quiet import Gate, keep

GROUP = "bench.loading"
PLAIN = """
import importlib, sys, time
began = time.perf_counter()
for number in range({count}):
    getattr(importlib.import_module(f"plugin{{number}}"), "run")
print((time.perf_counter() - began) * 1e3)
"""
OURS = """
import sys, time
import vplug_rs
vplug_rs.PluginLoader("no.such.group").load()
began = time.perf_counter()
loaded = vplug_rs.PluginLoader({group!r}).load()
print((time.perf_counter() - began) * 1e3)
assert len(loaded) == {count}
"""
GET = """
import timeit, vplug_rs
class Plain:
    def __init__(self):
        self.kept = {{"plugin1": object()}}
    def get(self, name):
        return self.kept[name]
plain, loader = Plain(), vplug_rs.PluginLoader({group!r})
loader.get("plugin1")
print(*(min(timeit.repeat(lambda: one.get("plugin1"), number=100_000, repeat=9)) * 1e4 for one in (plain, loader)))
"""
MOST_LOAD, MOST_GET = 1.15, 3.0


def site(folder: Path, count: int) -> Path:
    """A folder with one distribution and one module for each plugin."""
    for number in range(count):
        info = folder / f"plugin{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plugin{number}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\nplugin{number} = plugin{number}:run\n")
        (folder / f"plugin{number}.py").write_text("def run(): pass\n")
    return folder


def measure(python: Path, folder: Path, count: int, rounds: int, gate: Gate) -> dict[str, object]:
    """Medians and minima of both sides, in milliseconds, and of a `get`, in nanoseconds."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment = {**kept, "PYTHONPATH": f"{folder}:{PACKAGE.parent}"}
    sides = {"importlib": PLAIN.format(count=count), "vplug_rs": OURS.format(count=count, group=GROUP)}
    for code in sides.values():  # byte code, and the libraries in the page cache
        answer(python, code, environment)
    seen: list[tuple[bool, dict[str, float]]] = []
    for _ in range(rounds):
        gate.wait()
        with gate.round() as this:
            order = random.sample(list(sides), len(sides))
            times = {name: float(answer(python, sides[name], environment)) for name in order}
        seen.append((this.noisy, times))
    values, quiet = keep(seen)
    plain, ours = map(float, answer(python, GET.format(group=GROUP), environment).split())
    load = {name: statistics_of.pair([one[name] for one in values]) for name in sides}
    return {"quiet": quiet, "rounds": rounds, "plugins": count, "load": load, "get": {"dict": plain, "vplug_rs": ours}}


def main() -> None:
    """Measure every interpreter that is found, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--plugins", type=int, default=100, help="plugins in the group (%(default)s)")
    parser.add_argument("--rounds", type=int, help="40; quick 8")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (8 if arguments.quick else 40)
    results = {}
    for version, python in interpreters.find(arguments.python).items():
        with tempfile.TemporaryDirectory(prefix="vplug-bench-") as folder:
            made = site(Path(folder), arguments.plugins)
            time.sleep(SETTLE)
            found = results[version] = measure(python, made, arguments.plugins, rounds, Gate(arguments.noise))
        load, get = found["load"], found["get"]
        assert isinstance(load, dict)
        assert isinstance(get, dict)
        times = statistics_of.ratio(load["vplug_rs"], load["importlib"])
        print(
            f"Python {version}, {found['plugins']} trivial plugins, {found['quiet']} of {rounds} rounds quiet\n"
            f"first load  importlib {load['importlib']['median']:.2f} ({load['importlib']['min']:.2f}) ms, "
            f"vplug_rs {load['vplug_rs']['median']:.2f} ({load['vplug_rs']['min']:.2f}) ms, "
            f"{times['median']:.2f} ({times['min']:.2f}) times; wanted at most {MOST_LOAD}\n"
            f"get         dict {get['dict']:.0f} ns, vplug_rs {get['vplug_rs']:.0f} ns, "
            f"{get['vplug_rs'] / get['dict']:.2f} times; wanted at most {MOST_GET}\n"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
