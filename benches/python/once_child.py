"""One measured process of once.py: a host with one plugin library in one situation; prints what happened as JSON.

    python -c "import once_child; once_child.main()" HOST SITUATION PLUGINS THREADS

The generated plugins report to this module by its name, so it is imported and not run as a script. Nothing here
takes a lock around a library: what protects the plugins is the library alone.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

GROUP = "once.demo"
PROJECT = "once"  # pluggy's name for the host
BODY_SECONDS = 0.001
LIMIT = 5.0  # seconds after which a request counts as hanging
PATIENCE = 60.0  # the same where many threads wait for each other's plugins
FEW = ("a", "b", "c", "d", "e")
ODD = "c"  # which of them fails, or asks again

started: list[str] = []  # the plugins whose bodies began, in order
finished: list[str] = []  # and ended well
_acts: dict[str, Callable[[], None]] = {}

Given = dict[str, object]


class Ran:
    """What a body gives: a new object each time."""

    def __init__(self, name: str) -> None:
        """Args: name: the plugin."""
        self.name = name


def body(name: str) -> Ran:
    """What every plugin does when it is run: leaves its name, takes a moment."""
    started.append(name)
    if name in _acts:
        _acts[name]()
    time.sleep(BODY_SECONDS)
    finished.append(name)
    return Ran(name)


@dataclass(frozen=True)
class Host:
    """A host and how it asks its library.

    Attributes:
        every: loads and runs the group; gives what the caller has in hand then, by plugin.
        one: the same for one plugin; None where the library, used so, knows no such request.
    """

    every: Callable[[], Given]
    one: Callable[[str], object] | None = None


def _ours() -> Host:
    from vplug_rs import PluginLoader

    return Host(
        lambda: {plugin.name: plugin.result for plugin in PluginLoader(GROUP, call=True).load()},
        lambda name: PluginLoader(GROUP, call=True).get(name).result,
    )


def _stevedore_shared() -> Host:
    from stevedore.extension import ExtensionManager

    kept: Any = None

    def manager() -> Any:
        nonlocal kept
        if kept is None:
            kept = ExtensionManager(namespace=GROUP, invoke_on_load=True)
        return kept

    return Host(lambda: {extension.name: extension.obj for extension in manager()})


def _stevedore_own() -> Host:
    from stevedore.driver import DriverManager
    from stevedore.extension import ExtensionManager

    return Host(
        lambda: {e.name: e.obj for e in ExtensionManager(namespace=GROUP, invoke_on_load=True)},
        lambda name: DriverManager(namespace=GROUP, name=name, invoke_on_load=True).driver,
    )


def _pluggy_manager(*, historic: bool) -> Any:
    import pluggy

    class Specification:
        @pluggy.HookspecMarker(PROJECT)(historic=historic)
        def once_start(self) -> Any:
            """Called once the plugin is there."""

    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Specification)
    return manager


def _pluggy_call() -> Host:
    manager = _pluggy_manager(historic=False)

    def every() -> Given:
        manager.load_setuptools_entrypoints(GROUP)
        return {ran.name: ran for ran in manager.hook.once_start()}

    return Host(every)


def _pluggy_historic() -> Host:
    manager = _pluggy_manager(historic=True)
    manager.hook.once_start.call_historic()

    def every() -> Given:
        manager.load_setuptools_entrypoints(GROUP)
        return dict(manager.list_name_plugin())

    def one(name: str) -> object:
        manager.load_setuptools_entrypoints(GROUP, name=name)
        found: object = manager.get_plugin(name)
        return found

    return Host(every, one)


def _plux() -> Host:
    from plux import PluginManager

    manager = PluginManager(GROUP)
    return Host(lambda: {plugin.name: plugin for plugin in manager.load_all()}, manager.load)


def _control() -> Host:
    """No library, and the usual fault: the group is marked as loaded before it is. The test has to see that."""
    from importlib.metadata import entry_points

    loaded: Given = {}
    asked = False

    def every() -> Given:
        nonlocal asked
        if not asked:
            asked = True
            for point in entry_points(group=GROUP):
                loaded[point.name] = point.load()()
        return dict(loaded)

    return Host(every)


CONTROL = "control"
HOSTS = {
    CONTROL: _control,
    "ours": _ours,
    "stevedore-shared": _stevedore_shared,
    "stevedore-own": _stevedore_own,
    "pluggy-call": _pluggy_call,
    "pluggy-historic": _pluggy_historic,
    "plux": _plux,
}


@dataclass(frozen=True)
class Answer:
    """How one request ended.

    Attributes:
        error: the type of what it raised, in brackets that of its first cause where it names one; or "".
        given: what it returned.
        complete: how many plugins had run to their end, in any thread, when it returned.
        began, ended: when.
    """

    error: str
    given: Given
    complete: int
    began: float
    ended: float


def _named(error: BaseException) -> str:
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    name = type(error).__name__
    return name if first is error else f"{name} ({type(first).__name__})"


def _ask(requests: list[Callable[[], Given]], limit: float) -> list[Answer | None]:
    """Makes the requests at the same moment, each in a thread; None for one that has not ended within the limit."""
    answers: list[Answer | None] = [None] * len(requests)
    barrier = threading.Barrier(len(requests))

    def work(number: int) -> None:
        barrier.wait()
        error, given, began = "", Given(), time.monotonic()
        try:
            given = requests[number]()
        except BaseException as raised:
            error = _named(raised)
        answers[number] = Answer(error, given, len(set(finished)), began, time.monotonic())

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(requests))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + limit
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    return list(answers)


def _ends(answers: list[Answer | None]) -> dict[str, int]:
    return dict(Counter("hung" if answer is None else answer.error or "returned" for answer in answers))


def threads(host: Host, plugins: int, count: int) -> dict[str, Any]:
    """`count` threads ask for the whole group at once."""
    answers = _ask([host.every] * count, PATIENCE)
    runs = Counter(started)
    ended = [answer for answer in answers if answer is not None]
    back = [answer for answer in ended if not answer.error]
    names = {name for answer in back for name in answer.given} | set(runs)
    first = min((answer.ended for answer in ended), default=0.0)
    return {
        "ran": len(runs),
        "twice": sum(times > 1 for times in runs.values()),
        "most": max(runs.values(), default=0),
        "returned": len(back),
        "early": sum(answer.complete < plugins for answer in back),
        "short": sum(len(answer.given) < plugins for answer in back),
        "ends": _ends(answers),
        "differing": sum(len({id(a.given[name]) for a in back if name in a.given}) > 1 for name in names),
        "overlap": sum(answer.began < first for answer in ended),
    }


def failure(host: Host) -> dict[str, Any]:
    """One plugin fails when it is run for the first time; the group is asked for three times, one after the other."""

    def fail() -> None:
        if started.count(ODD) == 1:
            raise OSError("not yet")

    _acts[ODD] = fail
    requests = []
    for _ in range(3):
        (answer,) = _ask([host.every], LIMIT)
        requests.append(
            {
                "ends": _ends([answer]),
                "given": sorted(answer.given) if answer else [],
                "runs": {name: started.count(name) for name in FEW},
            }
        )
    return {"requests": requests}


def reentry(host: Host) -> dict[str, Any]:
    """One plugin asks for the whole group while it is run, and again whenever it is run."""
    inner: list[list[str]] = []
    _acts[ODD] = lambda: inner.append(sorted(host.every()))
    (answer,) = _ask([host.every], LIMIT)
    return {
        "ends": _ends([answer]),
        "given": sorted(answer.given) if answer else [],
        "inner": inner[-1] if inner else None,
        "runs": {name: started.count(name) for name in FEW},
    }


def cycle(host: Host) -> dict[str, Any] | None:
    """Three threads: each runs one of three plugins, each of which asks for the next one once all three are running."""
    one = host.one
    if one is None:
        return None
    barrier, here = threading.Barrier(3), threading.local()

    def ask(name: str) -> Given:
        return {name: one(name)}

    def act(other: str) -> None:
        if not hasattr(here, "waited"):
            here.waited = barrier.wait(LIMIT)
        ask(other)

    names = FEW[:3]
    _acts.update((name, partial(act, other)) for name, other in zip(names, names[1:] + names[:1], strict=True))
    answers = _ask([partial(ask, name) for name in names], LIMIT)
    seconds = max((answer.ended - answer.began for answer in answers if answer), default=None)
    return {"ends": _ends(answers), "seconds": seconds, "runs": {name: started.count(name) for name in names}}


def main() -> None:
    """Run one situation; leave without waiting for threads that hang."""
    name, situation, plugins, count = sys.argv[1:]
    host = HOSTS[name]()
    if situation == "threads":
        found: dict[str, Any] | None = threads(host, int(plugins), int(count))
    else:
        found = {"failure": failure, "reentry": reentry, "cycle": cycle}[situation](host)
    print(json.dumps(found), flush=True)
    os._exit(0)
