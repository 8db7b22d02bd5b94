"""`get_platform()`: the platform of this process, found when it is first asked for, once, whoever asks.

What is unknown is told to those who waited for it and never kept: the next call looks again.
"""

from __future__ import annotations

import os
import sys

from vplug_rs import _core
from vplug_rs._core import Loaded, Meter
from vplug_rs.errors import LoadTimeoutError
from vplug_rs.groups import PLATFORM
from vplug_rs.loading import process
from vplug_rs.platforms.answers import PlatformAbsentError, PlatformError, PlatformLoadError
from vplug_rs.platforms.model import PRESENT, Resolution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WAIT_LIMIT = 300.0
"""Seconds that a thread waits for another one that is finding the platform."""

_MOST_FRAMES = 60
_asked: list[tuple[str, int, str]] = []


class _Question:
    """What the run-once table knows it by: among the plugins, so that circles of threads through both are seen."""

    group, name, value, label = "vplug_rs.platforms", "the platform of this process", "get_platform", "vplug-rs"
    key = (group, label, name, value)


class _Passing:
    """An outcome that is not to be kept: unknown, or an error."""

    def __init__(self, resolution: Resolution | None, error: Exception | None = None) -> None:
        self.resolution, self.error = resolution, error


def get_platform() -> Resolution:
    """The platform that counts in this process, and why.

    The first call looks; others wait for it and get the same. What an outer process has found counts where it was
    found by the same things (see `handover`). A forked child takes over what its parent knows.

    Raises:
        PlatformError: several platforms are here, `VPLUG_PLATFORM` cannot be followed, or a plugin asks for the
            platform while it is itself asked for it.
        PolicyError: the policy for plugins cannot be read, or what is installed breaks it.
        LoadCycleError, LoadTimeoutError: another thread is finding it and cannot be waited for.
    """
    known = process.known(_QUESTION, process.CALL)
    if known is not None:
        return known.value  # type: ignore[no-any-return]  # a `Resolution`: nothing else is put there
    # whoever asks the plugin, also in a process of its own: it would be asked for what it is asked for
    if any(key[0] == PLATFORM for key, _ in _core.running_here()):
        raise _nested()
    try:
        end: Any = process.once(_QUESTION, process.CALL, WAIT_LIMIT, _find)
    except process.Reentrant:
        raise _nested() from None
    except LoadTimeoutError as error:
        text = f"another thread has been finding the platform for more than {WAIT_LIMIT:g} s"
        raise LoadTimeoutError(text, error.thread, hint="See where that thread stands.") from error
    if isinstance(end, Loaded):
        return end.value  # type: ignore[no-any-return]
    if end.error is not None:
        raise end.error
    return end.resolution  # type: ignore[no-any-return]  # by `_find`


def _nested() -> PlatformError:
    return PlatformError(
        "the platform is asked for while it is being found, further out in this very thread",
        hint="A platform plugin must not ask for the platform when it is imported or called.",
    )


def reset_platform() -> None:
    """Forgets the platform, and what its plugins have said in this process, so that they are asked again. For tests."""
    process.forget(_Question.group)
    process.forget(PLATFORM)
    _asked.clear()


def first_asked() -> str:
    """Where the platform was first asked for, as lines of a traceback; empty if nobody has."""
    return "".join(f'  File "{file}", line {line}, in {name}\n' for file, line, name in _asked)


def load(resolution: Resolution) -> Any:
    """The platform object: its class is imported and called without arguments, as vLLM does.

    Args:
        resolution: One that names a class.

    Raises:
        PlatformAbsentError: it names none.
        PlatformLoadError: the class cannot be imported or called; its cause is what was raised.
    """
    from vplug_rs.platforms import advice

    qualname = resolution.qualname
    if qualname is None:
        raise PlatformAbsentError("no platform can be loaded, for none counts here", hint=advice.hint(resolution))
    what = f"the platform {resolution.platform} (`{qualname}`)"
    module, _, name = qualname.rpartition(".")
    step = "imported"
    try:
        __import__(module)
        kind = getattr(sys.modules[module], name)
        step = "made"
        return kind()
    except (Exception, SystemExit) as error:
        text = f"{what} cannot be {step}: {type(error).__name__}: {error}"
        raise PlatformLoadError(text, qualname=qualname, hint=_load_hint(error, module)) from error


def _load_hint(error: BaseException, module: str) -> str | None:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing:
        return f"Install what provides `{missing}`."
    if isinstance(error, (ImportError, AttributeError)):
        return f"The installed version of `{module.partition('.')[0]}` does not have it: check that it fits the others."
    return None


def _find(_: Any) -> Any:
    """`Loaded` with what is certain, or `_Passing`."""
    from vplug_rs.notices import warn
    from vplug_rs.platforms.resolution import is_certain

    meter = Meter()
    if not _asked:
        _note_stack()
    try:
        found = _handed_over() or _resolved()
    except Exception as error:  # noqa: BLE001  # told to all who wait, and raised there
        return _Passing(None, error)
    for warning in found.warnings:
        warn(warning)
    return meter.loaded(found, None) if is_certain(found) else _Passing(found)


def _resolved() -> Resolution:
    from vplug_rs.platforms.resolution import resolve

    return resolve()


def _handed_over() -> Resolution | None:
    """What an outer process has found, if it counts here. A plugin says it again, for it has work to do here."""
    from vplug_rs.platforms import handover, outside

    found = handover.from_environment(os.environ)
    if found is None or found.probes[0].source == "builtin":
        return found
    key = outside.key_of(found.probes[0])
    asked = outside.ask({key})
    for probe in asked.probes:
        if outside.key_of(probe) == key and probe.status == PRESENT and probe.qualname == found.qualname:
            return Resolution(
                found.rule,
                qualname=probe.qualname,
                platform=probe.platform,
                probes=asked.probes,
                warnings=asked.warnings,
            )
    return None


def _note_stack() -> None:
    frame: Any = sys._getframe(1)
    while frame is not None and len(_asked) < _MOST_FRAMES:
        _asked.insert(0, (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back


_QUESTION: Any = _Question()
