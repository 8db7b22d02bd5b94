"""Watch for the genuine modules and patch each right after its own loader has executed it.

The watcher stands first on `sys.meta_path`, answers for a few names only, has no `find_distributions`, and leaves the
spec and the loader as the real finder made them. What it lets in is decided in `_patch`, which is imported then: a
program that never asks for metadata pays for this file alone.
"""

import sys

# No `from __future__ import annotations` here: it costs a module at start-up.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

NAMES = ("importlib.metadata", "importlib_metadata")


class Watcher:
    """A finder that finds nothing itself.

    Args:
        executed: Called with a module and its name, after the module was executed.
        names: The modules to watch for.
    """

    def __init__(self, executed: "Callable[[ModuleType, str], None]", names: "tuple[str, ...]" = NAMES) -> None:
        self._executed = executed
        self._names = names

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Ask the finders behind this one, and watch the loader that they name."""
        if name not in self._names:
            return None
        finders = list(sys.meta_path)
        behind = finders.index(self) + 1 if self in finders else len(finders)
        for finder in finders[behind:]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                self.watch(spec, name)
                return spec
        return None

    def watch(self, spec: "ModuleSpec", name: str) -> None:
        """Have `executed` called once this spec's module has been executed; the loader object stays what it is."""
        loader: Any = spec.loader
        if isinstance(loader, type) or not hasattr(loader, "exec_module") or not hasattr(loader, "__dict__"):
            return  # a class that serves all modules (frozen ones), or an old protocol: leave it alone
        execution = vars(loader).get("exec_module")
        if type(execution) is not _Execution:
            execution = loader.exec_module = _Execution(loader)
        callbacks = execution.due.setdefault(name, [])
        if self._executed not in callbacks:
            callbacks.append(self._executed)


class _Execution:
    """Stands in for a loader's `exec_module` until the watched modules are executed; several watchers may share it.

    Args:
        loader: The loader, which may serve other modules too (that of an archive does).
    """

    __slots__ = ("_before", "_loader", "_own", "due")

    def __init__(self, loader: "Any") -> None:
        self.due: dict[str, list[Callable[[ModuleType, str], None]]] = {}
        self._loader = loader
        self._own = "exec_module" in vars(loader)
        self._before = loader.exec_module

    def __call__(self, module: "ModuleType") -> None:
        name = getattr(module, "__name__", "")
        callbacks = self.due.pop(name, ())
        if not self.due and vars(self._loader).get("exec_module") is self:
            if self._own:  # somebody else's, set before us
                self._loader.exec_module = self._before
            else:
                del self._loader.exec_module
        self._before(module)
        for executed in callbacks:
            executed(module, name)
