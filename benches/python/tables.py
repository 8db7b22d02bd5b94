"""Markdown tables from the results of the benchmarks: medians, minima in brackets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import beds
import calls
import floor
import importing
import loading
import many
import once
import statistics_of
import vllm_groups
from candidates import ALL, INSTALLED, OURS, PLAIN, PLUX_HIT, STANDARD, STEVEDORE_HIT

WANTED_PROCESS = {"3.11": 35, "3.12": 40, "3.13": 28}
WANTED_FIRST = {"3.11": 10, "3.12": 16, "3.13": 18}
WANTED_LATER = {"3.11": 60, "3.12": 120, "3.13": 150}

TIMES = "\N{MULTIPLICATION SIGN}"

Pair = dict[str, float]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    """Three figures, and thousandths at the least."""
    for least, digits in ((100, 0), (10, 1), (0.1, 2)):
        if value >= least:
            return f"{value:.{digits}f}"
    return f"{value:.3f}"


def _times(pair: Pair) -> str:
    return f"{_number(pair['median'])} ({_number(pair['min'])})"


def _ratio(rival: Pair, ours: Pair) -> str:
    over = statistics_of.ratio(rival, ours)
    return f"{over['median']:.1f}{TIMES} ({over['min']:.1f}{TIMES})"


def _versions(startup: dict[str, Any]) -> str:
    rows = []
    for result in startup["versions"]:
        of = result["candidates"]
        ours, standard, version = of[OURS], of[STANDARD], result["python"]

        def over(kind: str, of: dict[str, Any] = of, ours: dict[str, Any] = ours) -> str:
            return _ratio(of[STANDARD][kind], ours[kind])

        rows.append(
            [
                version,
                f"{_ratio(standard['process']['cpu'], ours['process']['cpu'])} ≥ {WANTED_PROCESS[version]}",
                f"{_ratio(of[PLAIN]['process']['cpu'], ours['process']['cpu'])} ≥ 2",
                f"{over('first')} ≥ {WANTED_FIRST[version]}",
                _ratio(of[STEVEDORE_HIT]["first"], ours["first"]),
                _ratio(of[PLUX_HIT]["first"], ours["first"]),
                f"{over('later')} ≥ {WANTED_LATER[version]}",
                f"{ours['later']['median'] / ours['first']['median']:.2f} ≤ 0.2",
                f"{result['quiet']} of {result['rounds']}",
            ]
        )
    head = [
        "Python", "process, cpu", "… of plain Python", "first call", "… of stevedore's cache", "… of plux's cache",
        "later call", "later / first", "quiet rounds",
    ]  # fmt: skip
    return _table(head, rows)


def _sizes(startup: dict[str, Any], kind: str) -> str:
    results = startup["sizes"]
    head = ["ms", *(f"{r['distributions']}{' real' if r['bed'] == beds.REAL else ''}" for r in results)]
    rows = []
    for name in results[0]["candidates"]:
        cells = [r["candidates"][name][kind] for r in results]
        rows.append(
            [f"**{name}**" if name == OURS else name, *(_times(c["cpu"] if kind == "process" else c) for c in cells)]
        )
    return _table(head, rows)


def _remarks() -> str:
    return "\n".join(f"- {c.title}: {c.remark}." for c in ALL.values() if c.remark)


def _calls(results: list[dict[str, Any]]) -> str:
    head = ["call", *(f"{r['python']}{kind}" for r in results for kind in (" vplug_rs", " install()"))]
    rows = []
    for name, call in calls.CALLS.items():
        if name not in results[0]["calls"]:
            continue
        for kind in ("first", "later"):
            cells = [f"{name}, {kind}"]
            for result in results:
                sides = result["calls"][name]
                minor = list(WANTED_FIRST).index(result["python"])
                for number, side in enumerate(("vplug_rs", "install()")):
                    wanted = call.targets[number][minor] if call.targets else 0
                    text = _ratio(sides["standard"][kind], sides[side][kind]) if side in sides else "differs"
                    cells.append(f"{text} ≥ {wanted:g}" if wanted else text)
            rows.append(cells)
    return _table(head, rows)


def _importing(results: list[dict[str, Any]]) -> str:
    head = [
        "Python",
        "_queue, ms",
        "vplug_rs._core, ms",
        "vplug_rs, ms",
        "vplug_rs / _queue",
        "install() and never asked, ms cpu",
    ]
    rows = [
        [
            r["python"],
            *(_times(r["import"][module]) for module in importing.MODULES),
            f"{_ratio(r['import']['vplug_rs'], r['import'][importing.FLOOR])} ≤ {importing.WANTED}",
            f"{_times(r['install']['cpu'])} < {importing.INSTALL_MILLISECONDS:g}",
        ]
        for r in results
    ]
    return _table(head, rows)


def _many(results: list[dict[str, Any]]) -> str:
    head = ["Python", *(f"{name}, cpu ms" for name in many.NAMES), f"{STANDARD} / {OURS}"]
    rows = []
    for r in results:
        of = {name: row["cpu"] for name, row in r["candidates"].items()}
        rows.append(
            [r["python"], *(_times(of[n]) for n in many.NAMES), f"{_ratio(of[STANDARD], of[OURS])} ≥ {many.WANTED}"]
        )
    return _table(head, rows)


def _floor(result: dict[str, Any], wanted: float) -> str:
    head = ["distributions", *(f"{mode}, µs" for mode in floor.MODES), f"scan / {floor.FLOOR}"]
    rows = []
    for bed in result["beds"]:
        scan = bed["modes"]["scan"]
        over = f"{scan['over_floor_median']:.2f} ({scan['over_floor_min']:.2f}) ≤ {wanted}"
        rows.append([f"{bed['distributions']:.0f}", *(_times(bed["modes"][mode]) for mode in floor.MODES), over])
    return _table(head, rows)


def _loading(result: dict[str, Any]) -> str:
    rows = []
    for version, one in result.items():
        plain, ours, get = one["load"]["importlib"], one["load"]["vplug_rs"], one["get"]
        times = statistics_of.ratio(ours, plain)
        rows.append(
            [
                version,
                _times(plain),
                _times(ours),
                f"{times['median']:.2f}{TIMES} ({times['min']:.2f}{TIMES}) ≤ {loading.MOST_LOAD}",
                f"{get['vplug_rs']:.0f} / {get['dict']:.0f}",
                f"{get['vplug_rs'] / get['dict']:.2f}{TIMES} ≤ {loading.MOST_GET:g}",
            ]
        )
    head = [
        "Python",
        "importlib, ms",
        "first load(), ms",
        "load() / importlib",
        "get() / dict look-up, ns",
        "get() / dict",
    ]
    return _table(head, rows)


def _vllm(results: list[dict[str, Any]]) -> str:
    rows = []
    for one in results:
        times = one["times"]
        wanted = vllm_groups.WANTED.get(int(one["python"].split(".")[1]))
        ours, installed = (_ratio(times["standard"], times[side]) for side in ("vplug_rs", "install()"))
        rows.append(
            [
                one["python"],
                *(_times(times[side]) for side in vllm_groups.SIDES),
                f"{ours} ≥ {wanted}" if wanted else ours,
                installed,
            ]
        )
    return _table(
        ["Python", *(f"{side}, ms" for side in vllm_groups.SIDES), "standard / vplug_rs", "/ install()"], rows
    )


def everything(seen: dict[str, Any]) -> dict[str, str]:
    """The tables of docs/benchmarks.md by the name of their place, as far as there are results."""
    found: dict[str, str] = {}
    if startup := seen.get("startup"):
        machine = startup["machine"]
        found["machine"] = f"{machine['system']}, {machine['processors']} cores of {machine['processor']}."
        found["versions"] = _versions(startup)
        found["process"] = _sizes(startup, "process")
        found["first"] = _sizes(startup, "first")
        found["later"] = _sizes(startup, "later")
        found["remarks"] = _remarks()
    for name, make in (
        ("calls", _calls),
        ("importing", _importing),
        ("many", _many),
        ("loading", _loading),
        ("vllm", _vllm),
    ):
        if name in seen:
            found[name] = make(seen[name])
    for name, wanted in (("floor", floor.WARM), ("floor-cold", floor.COLD)):
        if name in seen:
            found[name] = _floor(seen[name], wanted)
    if "once" in seen:
        found["once"] = once.markdown(seen["once"][0])
    return found


def readme(seen: dict[str, Any]) -> str:
    """The short table of README.md: what asking for one group costs a whole process, and the first call."""
    startup = seen["startup"]
    real = next((r for r in startup["sizes"] if r["bed"] == beds.REAL), startup["sizes"][-1])
    of = real["candidates"]
    order = sorted((n for n in of if n != INSTALLED), key=lambda n: float(of[n]["process"]["cpu"]["median"]))
    rows = [
        [
            f"**{name}**" if name == OURS else name,
            _times(of[name]["process"]["cpu"]),
            _times(of[name]["first"]),
            _times(of[name]["later"]),
        ]
        for name in order
    ]
    text = _table(["ms, median (min)", "whole process over `pass`, cpu", "first call", "later call"], rows)
    return (
        f"One group asked in an environment of {real['distributions']} distributions, Python {real['python']}, "
        f"{startup['machine']['processors']} shared cores:\n\n{text}\n\n"
        "![start-up cost of discovery by library and by number of distributions](docs/startup.png)\n\n"
        "How it was measured, and everything else that was: [docs/benchmarks.md](docs/benchmarks.md)."
    )
