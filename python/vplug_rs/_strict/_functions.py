"""Replacements for the module's functions: `entry_points`, `version`, `packages_distributions`."""

from __future__ import annotations

from importlib.machinery import all_suffixes

from vplug_rs._core import SCANNER

from ._guards import search_path
from ._listing import path_of
from ._shapes import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._target import Target

_FILTERS = frozenset(("group", "name"))
_NAMES_ONLY = 11  # this generation takes the names of .py files and filters no further


def entry_points(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `entry_points(**params)`; parameters other than `group` and `name` are left to the genuine `select`."""
    result, groups = target.entry_points_class, target.space.get("SelectableGroups")
    intact = target.check("files", "folder", "listing", "discovery", "header", "name", "offer")
    alone, collect = target.alone, _collector(target)

    def replacement(params: dict[str, Any]) -> Any:
        path = search_path() if intact() and alone() else None
        if path is None:
            return genuine(**params)
        plain = params.keys() <= _FILTERS and all(type(value) is str and value.isascii() for value in params.values())
        filters = params if plain else {}
        points = collect(path, filters.get("group"), filters.get("name"))
        if points is None:
            return genuine(**params)
        if groups is None:
            return result(points) if plain else result(points).select(**params)
        if not plain or not params:  # 3.11 without parameters gives the groups
            return groups.load(points).select(**params)
        if "group" not in params:  # and it groups before it selects
            points.sort(key=lambda point: point.group)
        return result(points)

    return replacement


def _collector(target: Target) -> Callable[[list[str], str | None, str | None], list[Any] | None]:
    make, make_distribution = target.entry_point, target.distribution

    def collect(path: list[str], group: str | None, name: str | None) -> list[Any] | None:
        found = SCANNER.strict_entry_points(path, group, name)
        if found is NotImplemented:
            return None
        points: list[Any] = []
        for entry, child, rows in found:
            distribution = make_distribution(path_of(entry, child))
            if rows is None:  # something in its file is odd: let the genuine code read it, or raise
                points += [
                    point
                    for point in distribution.entry_points
                    if (group is None or point.group == group) and (name is None or point.name == name)
                ]
            else:
                points += [make(key, text, section, distribution) for key, text, section in rows]
        return points

    return collect


def version(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `version(name)`; anything but a plain value gets the genuine answer."""
    intact = target.check("files", "folder", "listing", "discovery", "header")
    alone, strict_header = target.alone, SCANNER.strict_header

    def replacement(name: Any) -> Any:
        if type(name) is str and name and name.isascii() and intact() and alone():
            path = search_path()
            value = None if path is None else strict_header(path, name, "Version")
            if type(value) is str and "\n" not in value:
                return value
        return genuine(name)

    return replacement


def packages_distributions(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `packages_distributions()`: equal mapping in equal order."""
    intact = target.check("files", "folder", "listing", "discovery", "header", "record", "inferred")
    alone, generation = target.alone, _generation(target.space)
    packages_of = _packages_reader(target, generation)

    def replacement() -> Any:
        path = search_path() if intact() and alone() else None
        if path is None:
            return genuine()
        mapping: dict[str, list[str]] = {}
        suffixes = all_suffixes()
        for root in path:
            found = SCANNER.strict_packages(root, generation=generation, suffixes=suffixes)
            if found is NotImplemented:
                return genuine()
            for child, top, name in found:
                packages = packages_of(root, child, top)
                if not packages:
                    continue  # nobody asks for the name then
                if type(name) is not str or "\n" in name:
                    return genuine()  # a missing name warns at a certain line: from the start, then
                for package in packages:
                    mapping.setdefault(package, []).append(name)
        return mapping

    return replacement


def _packages_reader(target: Target, generation: int) -> Callable[[str, str, Any], list[str]]:
    """The import names of one distribution.

    Their order is that of the interpreter's set of strings, so the set is filled here, in the genuine order of first
    occurrence.
    """
    make_distribution, space = target.distribution, target.space

    def packages_of(root: str, child: str, top: Any) -> list[str]:
        if top is NotImplemented:
            distribution = make_distribution(path_of(root, child))
            return list(space["_top_level_declared"](distribution) or space["_top_level_inferred"](distribution))
        names: list[Any]
        is_declared, names = top
        if is_declared:
            return names
        unordered = set(names)
        if generation == _NAMES_ONLY:
            return list(unordered)
        return [name for name in unordered if name is not None and "." not in name]

    return packages_of


def _generation(space: dict[str, Any]) -> int:
    """Which rules for import names the module has: those of Python 3.11, 3.12 or 3.13."""
    if "_get_toplevel_name" in space:
        return 13
    read = names_in(space["_top_level_inferred"].__code__)
    return 12 if "getmodulename" in read else _NAMES_ONLY
