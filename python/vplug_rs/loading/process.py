"""What has run in this process, and what becomes of it in a forked child.

The table belongs to the process, not to a loader: two loaders of one group share what they load.
"""

from __future__ import annotations

import os
from _thread import get_ident
from weakref import ref

from vplug_rs import _core
from vplug_rs.errors import LoadCycleError, LoadTimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vplug_rs.loader import PluginLoader
    from vplug_rs.loading.plugin import Failure, Loaded, Plugin

    Key = tuple[str, str, str, str]

OBJECT, CALL = "object", "call"
PATIENCE = 10.0  # seconds of waiting before the one warning

_table = _core.once_table()
# what succeeded, outside the table: a forked child must not touch the lock of its parent's table
_done: dict[Key, Loaded] = {}
_rerun: set[str] = set()  # groups that run again in a forked child
_loaders: list[ref[PluginLoader]] = []


def _after_fork() -> None:
    global _table  # noqa: PLW0603  # the old one's lock may be held by a thread that does not exist here
    _table = _core.once_table()
    for key in [key for key in _done if key[0] in _rerun]:
        _done.pop(key, None)
    for key, loaded in _done.items():
        _table.seed(key, loaded)
    # a plugin that forks is still inside itself; other threads' work ended with them
    for key in _core.running_here():
        _table.claim(key, get_ident())
    for loader in _loaders:
        known = loader()
        if known is not None:
            known._forget_rows()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def register(loader: PluginLoader) -> None:
    """Lets a loader forget its rows in forked children; with `fork="rerun"` its group runs again there."""
    _loaders[:] = [known for known in _loaders if known() is not None]
    _loaders.append(ref(loader))
    if loader.fork == "rerun":
        _rerun.add(loader.group)


class Reentrant(Exception):  # noqa: N818  # a signal to the loader, never seen outside
    """This very thread is in the middle of this step."""


def once(plugin: Plugin, step: str, body: Callable[[], tuple[bool, Loaded | Failure]], limit: float) -> Any:
    """Runs a step unless it has succeeded before; waits if another thread is at it.

    Returns:
        `Loaded` or `Failure`.

    Raises:
        Reentrant: this thread is inside that step.
        LoadCycleError: threads would wait for each other for ever.
        LoadTimeoutError: another thread has been at it for longer than `limit` seconds.
    """
    key: Key = (*plugin.key, step)
    table = _table
    try:
        word, value = table.run(key, get_ident(), body, limit=limit, patience=PATIENCE, notice=_notice)
    except BaseException:
        if table is not _table:  # it forked, this is the child, and it was broken off
            _table.settle(key)
        raise
    if word == "ran-in-child":
        _table.settle(key, value)
        _done[key] = value
    elif word == "failed-in-child":
        _table.settle(key)
    elif word in {"ran", "done"}:
        _done[key] = value  # also for "done": whoever ran it may have been interrupted before it got here
    if word in {"ran", "done", "failed", "told", "ran-in-child", "failed-in-child"}:
        return value
    raise _no_turn(plugin, word, value, limit)


def _no_turn(plugin: Plugin, word: str, value: Any, limit: float) -> Exception:
    """Why a step neither ran nor was waited for."""
    if word == "reentrant":
        return Reentrant()
    if word == "cycle":
        links = [f"thread {thread} waits for `{at[2]}` ({at[0]})" for thread, at in value]
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
    return any(_table.status((*plugin.key, step))[0] == "running" for step in (OBJECT, CALL))


def attempts(plugin: Plugin, step: str) -> int:
    """How many attempts at a step have failed since the last success."""
    word, value = _table.status((*plugin.key, step))
    return int(value) if word == "failed" else 0


def forget(group: str) -> None:
    """Forgets what has run of a group, so that it runs again. For tests."""
    for key in [key for key in list(_done) if key[0] == group]:
        _done.pop(key, None)
    _table.reset(group)


def _notice(key: Key, owner: int | None) -> None:
    from vplug_rs.notices import warn

    warn(f"still waiting for plugin `{key[2]}` in {key[0]}, which thread {owner} is loading{_where(owner)}")


def _where(thread: int | None) -> str:
    """Where a thread stands, as text for a message."""
    import sys
    import traceback

    frame = sys._current_frames().get(thread or 0)
    if frame is None:
        return ""
    return ", now at:\n" + "".join(traceback.format_stack(frame, limit=12)).rstrip()
