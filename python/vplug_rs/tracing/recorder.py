"""In a traced process: writes down calls of metadata functions, and the imports and calls of plugins.

One file for each process, one line for each event, written when it ends, so that a process that is killed loses only
what was under way. Nothing is imported that the program would not have had, and what it calls gives what it gave.
"""

import os
import sys
from _thread import get_ident
from time import time

from vplug_rs._strict._hook import Watcher
from vplug_rs.tracing.calls import MODULES, caller, dressed, watched, words
from vplug_rs.tracing.journal import Journal
from vplug_rs.tracing.runs import Runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

FUNCTIONS = (
    "distribution",
    "distributions",
    "entry_points",
    "files",
    "metadata",
    "packages_distributions",
    "requires",
    "version",
)
LAZY = ("distributions", "discover")
OF_DISTRIBUTIONS = (
    "discover",
    "entry_points",
    "files",
    "from_name",
    "metadata",
    "name",
    "origin",
    "read_text",
    "requires",
    "version",
)
_OWN_DISTRIBUTION = "vplug_rs.metadata._distribution"
_ATTEMPT = "vplug_rs.loading.attempt"
_LOADER = "vplug_rs.loader"
_WATCHED = (*MODULES, _OWN_DISTRIBUTION, _ATTEMPT, _LOADER)


class Recorder:
    """What this process writes down.

    Args:
        folder: Where its file is to be.
    """

    def __init__(self, folder: str) -> None:
        self.journal = Journal(folder)
        self.runs = Runs(self.journal.write)
        self.inside: set[int] = set()  # threads that are in a metadata call
        self._modules = len(sys.modules)

    def fresh(self) -> int:
        """How many modules were imported since the last event: a process that imports is not waiting."""
        return len(sys.modules) - self._modules

    def asked(self, event: "tuple[Any, ...]", *, summed: bool) -> None:
        """Write down a metadata call, or add it to those of its line."""
        if summed:
            self.runs.add(*event)
        else:
            self.journal.write("metadata", *event)
        self._modules = len(sys.modules)

    def loaded(self, kind: str, began: "tuple[float, int]", what: str, error: "str | None") -> None:
        """Write down a plugin's import or call."""
        (start, fresh), thread = began, get_ident()
        self.runs.close(thread)
        self.journal.write(kind, start, time(), thread, what, caller(), error, fresh)
        self._modules = len(sys.modules)

    def forked(self) -> None:
        """In a child: a file of its own."""
        self.inside.clear()
        self.runs.forget()
        self.journal.forked()

    def ended(self) -> None:
        """At the end of the process."""
        self.runs.close_all()
        self.journal.write("end", time())


_recorder: "Recorder | None" = None


class _Watcher(Watcher):
    """Also knows since when a module is being imported: that of `importlib.metadata` costs more than many a call."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(self.executed, _WATCHED)
        self.recorder = recorder
        self.began: dict[str, tuple[float, int]] = {}

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """As the watcher does, from now on."""
        if name in MODULES:
            self.began[name] = time(), self.recorder.fresh()
        return super().find_spec(name, path, target)

    def executed(self, module: "ModuleType", name: str) -> None:
        """Write down the import, and wrap what is in the module."""
        thread = get_ident()
        began = self.began.pop(name, None)
        # a lazy module was found long before it is executed
        if began is not None and thread not in self.recorder.inside and type(module) is type(sys):
            (start, fresh), end = began, time()
            event = (start, end, thread, f"import {name}", caller(), None, fresh, end - start)
            self.recorder.asked(event, summed=False)
        _executed(self.recorder, module, name)


def start(folder: str) -> None:
    """Trace this process and its forked children into a folder."""
    global _recorder  # noqa: PLW0603  # one a process
    if _recorder is not None:
        return
    _recorder = Recorder(folder)
    sys.meta_path.insert(0, _Watcher(_recorder))
    for name in _WATCHED:
        if name in sys.modules:
            _executed(_recorder, sys.modules[name], name)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_recorder.forked)
    import atexit

    atexit.register(_recorder.ended)


def _executed(recorder: Recorder, module: "ModuleType", name: str) -> None:
    try:
        _wrap(recorder, vars(module), name)
    except Exception:  # noqa: BLE001  # inside somebody's import: never ours to fail
        return


def _wrap(recorder: Recorder, space: "dict[str, Any]", name: str) -> None:
    """Put wrappers around what is worth knowing in a module."""
    if name == _ATTEMPT:
        space["load"] = _plugin(space["load"], "import")
        space["call"] = _plugin(space["call"], "call")
        return
    if name == _LOADER:
        loader = space["PluginLoader"]
        loader._found = watched(recorder, loader._found, lambda args, _: f"vplug_rs.PluginLoader({args[0].group!r})")
        return
    if name != _OWN_DISTRIBUTION:  # it is full of helpers
        for function in FUNCTIONS:
            genuine = space.get(function)
            if genuine is not None:
                told = _told(f"{name}.{function}", 0)
                space[function] = watched(recorder, genuine, told, lazy=function in LAZY)
    for holder in ("Distribution", "PathDistribution"):
        kind = space.get(holder)
        for attribute in OF_DISTRIBUTIONS if kind is not None else ():
            _wrap_attribute(recorder, kind, attribute, name.removesuffix("._distribution"))
    point = space.get("EntryPoint")
    if point is not None and "load" in vars(point):
        point.load = _point(point.load)


def _wrap_attribute(recorder: Recorder, kind: "Any", attribute: str, module: str) -> None:
    """A property stays one, and a class method stays one; what a subclass overrides is its own."""
    found = vars(kind).get(attribute)
    name, lazy = f"{module}.Distribution.{attribute}", attribute in LAZY
    if type(found) is property and found.fget is not None:
        read = watched(recorder, found.fget, lambda _args, _kwargs: name, summed=True)
        made: Any = property(read, found.fset, found.fdel)
        made.__set_name__(kind, attribute)  # so that its errors name it
        setattr(kind, attribute, made)
    elif type(found) is classmethod:
        setattr(kind, attribute, classmethod(watched(recorder, found.__func__, _told(name, 1), lazy=lazy, summed=True)))
    elif type(found) is type(_wrap) and not hasattr(found, "__isabstractmethod__"):
        setattr(kind, attribute, watched(recorder, found, _told(name, 1), summed=True))


def _told(name: str, left_out: int) -> "Callable[[tuple[Any, ...], dict[str, Any]], str]":
    return lambda args, kwargs: f"{name}({words(args[left_out:], kwargs)})"


def _point(genuine: "Callable[..., Any]") -> "Callable[..., Any]":
    def load(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        began, error = _begin(), None
        try:
            return genuine(self, *args, **kwargs)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            _loaded("import", began, self, error)

    return dressed(load, genuine)


def _plugin(genuine: "Callable[..., Any]", kind: str) -> "Callable[..., Any]":
    def traced(plugin: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        began, error = _begin(), None
        try:
            found = genuine(plugin, *args, **kwargs)
            failure = getattr(found, "exception", None)
            error = None if failure is None else type(failure).__name__
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            _loaded(kind, began, plugin, error)
        return found

    return dressed(traced, genuine)


def _begin() -> "tuple[float, int]":
    """When a plugin's turn begins, and what was imported before it; the reads in it are not those of its host."""
    if _recorder is None:
        return time(), 0
    _recorder.runs.close(get_ident())
    return time(), _recorder.fresh()


def _loaded(kind: str, began: "tuple[float, int]", point: "Any", error: "str | None") -> None:
    """The event of an entry point, or of a plugin, that was loaded; one that failed names its error."""
    if _recorder is not None:
        _recorder.loaded(kind, began, f"{point.group}: {point.name} = {point.value}", error)
