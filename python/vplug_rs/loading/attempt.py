"""One attempt at one plugin: import and look up, check the kind, call; what comes out is `Loaded` or a record.

`Exception` and `SystemExit` become records. Anything else, such as `KeyboardInterrupt`, passes through.
"""

from __future__ import annotations

import sys
from types import ModuleType

from vplug_rs._core import Meter, parse_reference
from vplug_rs.loading.plugin import Failure
from vplug_rs.metadata._late import parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vplug_rs._core import Loaded
    from vplug_rs.loading.plugin import Plugin

KINDS = ("callable", "class", "module", "any")


def load(plugin: Plugin) -> Loaded | Failure:
    """Imports the module and looks the object up."""
    meter, phase = Meter(), "resolve"
    try:
        known = parse_reference(plugin.value)
        # what is no reference raises there, and names beyond ASCII are the interpreter's to read
        name, attribute, _ = known if type(known) is tuple else parts(plugin.point)
        phase = "import"
        __import__(name)
        found: Any = sys.modules[name]
        phase = "resolve"
        if attribute is not None:
            for part in attribute.split("."):
                found = getattr(found, part) if part else found
    except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
        return Failure(plugin, phase, error, meter, hint=_hint(plugin, phase, error))
    return meter.loaded(found, plugin.metadata_path)


def call(plugin: Plugin, function: Any) -> Loaded | Failure:
    """Calls the object, without arguments."""
    meter = Meter()
    try:
        result = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
        return Failure(plugin, "call", error, meter, hint=_hint(plugin, "call", error))
    return meter.loaded(result, plugin.metadata_path)


def check(plugin: Plugin, found: Any, kind: str) -> Failure | None:
    """The record of an object that is not of the wanted kind, or None."""
    # by the type itself: `__class__` is the object's own to answer
    if kind == "any" or (kind == "callable" and callable(found)):
        return None
    module = issubclass(type(found), ModuleType)
    if (kind == "class" and issubclass(type(found), type)) or (kind == "module" and module):
        return None
    what, hint = "a module" if module else type(found).__name__, None
    wanted = "callable" if kind == "callable" else f"a {kind}"
    if module and ":" not in plugin.value:
        what = f"the module `{plugin.value}`"
        hint = f"Its author should name an object in the module: `{plugin.value}:function`."
    return Failure(plugin, "resolve", TypeError(f"{what} is not {wanted}"), hint=hint)


def _hint(plugin: Plugin, phase: str, error: BaseException) -> str | None:
    """The next step, where the exception says what is missing; whatever a plugin put in its place, no second error."""
    try:
        module = sys.modules.get(plugin.value.partition(":")[0].strip())
        if phase == "resolve" and module is not None and is_executing(module):
            return (
                f"`{module.__name__}` is only partly initialised: it is being imported further out (a circular "
                "import). Load plugins after the host's own modules are imported."
            )
        if isinstance(error, ModuleNotFoundError) and error.name:
            return f"Install what provides `{error.name}`, or reinstall the plugin with the extras that it needs."
    except Exception:  # noqa: BLE001  # a module object with ideas of its own
        return None
    return None


def is_executing(module: Any) -> bool:
    """Whether a module's import is still going on."""
    return getattr(getattr(module, "__spec__", None), "_initializing", False) is True
