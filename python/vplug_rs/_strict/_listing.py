"""Replacements for listing: `FastPath.search`, `MetadataPathFinder.find_distributions`, `Distribution.from_name`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from vplug_rs._core import SCANNER

from ._guards import search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._target import Target

_KEPT_FOLDERS = 128  # as many as FastPath keeps
_KEPT_PATHS = 4096
_kept: dict[str, tuple[list[str], list[Path]]] = {}
_kept_paths: dict[tuple[str, str], Path] = {}


def paths_in(root: str, children: list[str]) -> list[Path]:
    """The path objects of a folder's children, the same ones as long as the listing stays the same.

    The genuine Lookup keeps them too; making 300 anew costs more than the listing.
    """
    kept = _kept.get(root)
    if kept is not None and kept[0] == children:
        return kept[1]
    paths = [Path(root, child) for child in children]
    if len(_kept) >= _KEPT_FOLDERS:
        _kept.clear()
    _kept[root] = (children, paths)
    return paths


def path_of(root: str, child: str) -> Path:
    """The path object of one child, the same one at each call."""
    path = _kept_paths.get((root, child))
    if path is None:
        if len(_kept_paths) >= _KEPT_PATHS:
            _kept_paths.clear()
        path = _kept_paths[root, child] = Path(root, child)
    return path


def search(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `FastPath.search(prepared)`: the metadata paths of one path entry."""
    fast_path: Any = target.space["FastPath"]
    prepared_class: Any = target.space["Prepared"]
    strict_list, intact = SCANNER.strict_list, target.check("files", "listing")

    def replacement(self: Any, prepared: Any) -> Any:
        if type(self) is fast_path and type(prepared) is prepared_class and "joinpath" not in vars(self) and intact():
            root, name = self.root, prepared.name
            if type(root) is str and "\0" not in root:
                if name is None or name == "":
                    children = strict_list(root, None)
                    if children is not NotImplemented:
                        return chain(paths_in(root, children), ())
                elif type(name) is str and name.isascii():
                    children = strict_list(root, name)
                    if children is not NotImplemented:
                        return chain([path_of(root, child) for child in children], ())
        return genuine(self, prepared)

    return replacement


def find_distributions(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `MetadataPathFinder.find_distributions(context)`: one leg, still a lazy `map`."""
    finder: Any = target.space["MetadataPathFinder"]
    intact, make = target.check("folder", "discovery"), target.distribution

    def replacement(cls: Any, context: Any) -> Any:
        if cls is finder and intact():
            return map(make, cls._search_paths(context.name, context.path))
        return genuine(cls, context)

    return replacement


def from_name(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `Distribution.from_name(name)`; a name that is not found gets the genuine error."""
    distribution_class: Any = target.space["Distribution"]
    intact, alone = target.check("files", "folder", "listing", "discovery"), target.alone
    strict_find, make = SCANNER.strict_find, target.distribution

    def replacement(cls: Any, name: Any) -> Any:
        if cls is distribution_class and type(name) is str and name and name.isascii() and intact() and alone():
            path = search_path()
            found = None if path is None else strict_find(path, name)
            if type(found) is tuple:
                return make(path_of(*found))
        return genuine(cls, name)

    return replacement
