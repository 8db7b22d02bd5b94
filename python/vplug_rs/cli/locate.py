"""Where a module would come from, found by looking at files: nothing is imported, no parent package runs.

In: a dotted name and a search path. Out: a `Found`. It follows the rules of the import system's path search, knows
setuptools' editable finders by the table in their file, and says so when a name cannot be checked in this way.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from zipimport import ZipImportError, zipimporter

from vplug_rs.cli.findings import Unread, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)
"""In the order in which the import system tries them."""

SILENT_FINDERS = frozenset({"_frozen_importlib", "_frozen_importlib_external", "_distutils_hack", "six"})
"""Modules of `sys.meta_path` finders that provide no module of their own, or only built-in ones."""

DYNAMIC_MARKS = (b"__path__", b"sys.modules")
"""A package whose `__init__` mentions one of these may provide submodules that are no files."""


class Found:
    """The outcome of a search.

    Attributes:
        state: `found`, `missing`, or `unknown` when only importing could tell.
        path: The file or folder, when there is one.
        detail: Why, for `missing` and `unknown`.
    """

    __slots__ = ("detail", "path", "state")

    def __init__(self, state: str, path: str | None = None, detail: str = "") -> None:
        """Fix the outcome."""
        self.state = state
        self.path = path
        self.detail = detail


def module_of(value: str) -> str | None:
    """The module of an entry point's value.

    Args:
        value: As in `package.module:attribute [extra]`.

    Returns:
        The dotted name, or `None` when the value is no valid reference.
    """
    module = value.partition(":")[0].partition("[")[0].strip()
    return module if all(part.isidentifier() for part in module.split(".")) else None


class Locator:
    """Searches one path; each folder is listed at most once."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Make a locator.

        Args:
            paths: The search path, like `sys.path`.
        """
        self._paths = [path or os.curdir for path in paths]
        self._listings: dict[str, frozenset[str]] = {}
        self._answers: dict[str, Found] = {}
        self._folders: set[str] = set()
        self._archives: dict[str, zipimporter | None] = {}
        self._mapped: dict[str, str] | None = None

    def find(self, module: str) -> Found:
        """Look for a module.

        Args:
            module: Its dotted name.
        """
        if module not in self._answers:
            self._answers[module] = self._find(module)
        return self._answers[module]

    def _find(self, module: str) -> Found:
        if module in sys.builtin_module_names:
            return Found("found", detail="built into the interpreter")
        places, above = self._paths, ""
        parts = module.split(".")
        for number, part in enumerate(parts, 1):
            name = ".".join(parts[:number])
            file, below = self._step(part, places)
            if file is None and not below:
                file, below = self._step_editable(name)
            if file is None and not below:
                return self._absent(name, above)
            above, places = file or "", below
        return Found("found", above or places[0])

    def _step(self, part: str, places: Sequence[str]) -> tuple[str | None, list[str]]:
        """The file of one component, and the folders to search for the next; a namespace package has no file."""
        portions: list[str] = []
        for place in places:
            children = self._children(place)
            if not children and place not in self._folders:
                archived = self._in_archive(place, part)
                if archived:
                    return archived
            if part in children:
                package = os.path.join(place, part)
                inside = self._children(package)
                init = _first_file(package, "__init__", inside)
                if init is not None:
                    return init, [package]
                if os.path.isdir(package):
                    portions.append(package)
            file = _first_file(place, part, children)
            if file is not None:
                return file, []
        return None, portions

    def _step_editable(self, name: str) -> tuple[str | None, list[str]]:
        if self._mapped is None:
            from vplug_rs.cli.editable import finder_tables

            self._mapped = {key: target for table in finder_tables(self._paths) for key, target, _ in table.targets}
        target = self._mapped.get(name)
        if target is not None:
            return self._step(os.path.basename(target), [os.path.dirname(target)])
        inside = next((key for key in self._mapped if key.startswith(name + ".")), None)
        return None, [] if inside is None else [f"{inside} (editable)"]

    def _children(self, folder: str) -> frozenset[str]:
        known = self._listings.get(folder)
        if known is None:
            try:
                known = frozenset(os.listdir(folder))
                self._folders.add(folder)
            except (OSError, ValueError):  # no folder, or not ours to read: nothing can be imported from it
                known = frozenset()
            self._listings[folder] = known
        return known

    def _in_archive(self, place: str, part: str) -> tuple[str, list[str]] | None:
        """One component inside a zip file, by the interpreter's own importer."""
        if place not in self._archives:
            try:
                self._archives[place] = zipimporter(place)
            except (ZipImportError, OSError, ValueError):  # no file of that name, or no zip file
                self._archives[place] = None
        archive = self._archives[place]
        spec = None if archive is None else archive.find_spec(part)
        if spec is None:
            return None
        return spec.origin or place, list(spec.submodule_search_locations or ())

    def _absent(self, missing: str, parent: str) -> Found:
        if parent and _is_dynamic(parent):
            return Found("unknown", detail=f"`{parent}` decides at import what `{missing}` is")
        for finder in sys.meta_path:
            kind = finder if isinstance(finder, type) else type(finder)
            home = kind.__module__
            if home.partition(".")[0] not in SILENT_FINDERS and not home.startswith("__editable__"):
                return Found("unknown", detail=f"the import hook `{home}.{kind.__name__}` may provide `{missing}`")
        return Found("missing", detail=f"there is no module `{missing}`")


def _first_file(folder: str, stem: str, children: frozenset[str]) -> str | None:
    """The file that the import system would take for a module: it passes over what is no regular file."""
    for suffix in SUFFIXES:
        if stem + suffix in children:
            path = os.path.join(folder, stem + suffix)
            if os.path.isfile(path):
                return path
    return None


def _is_dynamic(init: str) -> bool:
    text = read_bytes(init)
    # If it cannot be read, nothing can be said about it.
    return isinstance(text, Unread) or any(mark in text for mark in DYNAMIC_MARKS)
