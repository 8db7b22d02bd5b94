"""Replacements for the module's functions: `entry_points`, `version`, `packages_distributions`."""

from __future__ import annotations

from importlib.machinery import all_suffixes
from pathlib import Path

from vplug_rs import _core

from ._guards import search_path
from ._shapes import names_in
from ._target import SCANNER

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
    alone, make, make_distribution = target.alone, target.entry_point, target.distribution

    def collect(path: list[str], group: str | None, name: str | None) -> list[Any] | None:
        found = SCANNER.strict_entry_points(path, group, name)
        if found is NotImplemented:
            return None
        points: list[Any] = []
        for entry, child, rows in found:
            distribution = make_distribution(Path(entry, child))
            if rows is None:  # something in its file is odd: let the genuine code read it, or raise
                points += [
                    point
                    for point in distribution.entry_points
                    if (group is None or point.group == group) and (name is None or point.name == name)
                ]
            else:
                points += [make(*row, distribution) for row in rows]
        return points

    def replacement(params: dict[str, Any]) -> Any:
        path = search_path() if intact() and alone() else None
        if path is None:
            return genuine(**params)
        if params.keys() <= _FILTERS and all(type(value) is str and value.isascii() for value in params.values()):
            points = collect(path, params.get("group"), params.get("name"))
            if points is not None:
                if groups is None:
                    return result(points)
                if not params:
                    return groups.load(points)
                if "group" not in params:  # 3.11 groups before it selects
                    points.sort(key=lambda point: point.group)
                return result(points)
        else:
            points = collect(path, None, None)
            if points is not None:
                return (result(points) if groups is None else groups.load(points)).select(**params)
        return genuine(**params)

    return replacement


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
    """Replaces `packages_distributions()`: equal mapping in equal order.

    The order inside one distribution is that of the interpreter's set of strings, so the set is filled here, in the
    genuine order of first occurrence.
    """
    intact = target.check("files", "folder", "listing", "discovery", "header", "record", "inferred")
    alone, make_distribution, space = target.alone, target.distribution, target.space
    generation = _generation(space)

    def replacement() -> Any:
        path = search_path() if intact() and alone() else None
        if path is None:
            return genuine()
        mapping: dict[str, list[str]] = {}
        suffixes = all_suffixes()
        for root in path:
            children = SCANNER.strict_list(root, None)
            if children is NotImplemented:
                return genuine()
            for child in children:
                info = f"{root}/{child}" if root else child
                packages = packages_of(info, root, suffixes)
                if packages is None:
                    distribution = make_distribution(Path(root, child))
                    declared = space["_top_level_declared"](distribution)
                    packages = declared or space["_top_level_inferred"](distribution)
                name = None
                for package in packages:
                    if name is None:
                        name = _core.read_header(info, "Name", strict=True)
                        if type(name) is not str or "\n" in name:
                            return genuine()  # a missing name warns at a certain line: from the start, then
                    mapping.setdefault(package, []).append(name)
        return mapping

    def packages_of(info: str, root: str, suffixes: list[str]) -> Any:
        found = _core.top_level(info, root or ".", generation=generation, suffixes=suffixes, strict=True)
        if found is NotImplemented:
            return None
        declared, names = found
        if declared:
            return names
        inferred = set(names)
        if generation == _NAMES_ONLY:
            return inferred
        return [name for name in inferred if name is not None and "." not in name]

    return replacement


def _generation(space: dict[str, Any]) -> int:
    """Which rules for import names the module has: those of Python 3.11, 3.12 or 3.13."""
    if "_get_toplevel_name" in space:
        return 13
    read = names_in(space["_top_level_inferred"].__code__)
    return 12 if "getmodulename" in read else _NAMES_ONLY
