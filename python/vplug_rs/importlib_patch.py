"""`install()`: make the genuine `importlib.metadata` and `importlib_metadata` fast, in place.

Programs keep the classes, the order and the errors that they have; only the way to the answers changes. Importing this
module and calling `install()` import neither of the two.
"""

import sys
from _thread import RLock

from ._strict._hook import NAMES, Watcher

# No `from __future__ import annotations` here: it costs a module at start-up.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ._strict._graft import Graft


class _Installation:
    """The one watcher of this process, what it has put in, and how many callers want it."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.wanted = 0
        self.grafts: list[Graft] = []
        self.watcher = Watcher(self.executed)
        self.patch: Callable[[ModuleType, str], list[Graft]] | None = None

    def executed(self, module: "ModuleType", name: str) -> None:
        """Patch a module that has just been executed, unless the last caller has undone it meanwhile."""
        try:
            if self.patch is None:  # kept, for tests empty sys.modules
                from ._strict._patch import patch

                self.patch = patch
            with self.lock:
                if self.wanted:
                    self.grafts += self.patch(module, name)
        except Exception as error:  # noqa: BLE001  # inside somebody's import: never ours to fail
            _report_failure(name, error)

    def add(self) -> None:
        """One more caller: watch, and patch what is there."""
        with self.lock:
            self.wanted += 1
            if _SUPPORTED and self.watcher not in sys.meta_path:
                sys.meta_path.insert(0, self.watcher)
            first = _SUPPORTED and self.wanted == 1
        for name in NAMES if first else ():
            module = sys.modules.get(name)
            if module is not None:
                self.present(module, name)

    def present(self, module: "ModuleType", name: str) -> None:
        """Patch a module that is there already; one that waits for its first use is watched."""
        if type(module).__name__ == "_LazyModule":
            self.watcher.watch(object.__getattribute__(module, "__spec__"), name)
        elif type(module) is type(sys):
            if _is_executing(module):  # in another thread: wait for it
                __import__(name)
            if not _is_executing(module):
                self.executed(module, name)

    def remove(self) -> None:
        """One caller less; the last one takes everything back."""
        with self.lock:
            self.wanted -= 1
            if self.wanted:
                return
            for graft in reversed(self.grafts):
                graft.undo()
            self.grafts.clear()
            if self.watcher in sys.meta_path:
                sys.meta_path.remove(self.watcher)

    def renew_lock(self) -> None:
        """In a forked child: the thread that may have held the lock does not exist there."""
        self.lock = RLock()


def _report_failure(name: str, error: Exception) -> None:
    import warnings

    text = f"vplug_rs.install() cannot accelerate {name}, which answers for itself: {type(error).__name__}: {error}"
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:  # under -W error: the import goes on all the same
        return


def _is_executing(module: "ModuleType") -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


# elsewhere the genuine modules answer for themselves
_SUPPORTED = "posix" in sys.builtin_module_names
_installation = _Installation()
_register = getattr(sys.modules.get("posix"), "register_at_fork", None)  # `os` may not have been imported
if _register is not None:
    _register(after_in_child=_installation.renew_lock)


def install() -> "Callable[[], None]":
    """Make `importlib.metadata` and, where present, `importlib_metadata` answer from the core.

    Strict: the genuine classes, order, errors and warnings; anything odd (other finders, a faked file system, damaged
    files, archives) is answered by the genuine code. Modules that are imported later, or again, are included. May be
    called any number of times, from any thread.

    Returns:
        A function that takes this call back; when the last one has been taken back, everything is as before. Calling
        it twice does nothing more.
    """
    _installation.add()
    done = False

    def undo() -> None:
        nonlocal done
        with _installation.lock:
            if done:
                return
            done = True
            _installation.remove()

    return undo
