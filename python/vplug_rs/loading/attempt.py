"""One attempt at one plugin: import, look up, check the kind, call; what comes out is a value or a record.

`Exception` and `SystemExit` become records. Anything else, such as `KeyboardInterrupt`, passes through.
"""

from __future__ import annotations

import sys
from itertools import islice
from time import perf_counter

from vplug_rs.loading.plugin import Failure, Loaded
from vplug_rs.metadata._late import parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vplug_rs.loading.plugin import Plugin

KINDS = ("callable", "class", "module", "any")


def _cuda() -> bool:
    """Whether torch says that CUDA is initialised in this process; asked without touching it."""
    if "torch" not in sys.modules:
        return False
    torch = sys.modules["torch"]
    asked = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    return bool(asked is not None and asked())


def _loaded(value: Any, began: float, modules: int, cuda: bool) -> Loaded:  # noqa: FBT001  # called twice, below
    """What a step gave, and what changed in this process since it began."""
    seconds = perf_counter() - began
    more = len(sys.modules) - modules
    # new ones stand at the end, the newest last
    names = tuple(islice(reversed(sys.modules), more))[::-1] if more > 0 else ()
    return Loaded(value, seconds, names, cuda=_cuda() and not cuda)


def load(plugin: Plugin, kind: str) -> tuple[bool, Loaded | Failure]:
    """Imports the module and looks the object up."""
    modules, cuda, phase, began = len(sys.modules), _cuda(), "resolve", perf_counter()
    try:
        name, attribute, _ = parts(plugin.point)
        phase = "import"
        __import__(name)
        found: Any = sys.modules[name]
        phase = "resolve"
        for part in attribute.split(".") if attribute else ():
            found = getattr(found, part)
        if kind != "callable" or not callable(found):
            _check(found, kind)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
        hint = _hint(plugin, phase, error)
        return False, Failure(plugin, phase, error, perf_counter() - began, hint=hint)
    return True, _loaded(found, began, modules, cuda)


def call(plugin: Plugin, function: Callable[[], Any]) -> tuple[bool, Loaded | Failure]:
    """Calls the object, without arguments."""
    modules, cuda, began = len(sys.modules), _cuda(), perf_counter()
    try:
        result = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
        return False, Failure(plugin, "call", error, perf_counter() - began)
    return True, _loaded(result, began, modules, cuda)


def _check(found: Any, kind: str) -> None:
    """Raises TypeError if an object is not of the wanted kind."""
    module = isinstance(found, type(sys))
    what = f"the module `{found.__name__}`" if module else f"{type(found).__name__}"
    if kind == "callable" and not callable(found):
        raise TypeError(f"{what} is not callable")
    if kind == "class" and not isinstance(found, type):
        raise TypeError(f"{what} is not a class")
    if kind == "module" and not module:
        raise TypeError(f"{what} is not a module")


def _hint(plugin: Plugin, phase: str, error: BaseException) -> str | None:
    module = sys.modules.get(plugin.value.partition(":")[0].strip())
    if phase == "resolve" and module is not None and _is_executing(module):
        return (
            f"`{module.__name__}` is only partly initialised: it is being imported further out (a circular import). "
            "Load plugins after the host's own modules are imported."
        )
    if phase == "resolve" and isinstance(error, TypeError) and ":" not in plugin.value:
        return f"Its author should name an object in the module: `{plugin.value}:function`."
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"Install what provides `{error.name}`, or reinstall the plugin with the extras that it needs."
    return None


def _is_executing(module: Any) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
