"""Call somebody right after a module was executed, whenever that will be.  Standard library only.

Most processes of vLLM import neither its layers nor a metrics registry, and shall not do it for our sake.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def when_imported(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call `then` with the module of this name: now if it is imported, else once it has been executed.

    Args:
        name: The full name of the module.
        then: Runs inside the import; what it raises ends that import, so it should not.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        then(module)
        return
    sys.meta_path.insert(0, _Watcher(name, then))


class _Watcher:
    """A finder that finds nothing itself; it has the real loader call us, and leaves spec and loader as they are."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Ask the finders behind this one, and watch the loader that they name."""
        if name != self._name:
            return None
        finders = list(sys.meta_path)
        behind = finders.index(self) + 1 if self in finders else len(finders)
        for finder in finders[behind:]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: Any) -> None:
        if isinstance(loader, type) or not hasattr(loader, "exec_module") or not hasattr(loader, "__dict__"):
            return  # a class that serves all modules: not to be touched
        before, own = loader.exec_module, "exec_module" in vars(loader)

        def exec_module(module: ModuleType) -> None:
            mine = getattr(module, "__name__", "") == self._name
            if mine:
                if vars(loader).get("exec_module") is exec_module:  # as it was, before anybody looks
                    if own:
                        loader.exec_module = before
                    else:
                        del loader.exec_module
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
            before(module)
            if mine:
                self._then(module)

        loader.exec_module = exec_module
