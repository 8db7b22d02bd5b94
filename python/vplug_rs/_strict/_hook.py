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
        due = getattr(vars(loader).get("exec_module"), "vplug_rs_due", None)
        if due is None:
            due = _stand_in(loader)
        callbacks = due.setdefault(name, [])
        if self._executed not in callbacks:
            callbacks.append(self._executed)


def _stand_in(loader: "Any") -> "dict[str, list[Callable[[ModuleType, str], None]]]":
    """Set an `exec_module` on a loader, which may serve other modules too (that of an archive does).

    Returns:
        Whom to call for which module; several watchers may add to it. When nobody is left, all is as before.
    """
    due: dict[str, list[Callable[[ModuleType, str], None]]] = {}
    own = "exec_module" in vars(loader)  # somebody else's
    before = loader.exec_module

    def exec_module(module: "ModuleType") -> None:
        name = getattr(module, "__name__", "")
        callbacks = due.pop(name, ())
        if not due and vars(loader).get("exec_module") is exec_module:
            if own:
                loader.exec_module = before
            else:
                del loader.exec_module
        before(module)
        for executed in callbacks:
            executed(module, name)

    vars(exec_module)["vplug_rs_due"] = due
    loader.exec_module = exec_module
    return due
