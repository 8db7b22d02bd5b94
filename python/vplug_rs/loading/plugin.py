"""One plugin of a group, in any state, and the record of a failure."""

from __future__ import annotations

import os

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vplug_rs._core import Loaded, Meter

# every state that a row can have
FOUND = "found"  # allowed, not tried yet
FILTERED = "filtered"  # a policy keeps it out
LOADING = "loading"  # being loaded by a call further out, or by another thread
LOADED = "loaded"
FAILED = "failed"

_MOST_TEXT = 2000


class Failure:
    """Why a plugin is not there: a record, no exception.

    Attributes:
        group, name, value: The entry point.
        distribution, version: Whose it is; None where its metadata does not say.
        metadata_path: The metadata folder, or None.
        phase: "import", "resolve", "call" or "wait".
        exception: What was raised, without its traceback, which would keep the host's frames alive.
        traceback: The traceback as text, from the plugin's own first frame on; empty where it has none.
        hint: The next step, or None.
        seconds: How long the attempt took.
        modules: Names of the modules that `sys.modules` gained meanwhile (other threads' too).
        cuda: Whether torch's CUDA state became initialised meanwhile.
        process, thread: Where it was made.
    """

    __slots__ = (
        "cuda",
        "distribution",
        "exception",
        "group",
        "hint",
        "metadata_path",
        "modules",
        "name",
        "phase",
        "process",
        "seconds",
        "thread",
        "traceback",
        "value",
        "version",
    )

    def __init__(
        self,
        plugin: Plugin,
        phase: str,
        exception: BaseException,
        meter: Meter | None = None,
        *,
        hint: str | None = None,
    ) -> None:
        from _thread import get_ident

        from vplug_rs.loading import tracebacks

        self.group, self.name, self.value = plugin.group, plugin.name, plugin.value
        self.distribution, self.version = plugin.project, plugin.version
        self.metadata_path = plugin.metadata_path
        self.phase = phase
        self.exception = exception
        self.traceback = tracebacks.own(exception)
        self.hint = hint
        self.seconds, modules, self.cuda = (0.0, [], False) if meter is None else meter.read()
        self.modules = tuple(modules)
        self.process, self.thread = os.getpid(), get_ident()
        tracebacks.strip(exception)

    @property
    def cause(self) -> str:
        """The exception in one line."""
        kind = type(self.exception).__name__
        try:
            text = " ".join(str(self.exception)[:_MOST_TEXT].split())
        except (Exception, SystemExit):  # noqa: BLE001  # a plugin's own class; its name says enough
            return f"{kind} (its text cannot be shown)"
        return f"{kind}: {text}" if text else kind

    def __str__(self) -> str:
        whose = " ".join(filter(None, (self.distribution, self.version))) or "an unnamed distribution"
        return f"plugin `{self.name}` of {whose} failed at {self.phase} (`{self.value}` in {self.group}): {self.cause}"

    @property
    def told(self) -> str:
        """All of it in one sentence, with the next step if there is one."""
        return f"{self} ({self.hint})" if self.hint else str(self)

    def __repr__(self) -> str:
        return f"<Failure {self}>"

    def __reduce__(self) -> Any:
        # the exception may be of a class that only this process has
        state = {name: getattr(self, name) for name in self.__slots__ if name != "exception"}
        return _failure, (state, self.cause)


def _failure(state: dict[str, Any], cause: str) -> Failure:
    """A record that came from another process; its exception is there as text."""
    made = object.__new__(Failure)
    for name, value in state.items():
        setattr(made, name, value)
    made.exception = RuntimeError(cause)
    return made


class Plugin:
    """One entry point of a group.

    Attributes:
        group, name, value: The entry point.
        metadata_path: The metadata folder as it is installed now, or None.
        state: "found", "filtered", "loading", "loaded" or "failed".
        rule: The rule of the policy that decided, in one sentence.
        reason: That rule's kind: "open", "listed", "denied" and so on.
        object: What the value names, once it is loaded.
        result: What calling the object gave, where the loader calls.
        seconds: How long import, look-up and call took together.
        failure: The record of the last failure, or None.
        label: The project's name in comparable form.
        key: What it counts as in this process: group, project, name, value.
    """

    __slots__ = (
        "_point",
        "called",
        "failure",
        "found",
        "group",
        "key",
        "label",
        "metadata_path",
        "name",
        "object",
        "reason",
        "result",
        "rule",
        "seconds",
        "state",
        "value",
    )

    _point: Any
    object: Any
    result: Any
    failure: Failure | None
    found: Loaded | None
    called: Loaded | None

    def __init__(self, group: str, name: str, value: str, metadata_path: str | None, project: str) -> None:
        self.group, self.name, self.value = group, name, value
        self.metadata_path = metadata_path
        self.label = project
        self.key = (group, project, name, value)
        self.state = FOUND
        self.rule = self.reason = ""
        self.seconds = 0.0
        self._point = self.object = self.result = self.failure = self.found = self.called = None

    @classmethod
    def of(cls, point: Any, group: str | None = None) -> Plugin:
        """The row of an entry point from somewhere else: an archive, a foreign finder, the standard's own listing.

        Args:
            point: The entry point, or what somebody has put in its place.
            group: Its group, where it cannot say so itself.
        """
        known = getattr(point, "__dict__", {}).get("_owner")
        owner = getattr(point, "dist", None)
        path = known[0] if known else getattr(owner, "_info", None) or _folder(getattr(owner, "_path", None))
        plugin = cls(group or point.group, point.name, point.value, path, "")
        plugin._point = point
        project = _label(path) or plugin.project or ""
        try:
            project = _core.normalize(project)
        except UnicodeEncodeError:  # a name from a file name that is not UTF-8
            project = ascii(project)
        plugin.label, plugin.key = project, (plugin.group, project, plugin.name, plugin.value)
        return plugin

    @property
    def point(self) -> Any:
        """The entry point itself, as `entry_points()` gives it."""
        if self._point is None:
            from vplug_rs.metadata import EntryPoint

            self._point = EntryPoint(self.name, self.value, self.group)
            vars(self._point).update(_owner=[self.metadata_path, None])
        return self._point

    @property
    def distribution(self) -> Any:
        """The distribution that offers it, as `entry_points()` gives it; None if it has none."""
        return self.point.dist

    @property
    def project(self) -> str | None:
        """The distribution's name, as its metadata spells it, or else its folder's name."""
        return self._header("Name") or _stem(self.metadata_path).partition("-")[0] or None

    @property
    def version(self) -> str | None:
        """The distribution's version: the one that was loaded, else the one that is installed."""
        if self.found is not None and self.found.source != self.metadata_path:
            return _version(self.found.source)
        return self._header("Version") or _version(self.metadata_path)

    def _header(self, field: str) -> str | None:
        try:
            if self.metadata_path is not None:
                found: Any = _core.SCANNER.header_of(self.metadata_path, field, False)
            else:
                found = getattr(self.point.dist, field.lower(), None)
        except Exception:  # noqa: BLE001  # somebody else's class; the row goes without
            return None
        return found if isinstance(found, str) else None

    @property
    def processes(self) -> tuple[int, ...]:
        """The process that loaded it, and this one where it took the result over by a fork."""
        if self.found is None:
            return ()
        return tuple(dict.fromkeys((self.found.process, os.getpid())))

    def __repr__(self) -> str:
        return f"<Plugin {self.name!r} of {self.label}, {self.state}>"


def _folder(path: Any) -> str | None:
    """The path of the interpreter's own distribution, where it is a folder; in an archive it is none."""
    return os.fspath(path) if isinstance(path, os.PathLike) else None


def _stem(metadata_path: str | None) -> str:
    if metadata_path is None:
        return ""
    # a file name that is not UTF-8 comes with surrogates
    name = metadata_path.rpartition(os.sep)[2]
    name = name if name.isascii() else name.encode("utf-8", "backslashreplace").decode("utf-8")
    stem, _, suffix = name.rpartition(".")
    return stem if suffix in {"dist-info", "egg-info"} else ""


def _label(metadata_path: str | None) -> str | None:
    """The project as the folder's name has it; None where that is not certain (`EGG-INFO`, several dashes)."""
    name, _, version = _stem(metadata_path).partition("-")
    return None if "-" in version else name or None


def _version(metadata_path: str | None) -> str | None:
    return _stem(metadata_path).partition("-")[2] or None
