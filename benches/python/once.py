"""Eight threads ask for one group of plugins at once: what four plugin libraries do then, and in three more situations.

    python benches/python/once.py [--quick] [--python 3.12] [--rounds 20] [--plugins 50] [--threads 8]

Nothing is timed (so `--noise` changes nothing): it is counted how often plugins were run and what each thread got.
Every situation has a process of its own (once_child.py), on a generated site. Beside the threads: a plugin that fails
when it is first run, a plugin that asks for the group while it is run, three plugins that wait for each other.

Each library is used as its documentation shows. What the three others document of these calls promises nothing about
threads, so a high number here breaks no word of theirs: stevedore and pluggy take no lock at all; plux has one for
each plugin and says that a plugin, once loaded, is not loaded again. A stevedore manager loads when it is made, and
how a host shares one is the host's matter. Calling a pluggy hook is an event that reaches every plugin each time, so
running a plugin again is what it is for; a historic hook reaches each plugin once, when it is registered. A host that
puts a lock of its own around a library gets other rows than these.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import beds
import interpreters
from beds import Bed
from once_child import CONTROL, FEW, GROUP, LIMIT, ODD

HERE = Path(__file__).resolve().parent
SIZE = 10  # distributions in the environment beside the plugins'
IMPORT_SECONDS = 0.003
HEAD = f"import time\nimport once_child\ntime.sleep({IMPORT_SECONDS})\n"

FUNCTION = (":run", "def run():\n    return once_child.body({name!r})\n")
HOOKS = (
    "",  # the module is the plugin
    """
import pluggy

@pluggy.HookimplMarker(once_child.PROJECT)
def once_start():
    return once_child.body({name!r})
""",
)
CLASS = (
    ":Demo",
    """
from plux import Plugin

class Demo(Plugin):
    namespace, name = once_child.GROUP, {name!r}

    def load(self):
        return once_child.body(self.name)
""",
)


@dataclass(frozen=True)
class Library:
    """One library, used in one way.

    Attributes:
        title: its row's name.
        form: what a plugin of it looks like: how its entry point's value ends, and its source.
        used: what each thread asks, for the reader.
        first: whether this is the way that stands in the short table.
    """

    title: str
    form: tuple[str, str]
    used: str
    first: bool = True


LIBRARIES = {
    "ours": Library("vplug_rs", FUNCTION, "`PluginLoader(group, call=True).load()`"),
    "stevedore-shared": Library(
        "stevedore, shared manager",
        FUNCTION,
        "one `ExtensionManager(group, invoke_on_load=True)`, made when first asked",
    ),
    "stevedore-own": Library(
        "stevedore, own manager", FUNCTION, "`ExtensionManager(group, invoke_on_load=True)` each", first=False
    ),
    "pluggy-call": Library(
        "pluggy, hook call", HOOKS, "shared manager: `load_setuptools_entrypoints(group)`, then the hook", first=False
    ),
    "pluggy-historic": Library(
        "pluggy, historic hook", HOOKS, "shared manager: `load_setuptools_entrypoints(group)`, the hook called before"
    ),
    "plux": Library("plux", CLASS, "shared manager: `PluginManager(group).load_all()`"),
}


def _distribution(site: Path, project: str, form: tuple[str, str], names: Iterable[str]) -> None:
    """One installed distribution with a module for each of its plugins."""
    ending, source = form
    info = site / f"{project}-1.0.dist-info"
    info.mkdir(parents=True)
    points, files = "", ""
    for name in names:
        module = f"once_{name}"
        (site / f"{module}.py").write_text(HEAD + source.format(name=name))
        points += f"{name} = {module}{ending}\n"
        files += f"{module}.py,,\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    (info / "RECORD").write_text(
        f"{files}{info.name}/METADATA,,\n{info.name}/entry_points.txt,,\n{info.name}/RECORD,,\n"
    )


class Place:
    """The sites of one library: many distributions with a plugin each, and one that has a few in a known order."""

    def __init__(self, bed: Bed, folder: Path, name: str, form: tuple[str, str], plugins: int) -> None:
        """Args: bed: the environment; folder: where to write; name: the host's; form: of its plugins; plugins: many."""
        self.bed, self.folder, self.name, self.plugins = bed, folder, name, plugins
        for number in range(plugins):
            _distribution(folder / "many", f"demo_{number:03}", form, [f"p{number:03}"])
        _distribution(folder / "few", "demo_few", form, FEW)

    def run(self, situation: str, threads: int) -> Any:
        """What once_child.py says of one situation, in a fresh process.

        Raises:
            SystemExit: it failed; its error is shown.
        """
        site = self.folder / ("many" if situation == "threads" else "few")
        path = os.pathsep.join([str(site), str(HERE), self.bed.path])
        # stevedore and plux keep their caches there: on, and of this site alone
        environment = self.bed.environment({"PYTHONPATH": path, "XDG_CACHE_HOME": str(self.folder / "cache")})
        code = "import once_child; once_child.main()"
        words = [self.name, situation, str(self.plugins), str(threads)]
        command = [str(self.bed.python), "-c", code, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr.strip()}")
        return json.loads(done.stdout)


def _check(places: dict[str, Place], control: Place, threads: int) -> None:
    """Refuse to count where one thread alone does not get and run all once, or where a known fault is not seen.

    Raises:
        SystemExit: the test is wrong about a library, or about threads.
    """
    for name, place in places.items():
        wanted = {"ran": place.plugins, "twice": 0, "early": 0, "short": 0, "ends": {"returned": 1}}
        alone = place.run("threads", 1)
        if {key: alone[key] for key in wanted} != wanted:
            raise SystemExit(f"{LIBRARIES[name].title}: one thread alone should get {wanted}, not {alone}")
    seen = control.run("threads", threads)
    if not seen["early"] or not seen["short"]:
        raise SystemExit(f"a host that marks the group as loaded too early should be seen to: {seen}")


def _total(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """All rounds in one; `most` and `overlap` are the extremes, and `rounds_differing` counts rounds."""
    ends: Counter[str] = Counter()
    for one in rounds:
        ends.update(one["ends"])
    summed = {key: sum(one[key] for one in rounds) for key in ("ran", "twice", "returned", "early", "short")}
    return {
        **summed,
        "most": max(one["most"] for one in rounds),
        "ends": dict(ends),
        "rounds_differing": sum(one["differing"] > 0 for one in rounds),
        "overlap": min(one["overlap"] for one in rounds),
    }


def _versions() -> dict[str, str]:
    """The rivals' versions, as beds.py installs them."""
    pins = dict(line.split("==") for line in (HERE / "peers.txt").read_text().splitlines() if "==" in line)
    return {name: pins[name] for name in ("pluggy", "plux", "stevedore")}


def measure(bed: Bed, rounds: int, plugins: int, threads: int) -> dict[str, Any]:
    """Every library in every situation, on one interpreter."""
    libraries = {}
    with tempfile.TemporaryDirectory() as folder:
        places = {name: Place(bed, Path(folder, name), name, of.form, plugins) for name, of in LIBRARIES.items()}
        _check(places, Place(bed, Path(folder, CONTROL), CONTROL, FUNCTION, plugins), threads)
        seen: dict[str, list[dict[str, Any]]] = {name: [] for name in places}
        for _ in range(rounds):
            for name, place in places.items():
                seen[name].append(place.run("threads", threads))
        for name, place in places.items():
            libraries[name] = {
                "title": LIBRARIES[name].title,
                "used": LIBRARIES[name].used,
                "threads": _total(seen[name]),
                **{situation: place.run(situation, 1) for situation in ("failure", "reentry", "cycle")},
            }
    return {
        "python": bed.version,
        "rounds": rounds,
        "plugins": plugins,
        "threads": threads,
        "versions": _versions(),
        "libraries": libraries,
    }


def _retried(failure: dict[str, Any]) -> str:
    """What became of the plugin that failed once, over three requests, in words."""
    requests = failure["requests"]
    ran = [one["runs"][ODD] for one in requests]
    again = next((number for number in (1, 2) if ran[number] > ran[0]), None)
    given = next((number for number in (1, 2) if ODD in requests[number]["given"]), None)
    ran_by = {None: "not run again", 1: "run by the next request", 2: "run by the one after"}
    given_by = {None: "never returned", 1: "returned by the next request", 2: "returned by the one after"}
    text = {None: "no", 1: "yes"}.get(again, ran_by[again]) if again == given else f"{ran_by[again]}, {given_by[given]}"
    if any(times > 1 for name, times in requests[-1]["runs"].items() if name != ODD):
        text += "; others run again"
    late = sum(not times for times in requests[0]["runs"].values())
    return text + (f"; {late} others not run at first" if late else "")


def _reentered(reentry: dict[str, Any]) -> str:
    """What came of a plugin that asks for the group while it is run, in words."""
    ran = reentry["runs"][ODD]
    (end,) = reentry["ends"]
    if end == "hung":
        return f"hangs (over {LIMIT:g} s)"
    how = "returns" if ran == 1 else "runs twice" if ran == 2 else f"recurses, {ran} runs"
    if end != "returned":
        return f"{how}; {end}"
    return how if ODD in reentry["given"] else f"{how}; not returned"


def _ended(ends: dict[str, int], *, well: bool = True) -> str:
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items()) if well or end != "returned") or "0"


def text(result: dict[str, Any]) -> str:
    """Two tables for the terminal."""
    rounds, plugins, threads = (result[key] for key in ("rounds", "plugins", "threads"))
    rows = list(result["libraries"].values())
    overlap = min(row["threads"]["overlap"] for row in rows)
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    head = (
        f"\nPython {result['python']}, {versions}: {threads} threads, {plugins} plugins, {rounds} rounds; so "
        f"{rounds * plugins} bodies, {rounds * threads} requests, {overlap} of {threads} always under way at once"
    )
    lines = [head, f"{'':26}{'run twice':>10}{'most':>6}{'early':>7}{'short':>7}{'objects differ':>16}  errors"]
    for row in rows:
        of = row["threads"]
        lines.append(
            f"{row['title']:26}{of['twice']:10}{of['most']:6}{of['early']:7}{of['short']:7}"
            f"{of['rounds_differing']:9} rounds  {_ended(of['ends'], well=False)}"
        )
    lines.append(f"\n{'':26}{'asks for the group again':36}{'three in a circle':36}failed plugin retried")
    for row in rows:
        circle = _ended(row["cycle"]["ends"]) if row["cycle"] else "no request for one plugin"
        lines.append(f"{row['title']:26}{_reentered(row['reentry']):36}{circle:36}{_retried(row['failure'])}")
    return "\n".join(lines)


def markdown(result: dict[str, Any]) -> str:
    """The short table for README, one row a library; `result` is one interpreter's, as `measure` gives it."""
    rounds, plugins, threads = (result[key] for key in ("rounds", "plugins", "threads"))
    head = [
        "what each did, as measured", "bodies run twice", "threads that returned early", "threads with an error",
        "failed plugin retried", "re-entry",
    ]  # fmt: skip
    table = [head, ["---", *["--:"] * 3, "---", "---"]]
    for name, row in result["libraries"].items():
        if not LIBRARIES[name].first:
            continue
        of = row["threads"]
        requests = f"of {rounds * threads:,}"
        package = name.partition("-")[0]
        title = row["title"].replace(package, f"{package} {result['versions'].get(package)}")
        cells = [
            f"**{title}**" if name == "ours" else title,
            f"{of['twice']:,} of {rounds * plugins:,}",
            f"{of['early']} {requests}",
            f"{rounds * threads - of['returned']} {requests}",
            _retried(row["failure"]),
            _reentered(row["reentry"]),
        ]
        table.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def main() -> None:
    """Measure every interpreter that is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beds.add_arguments(parser)
    parser.add_argument("--rounds", type=int, help="of the threads, for each library (20; quick 3)")
    parser.add_argument("--plugins", type=int, default=50, help="in the group (%(default)s)")
    parser.add_argument("--threads", type=int, default=8, help="that ask at once (%(default)s)")
    arguments = parser.parse_args()
    output = arguments.json and arguments.json.resolve()
    work = beds.prepare(arguments.work)
    results = []
    for version, python in interpreters.find(arguments.python).items():
        bed = beds.bed(version, python, work, SIZE)
        rounds = arguments.rounds or (3 if arguments.quick else 20)
        results.append(measure(bed, rounds, arguments.plugins, arguments.threads))
        print(text(results[-1]), flush=True)
    if output:
        output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
