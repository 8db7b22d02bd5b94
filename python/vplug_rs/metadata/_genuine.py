"""The interpreter's own `importlib.metadata`, imported when something of it is needed."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAME = "importlib.metadata"
_COPY = "_vplug_importlib_metadata"
_kept: "Any" = None


def genuine() -> "Any":
    """The module, even where `sys.modules` has this package under its name."""
    global _kept  # noqa: PLW0603  # a second copy of its classes would confuse callers
    from importlib import import_module

    # not sys.modules: another thread may still be executing it, and an import waits for that
    module = import_module(_NAME)
    if not _is_ours(module):
        return module
    if _kept is None:
        _kept = _private_copy()
    return _kept


def _is_ours(module: "Any") -> bool:
    return getattr(module, "__name__", "").startswith("vplug_rs")


def _private_copy() -> "Any":
    """The standard's module once more, under a name of our own, so that its relative imports stay within it."""
    import importlib.util
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec(_NAME, importlib.__path__)
    spec = found and importlib.util.spec_from_file_location(_COPY, found.origin)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {_NAME!r}", name=_NAME)
    module = importlib.util.module_from_spec(spec)
    sys.modules[_COPY] = module
    spec.loader.exec_module(module)
    return module


def part(name: str) -> "Any":
    """A private submodule, such as `_adapters`."""
    import importlib

    return importlib.import_module(f"{genuine().__name__}.{name}")
