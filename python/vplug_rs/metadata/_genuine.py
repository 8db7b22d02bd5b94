"""The interpreter's own `importlib.metadata`, imported when something of it is needed."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAME = "importlib.metadata"
_kept: "Any" = None


def genuine() -> "Any":
    """The module, even where `sys.modules` has this package under its name."""
    global _kept  # noqa: PLW0603  # a second copy of its classes would confuse callers
    module = sys.modules.get(_NAME)
    if module is not None and not _is_ours(module):
        return module
    if module is None:
        import importlib.metadata

        return importlib.metadata
    if _kept is None:
        _kept = _private_copy()
    return _kept


def _is_ours(module: "Any") -> bool:
    return getattr(module, "__name__", "").startswith("vplug_rs")


def _private_copy() -> "Any":
    import importlib.util
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(_NAME, importlib.__path__)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {_NAME!r}", name=_NAME)
    module = importlib.util.module_from_spec(spec)
    ours = sys.modules[_NAME]
    # its own relative imports go through this entry
    sys.modules[_NAME] = module
    try:
        spec.loader.exec_module(module)
        importlib.import_module(f"{_NAME}._adapters")
    finally:
        sys.modules[_NAME] = ours
    return module
