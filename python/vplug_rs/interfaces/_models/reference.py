"""A reference `"module:Class"`, held against the files that it names; nothing of them is imported.

The finders of this process are asked, step by step, with the folders that each step gave. So what they know (editable
installs, archives) is found as an import would find it, and no `__init__` runs.
"""

from __future__ import annotations

import difflib
import importlib.machinery
import keyword
import os
import pkgutil
import sys

from vplug_rs.interfaces._models import classes
from vplug_rs.interfaces._models.errors import ModelKindError, ModelReferenceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

FORM = 'Write it as `"package.module:Class"`.'
# a package whose `__init__` mentions one of these may provide modules that are no files
_DYNAMIC = ("__path__", "sys.modules")
_MAIN = ("__main__", "__mp_main__")


class Checked:
    """A reference that can work, as far as can be seen without importing.

    Attributes:
        module, name: Its two halves.
        path: The file, or None where the module has none.
        doubt: What could not be checked, in one sentence, or an empty text.
    """

    __slots__ = ("doubt", "module", "name", "path")

    def __init__(self, module: str, name: str, path: str | None, doubt: str) -> None:
        self.module, self.name, self.path, self.doubt = module, name, path, doubt


def check(arch: Any, reference: Any) -> Checked:
    """Checks one registration.

    Raises:
        ModelKindError: one of both is no text.
        ModelReferenceError: the form is wrong, or there is no such module, or no such class in it.
    """
    subject = _subject(arch, reference)
    module, name = _halves(subject, reference)
    spec, doubt = _find(subject, module)
    if spec is None:
        return Checked(module, name, None, doubt)
    path = spec.origin if spec.has_location else None
    return Checked(module, name, path, classes.check(subject, spec, module, name))


def _subject(arch: Any, reference: Any) -> str:
    if not isinstance(arch, str):
        raise ModelKindError(
            f"the architecture of a model is a text, not {arch!r}",
            hint="Give the name that `architectures` in the model's config.json has.",
        )
    if not arch or arch != arch.strip():
        raise ModelReferenceError(
            f"the architecture {arch!r} is empty, or has blanks around it",
            hint="Give the name that `architectures` in the model's config.json has.",
        )
    if isinstance(reference, type):
        raise ModelKindError(
            f"model `{arch}` is registered as the class `{reference.__qualname__}` itself, whose import may initialise "
            "CUDA where vLLM forks",
            hint=f'Name it: `"{reference.__module__}:{reference.__qualname__}"`.',
        )
    if not isinstance(reference, str):
        raise ModelKindError(f"model `{arch}` is registered as {reference!r}, and a text is wanted", hint=FORM)
    return f"model `{arch}` cannot be registered as `{reference}`"


def _halves(subject: str, reference: str) -> tuple[str, str]:
    module, colon, name = reference.partition(":")
    if not colon or ":" in name:
        dotted = module if not colon and _is_dotted(module) else ""
        package, dot, last = dotted.rpartition(".")
        hint = f'Part module and class with a colon: `"{package}:{last}"`.' if dot else FORM
        raise ModelReferenceError(f"{subject}: {reference.count(':')} colons, and one is wanted", hint=hint)
    if reference != "".join(reference.split()):
        hint = f'vLLM strips nothing: `"{"".join(reference.split())}"`.'
        raise ModelReferenceError(f"{subject}: there are blanks in it", hint=hint)
    if not _is_dotted(module):
        what = "it is relative" if module.startswith(".") else f"`{module}` is no name of a module"
        raise ModelReferenceError(f"{subject}: {what}", hint=FORM)
    if module.partition(".")[0] in _MAIN:
        raise ModelReferenceError(
            f"{subject}: each process has another `{module}`, so only this one finds the class",
            hint="Put the class into a module of its own, which can be imported everywhere.",
        )
    if "." in name:
        hint = f"vLLM looks the name up in the module alone: put `{name.rpartition('.')[2]}` at its top level."
        raise ModelReferenceError(f"{subject}: `{name}` stands inside another class", hint=hint)
    if not _is_name(name):
        raise ModelReferenceError(f"{subject}: `{name}` is no name of a class", hint=FORM)
    return module, name


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _is_dotted(text: str) -> bool:
    return all(map(_is_name, text.split(".")))


def _find(subject: str, module: str) -> tuple[ModuleSpec | None, str]:
    """The module's spec; or None and why it cannot be told.

    Raises:
        ModelReferenceError: there is none.
    """
    folders: Sequence[str] | None = None
    above: ModuleSpec | None = None
    spec: ModuleSpec | None = None
    name = ""
    for part in module.split("."):
        parent, name = name, f"{name}.{part}" if name else part
        loaded = sys.modules.get(name)
        if loaded is not None:  # what is there counts, with the folders that its `__init__` may have added
            spec, inside = getattr(loaded, "__spec__", None), getattr(loaded, "__path__", None)
        else:
            if parent and folders is None:
                raise ModelReferenceError(
                    f"{subject}: `{parent}` is a module, so there is no `{name}` in it", hint=_where(above)
                )
            spec, failure = _ask(name, folders)
            if failure:
                return None, failure
            if spec is None:
                return None, _absent(subject, name, above, folders)
            inside = spec.submodule_search_locations
        folders, above = None if inside is None else [*map(str, inside)], spec
    if spec is None:
        return None, f"`{module}` was put into `sys.modules` without a file"
    if spec.loader is None and spec.submodule_search_locations is not None:
        raise ModelReferenceError(
            f"{subject}: `{module}` is a folder without `__init__.py`, so no class stands in it", hint=_where(spec)
        )
    return spec, ""


def _ask(name: str, folders: Sequence[str] | None) -> tuple[ModuleSpec | None, str]:
    for finder in sys.meta_path:
        try:
            if finder is importlib.machinery.PathFinder:
                found = _on_path(name, sys.path if folders is None else folders)
            else:
                find = getattr(finder, "find_spec", None)
                found = None if find is None else find(name, folders, None)
        except Exception as error:  # noqa: BLE001  # somebody else's finder: told as a doubt
            return None, f"{finder!r} failed when it was asked for `{name}`: {type(error).__name__}: {error}"
        if found is not None:
            return found, ""
    return None, ""


def _on_path(name: str, folders: Sequence[Any]) -> ModuleSpec | None:
    """What `PathFinder` does, but for a namespace it would ask the package above, which is not imported."""
    portions: list[str] = []
    for folder in folders:
        finder = pkgutil.get_importer(folder or os.getcwd()) if isinstance(folder, str) else None
        find = getattr(finder, "find_spec", None)
        found: ModuleSpec | None = None if find is None else find(name)
        if found is not None and found.loader is not None:
            return found
        if found is not None:
            portions += found.submodule_search_locations or ()
    if not portions:
        return None
    namespace = importlib.machinery.ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace


def _absent(subject: str, name: str, above: ModuleSpec | None, folders: Sequence[str] | None) -> str:
    """Why it cannot be told whether there is a module that was not found.

    Raises:
        ModelReferenceError: it can: there is none.
    """
    parent, _, part = name.rpartition(".")
    source = classes.source(above) if above is not None else None
    if parent and parent not in sys.modules and source is not None and any(mark in source for mark in _DYNAMIC):
        return f"`{parent}` decides at its import what `{name}` is"
    if folders is None:
        hint = f"Install the distribution that has `{name}` into this environment, or correct the name."
    else:
        near = difflib.get_close_matches(part, [one.name for one in pkgutil.iter_modules(folders)], 1)
        hint = f"Did you mean `{parent}.{near[0]}`?" if near else _where(above)
    raise ModelReferenceError(f"{subject}: there is no module `{name}`", hint=hint)


def _where(spec: ModuleSpec | None) -> str:
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    place = places[0] if places else spec.origin if spec is not None else None
    return f"It was looked for in `{place}`: correct the name." if place else "Correct the name."
