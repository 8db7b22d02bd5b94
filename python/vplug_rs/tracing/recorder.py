"""In a traced process: writes down calls of metadata functions, and the imports and calls of plugins.

One file for each process, one line for each event, written when it ends, so that a process that is killed loses only
what was under way. Nothing is imported that the program would not have had, and what it calls gives what it gave.
"""

import os
import sys
from time import process_time, time

from vplug_rs._strict._hook import Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
_METADATA = ("importlib.metadata", "importlib_metadata", "vplug_rs.metadata")
_ATTEMPT = "vplug_rs.loading.attempt"
_LOADER = "vplug_rs.loader"
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_DETAIL = 200
_HIGH = (1021, 1020, 509, 508, 251, 250)  # below the usual limits of 1024, 512 and 256


class _Recorder:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.path = ""
        self.descriptor = -1
        self.file: tuple[int, int] | None = None
        self.inside: set[int] = set()  # threads that are in a metadata call: what it calls itself is its own affair
        self.begin("started")

    def begin(self, how: str) -> None:
        """Open this process's file."""
        now = time()
        self.path = os.path.join(self.folder, f"{os.getpid()}-{now:.6f}.trace")
        self.descriptor = self.open(os.O_CREAT | os.O_EXCL)
        self.file = _file(self.descriptor)
        # what the interpreter has used so far stands for the time since it was started
        began = now - process_time() if how == "started" else now
        self.write("process", began, how, os.getpid(), os.getppid(), list(sys.orig_argv), sys.version.split()[0])

    def open(self, flags: int = 0) -> int:
        """Open the file to append."""
        flags |= os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        return _out_of_the_way(os.open(self.path, flags, 0o600))

    def write(self, *event: "Any") -> None:
        """Append one event, as Python writes a tuple."""
        if self.file is None:
            return
        try:
            if _file(self.descriptor) != self.file:  # the program closed it, and may have a file of its own there
                self.descriptor = self.open()
                if _file(self.descriptor) != self.file:  # nor is it the path's any more
                    os.close(self.descriptor)
                    self.file = None
                    return
            os.write(self.descriptor, (ascii(event) + "\n").encode("ascii"))
        except OSError:  # the folder is gone or full: the program must not notice
            self.file = None

    def forked(self) -> None:
        """In a child: a file of its own."""
        self.inside.clear()
        try:
            if self.file is not None and _file(self.descriptor) == self.file:
                os.close(self.descriptor)
            self.file = None
            self.begin("forked")
        except OSError:
            self.file = None

    def ended(self) -> None:
        """At the end of the process."""
        self.write("end", time())


def _file(descriptor: int) -> "tuple[int, int] | None":
    """Which file a descriptor stands for; None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _out_of_the_way(descriptor: int) -> int:
    """Move it up: programs count on the lowest free number, above all where 0, 1 or 2 is closed."""
    for number in _HIGH:
        if number > descriptor and _file(number) is None:
            try:
                high = os.dup2(descriptor, number, inheritable=False)
            except OSError:  # more than this process may have
                continue
            os.close(descriptor)
            return high
    return descriptor


_recorder: "_Recorder | None" = None


def start(folder: str) -> None:
    """Trace this process and its forked children into a folder."""
    global _recorder  # noqa: PLW0603  # one a process
    if _recorder is not None:
        return
    _recorder = _Recorder(folder)
    watcher = Watcher(_executed, (*_METADATA, _ATTEMPT, _LOADER))
    sys.meta_path.insert(0, watcher)
    for name in (*_METADATA, _ATTEMPT, _LOADER):
        if name in sys.modules:
            _executed(sys.modules[name], name)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_recorder.forked)
    import atexit

    atexit.register(_recorder.ended)


def _executed(module: "ModuleType", name: str) -> None:
    try:
        _wrap(module, name)
    except Exception:  # noqa: BLE001  # inside somebody's import: never ours to fail
        return


def _wrap(module: "ModuleType", name: str) -> None:
    """Put wrappers around what is worth knowing in a module."""
    space = vars(module)
    if name == _ATTEMPT:
        space["load"] = _plugin(space["load"], "import")
        space["call"] = _plugin(space["call"], "call")
        return
    if name == _LOADER:
        loader = space["PluginLoader"]
        loader._found = _metadata(loader._found, "PluginLoader", "vplug_rs", lambda args, _: repr(args[0].group))
        return
    for function in FUNCTIONS:
        genuine = space.get(function)
        if genuine is not None:
            space[function] = _metadata(genuine, function, name)
    point = space.get("EntryPoint")
    if point is not None and "load" in vars(point):
        point.load = _point(point.load)


def _dressed(wrapper: "Callable[..., Any]", genuine: "Callable[..., Any]") -> "Callable[..., Any]":
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__defaults__"):
        try:
            setattr(wrapper, attribute, getattr(genuine, attribute))
        except (AttributeError, TypeError):
            continue
    wrapper.__wrapped__ = genuine  # type: ignore[attr-defined]  # so that inspect shows the genuine signature
    return wrapper


def _metadata(
    genuine: "Callable[..., Any]",
    function: str,
    module: str,
    words: "Callable[[tuple[Any, ...], dict[str, Any]], str] | None" = None,
) -> "Callable[..., Any]":
    def traced(*args: "Any", **kwargs: "Any") -> "Any":
        recorder = _recorder
        thread = _thread()
        if recorder is None or thread in recorder.inside:
            return genuine(*args, **kwargs)
        recorder.inside.add(thread)
        began, error, lazy = time(), None, False
        try:
            found = genuine(*args, **kwargs)
            lazy = function == "distributions" and hasattr(found, "__next__")
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            recorder.inside.discard(thread)
            if not lazy:
                what = f"{module}.{function}({(words or _words)(args, kwargs)})"
                recorder.write("metadata", began, time(), thread, what, _caller(), error)
        return _counted(found, f"{module}.{function}()", began, _caller()) if lazy else found

    return _dressed(traced, genuine)


def _counted(found: "Iterator[Any]", what: str, began: float, caller: str) -> "Iterator[Any]":
    """A lazy answer costs when it is read: its event spans the reading, the time between the steps left out."""
    spent = time() - began
    try:
        while True:
            step = time()
            try:
                item = next(found)
            except StopIteration:
                return
            finally:
                spent += time() - step
            yield item
    finally:
        if _recorder is not None:
            _recorder.write("metadata", began, began + spent, _thread(), what, caller, None)


def _point(genuine: "Callable[..., Any]") -> "Callable[..., Any]":
    def load(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        began, error = time(), None
        try:
            return genuine(self, *args, **kwargs)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            _loaded("import", began, self, error)

    return _dressed(load, genuine)


def _plugin(genuine: "Callable[..., Any]", kind: str) -> "Callable[..., Any]":
    def traced(plugin: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        began, error = time(), None
        try:
            found = genuine(plugin, *args, **kwargs)
            error = None if found[0] else type(found[1].exception).__name__
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            _loaded(kind, began, plugin, error)
        return found

    return _dressed(traced, genuine)


def _loaded(kind: str, began: float, point: "Any", error: "str | None") -> None:
    """The event of an entry point, or of a plugin, that was loaded; one that failed names its error."""
    if _recorder is not None:
        what = f"{point.group}: {point.name} = {point.value}"
        _recorder.write(kind, began, time(), _thread(), what, _caller(), error)


def _thread() -> int:
    from _thread import get_ident

    return get_ident()


def _words(args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> str:
    """Arguments as text; only plain texts are shown, others by their type."""
    shown = [_word(value) for value in args]
    shown += [f"{key}={_word(value)}" for key, value in kwargs.items()]
    return ", ".join(shown)[:_MOST_DETAIL]


def _word(value: "Any") -> str:
    return repr(value) if type(value) in {str, int, bool, type(None)} else f"<{type(value).__name__}>"


def _caller() -> str:
    """File, line and function of the first frame that is neither ours nor in a metadata module."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        module = str(frame.f_globals.get("__name__", ""))
        if not file.startswith((_OURS, "<frozen importlib")) and not module.startswith(_METADATA):
            return f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""
