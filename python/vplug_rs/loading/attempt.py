"""One attempt at one plugin: import and look up, check the kind, call; what comes out is a value or a record.

`Exception` and `SystemExit` become records. Anything else, such as `KeyboardInterrupt`, passes through.
"""

from __future__ import annotations

import sys
from itertools import islice
from time import perf_counter

from vplug_rs._core import parse_reference
from vplug_rs.loading.plugin import Failure, Loaded
from vplug_rs.metadata._late import parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vplug_rs.loading.plugin import Plugin

KINDS = ("callable", "class", "module", "any")


def _cuda() -> bool:
    """Whether torch says that CUDA is initialised in this process; asked without touching it."""
    if "torch" not in sys.modules:
        return False
    try:
        return bool(sys.modules["torch"].cuda.is_initialized())
    except Exception:  # noqa: BLE001  # a torch that is half imported, or no torch: it has not initialised anything
        return False


def _loaded(plugin: Plugin, value: Any, began: float, modules: int, *, cuda: bool) -> Loaded:
    """What a step gave, and what changed in this process since it began."""
    seconds = perf_counter() - began
    return Loaded(value, seconds, _since(modules), cuda=_cuda() and not cuda, source=plugin.metadata_path)


def _since(number: int) -> tuple[str, ...]:
    """The modules that `sys.modules` has beyond the first so many: new ones stand at the end, the newest last."""
    more = len(sys.modules) - number
    if more <= 0:
        return ()
    try:
        return tuple(islice(reversed(sys.modules), more))[::-1]
    except RuntimeError:  # another thread imports; a copy of all of it is made in one go, but costs more
        return tuple(list(sys.modules)[number:])


def load(plugin: Plugin) -> tuple[bool, Loaded | Failure]:
    """Imports the module and looks the object up."""
    modules, cuda, phase, began = len(sys.modules), _cuda(), "resolve", perf_counter()
    try:
        known = parse_reference(plugin.value)
        # what is no reference raises there, and names beyond ASCII are the interpreter's to read
        name, attribute, _ = known if type(known) is tuple else parts(plugin.point)
        phase = "import"
        __import__(name)
        found: Any = sys.modules[name]
        phase = "resolve"
        for part in attribute.split(".") if attribute else ():
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
        hint = _hint(plugin, phase, error)
        return False, Failure(plugin, phase, error, perf_counter() - began, hint=hint)
    return True, _loaded(plugin, found, began, modules, cuda=cuda)


def call(plugin: Plugin, function: Any) -> tuple[bool, Loaded | Failure]:
    """Calls the object, without arguments."""
    modules, cuda, began = len(sys.modules), _cuda(), perf_counter()
    try:
        result = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
        return False, Failure(plugin, "call", error, perf_counter() - began)
    return True, _loaded(plugin, result, began, modules, cuda=cuda)


def check(plugin: Plugin, found: Any, kind: str) -> Failure | None:
    """The record of an object that is not of the wanted kind, or None."""
    if kind == "any" or (kind == "callable" and callable(found)):
        return None
    module = isinstance(found, type(sys))
    if (kind == "class" and isinstance(found, type)) or (kind == "module" and module):
        return None
    what = f"the module `{found.__name__}`" if module else type(found).__name__
    wanted = "callable" if kind == "callable" else f"a {kind}"
    hint = None
    if module and ":" not in plugin.value:
        hint = f"Its author should name an object in the module: `{plugin.value}:function`."
    return Failure(plugin, "resolve", TypeError(f"{what} is not {wanted}"), 0.0, hint=hint)


def _hint(plugin: Plugin, phase: str, error: BaseException) -> str | None:
    """The next step, where the exception says what is missing; whatever a plugin put in its place, no second error."""
    try:
        module = sys.modules.get(plugin.value.partition(":")[0].strip())
        if phase == "resolve" and module is not None and _is_executing(module):
            return (
                f"`{module.__name__}` is only partly initialised: it is being imported further out (a circular "
                "import). Load plugins after the host's own modules are imported."
            )
        if isinstance(error, ModuleNotFoundError) and error.name:
            return f"Install what provides `{error.name}`, or reinstall the plugin with the extras that it needs."
    except Exception:  # noqa: BLE001  # a module object with ideas of its own
        return None
    return None


def _is_executing(module: Any) -> bool:
    return getattr(getattr(module, "__spec__", None), "_initializing", False) is True
