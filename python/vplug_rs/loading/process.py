"""What has run in this process, and what becomes of it in a forked child.

The table belongs to the process, not to a loader: two loaders of one group share what they load.
"""

from __future__ import annotations

import os
from _thread import get_ident
from time import monotonic
from weakref import ref

from vplug_rs import _core
from vplug_rs._core import Loaded, Ticket, Waiter
from vplug_rs.errors import LoadCycleError, LoadTimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vplug_rs.loader import PluginLoader
    from vplug_rs.loading.plugin import Failure, Plugin

    Key = tuple[str, str, str, str]  # group, distribution, name, value

OBJECT, CALL = "object", "call"
PATIENCE = 10.0  # seconds of waiting before the one warning

_table = _core.once_table()
# what succeeded, by step, outside the table: a forked child must not touch the lock of its parent's table
_done: dict[str, dict[Key, Loaded]] = {OBJECT: {}, CALL: {}}
_rerun: set[str] = set()  # groups that run again in a forked child
_loaders: list[ref[PluginLoader]] = []


def _after_fork() -> None:
    global _table  # noqa: PLW0603  # the old one's lock may be held by a thread that does not exist here
    _core.forked()
    _table = _core.once_table()
    for step, done in _done.items():
        for key in [key for key in done if key[0] in _rerun]:
            done.pop(key, None)
        for key, loaded in done.items():
            _table.seed(key, step, loaded)
    # a plugin that forks is still inside itself; other threads' work ended with them
    for key, step in _core.running_here():
        _table.claim(key, step, get_ident())
    for loader in _living():
        loader._forget_rows()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def register(loader: PluginLoader) -> None:
    """Lets a loader forget its rows in forked children; with `fork="rerun"` its group runs again there."""
    _loaders[:] = [*map(ref, _living()), ref(loader)]
    if loader.fork == "rerun":
        _rerun.add(loader.group)


def _living() -> list[PluginLoader]:
    return [loader for known in list(_loaders) if (loader := known()) is not None]


class Reentrant(Exception):  # noqa: N818  # a signal to the loader, never seen outside
    """This very thread is in the middle of this step."""


def once(plugin: Plugin, step: str, limit: float, body: Callable[..., Loaded | Failure], *arguments: Any) -> Any:
    """Runs a step, `body(plugin, *arguments)`, unless it has succeeded before; waits if another thread is at it.

    Returns:
        `Loaded` or `Failure`.

    Raises:
        Reentrant: this thread is inside that step.
        LoadCycleError: threads would wait for each other for ever.
        LoadTimeoutError: another thread has been at it for longer than `limit` seconds.
    """
    key, table, turn, deadline = plugin.key, _table, None, 0.0
    try:
        # no plugin's code runs below a frame of the core: see there
        while type(turn := table.enter(key, step, get_ident())) is Waiter:
            deadline = deadline or monotonic() + limit
            end = _wait(plugin, turn, deadline, limit)
            if end is not None:
                return end
        if type(turn) is not Ticket:
            return _settled(plugin, step, turn, limit)
        end = body(plugin, *arguments)
        ours = turn.finish(end)
    except BaseException:
        if type(turn) is Ticket and not turn.release() and table is not _table:
            _table.settle(key, step)  # the body forked, this is the child, and it was broken off
        raise
    if not ours:  # as well
        _table.settle(key, step, end if type(end) is Loaded else None)
    if type(end) is Loaded:
        _done[step][key] = end
    return end


def _settled(plugin: Plugin, step: str, turn: Any, limit: float) -> Loaded:
    """What a step gave that ran before."""
    if type(turn) is Loaded:
        _done[step][plugin.key] = turn  # whoever ran it may have been interrupted before it got here
        return turn
    word, value = turn
    raise _no_turn(plugin, word, value, limit)


def _wait(plugin: Plugin, waiter: Waiter, deadline: float, limit: float) -> Any:
    """How the attempt of another thread ended; None if it was given back."""
    try:
        patient = monotonic() + PATIENCE
        end = waiter.wait(min(deadline, patient) - monotonic())
        if type(end) is tuple and end[0] == "timeout" and patient < deadline:
            _notice(plugin, end[1])
            end = waiter.wait(deadline - monotonic())
    finally:
        waiter.leave()
    if type(end) is not tuple:
        return end
    word, value = end
    if word == "released":
        return None
    raise _no_turn(plugin, word, value, limit)


def _no_turn(plugin: Plugin, word: str, value: Any, limit: float) -> Exception:
    """Why a step neither ran nor was waited for."""
    if word == "reentrant":
        return Reentrant()
    if word == "cycle":
        links = [f"thread {thread} waits for `{at[2]} = {at[3]}` ({at[0]})" for thread, at in value]
        return LoadCycleError(
            f"plugins wait for each other: {'; '.join(links)}",
            value,
            hint="Load them in one thread, or let none of them load others while it is imported or called.",
        )
    if word == "timeout":
        return LoadTimeoutError(
            f"plugin `{plugin.name}` has been loading in thread {value} for more than {limit:g} s{_where(value)}",
            value,
            hint="See where that thread stands; `wait_limit` says how long others wait for it.",
        )
    return LoadTimeoutError(f"the thread that was loading plugin `{plugin.name}` ended without a word", None)


def is_running(plugin: Plugin) -> bool:
    """Whether some thread is importing or calling it now."""
    return any(_table.status(plugin.key, step)[0] == "running" for step in (OBJECT, CALL))


def attempts(plugin: Plugin, step: str) -> int:
    """How many attempts at a step have failed since the last success."""
    word, value = _table.status(plugin.key, step)
    return int(value) if word == "failed" else 0


def retract(plugin: Plugin, step: str, end: Loaded, failure: Failure) -> None:
    """Counts a success as a failed attempt: what it gave will not do, and the next to ask tries again."""
    if _done[step].get(plugin.key) is end:
        del _done[step][plugin.key]
    _table.retract(plugin.key, step, end, failure)


def known(plugin: Plugin, step: str) -> Loaded | None:
    """What a step of it gave in this process, if it has run."""
    return _done[step].get(plugin.key)


def forget(group: str) -> None:
    """Forgets what has run of a group, so that it runs again. For tests."""
    for done in _done.values():
        for key in [key for key in list(done) if key[0] == group]:
            done.pop(key, None)
    _table.reset(group)
    for loader in _living():
        if loader.group == group:
            loader._forget_rows()


def _notice(plugin: Plugin, owner: int | None) -> None:
    from vplug_rs.notices import warn

    at = _where(owner)
    warn(f"still waiting for plugin `{plugin.name}` in {plugin.group}, which thread {owner} is loading{at}")


def _where(thread: int | None) -> str:
    """Where a thread stands, as text for a message."""
    import sys
    import traceback

    frame = sys._current_frames().get(thread or 0)
    if frame is None:
        return ""
    return ", now at:\n" + "".join(traceback.format_stack(frame, limit=12)).rstrip()
