"""Distributions and entry points where the path is not all there is: archives, eggs, other finders."""

import os
import sys

from vplug_rs import _core
from vplug_rs.metadata._distribution import PathDistribution
from vplug_rs.metadata._search_path import strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def discover(context: "Any", keywords: "dict[str, Any]") -> "Iterator[Any]":
    """All distributions for a context or its keywords, finder by finder in the order of `sys.meta_path`."""
    if context is None and keywords.keys() <= {"name", "path"} and _core.is_plain(sys.meta_path):
        return _on_path(keywords.get("name"), keywords.get("path", sys.path))
    return _by_finders(context, keywords)


def _by_finders(context: "Any", keywords: "dict[str, Any]") -> "Iterator[Any]":
    from vplug_rs.metadata._genuine import genuine

    if context is None:
        context = genuine().DistributionFinder.Context(**keywords)
    done = False
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_distributions", None)
        if find is None:
            continue
        if _core.is_path_finder(finder):
            if not done:  # the standard's finder and the back-port's look at the same path
                done = True
                # read at its turn: an earlier finder may have changed the context
                yield from _on_path(context.name, context.path)
            continue
        yield from _contained(finder, find, context)


def _contained(finder: "Any", find: "Callable[[Any], Any]", context: "Any") -> "Iterator[Any]":
    """What a finder yields; its failure is a finding, not ours to pass on."""
    try:
        yield from find(context)
    except GeneratorExit:
        raise
    except Exception as error:  # noqa: BLE001  # whatever somebody else's finder raises
        from vplug_rs.metadata import _report

        _report.note("finder-failed", repr(finder), f"{type(error).__name__}: {error}")


def _on_path(name: "str | None", path: "Any") -> "Iterator[Any]":
    entries = strings(path)
    if not _core.is_real():
        for entry in entries:
            yield from _deferred(entry, name)
        return
    if name:
        try:
            found, deferred = _core.SCANNER.find(entries, name)
        except UnicodeEncodeError:
            found, deferred = _find_undecodable(entries, name)
        if not deferred:
            for _, info in found:
                yield PathDistribution(info)
            return
        # the interpreter's answers take their place among ours
        yield from (
            distribution
            for number, entry in enumerate(entries)
            for distribution in (
                _deferred(entry, name)
                if number in deferred
                else (PathDistribution(info) for at, info in found if at == number)
            )
        )
        return
    inventory = _core.SCANNER.survey(entries)
    left = {number for number, _, _ in inventory.deferred}
    for number, entry in enumerate(entries):
        if number in left:
            yield from _deferred(entry, None)
        else:
            for info, _ in inventory.folders(number):
                yield PathDistribution(info)


def _find_undecodable(entries: "list[str]", name: str) -> "tuple[list[tuple[int, str]], list[int]]":
    """A name from a folder whose name is not UTF-8."""
    try:
        return _core.SCANNER.find(entries, os.fsencode(name).decode("utf-8", "replace"))
    except UnicodeEncodeError:  # no folder can have such a name
        return [], []


def _deferred(entry: str, name: "str | None") -> "Iterator[Any]":
    """The distributions of one path entry, through the interpreter's own machinery."""
    from vplug_rs.metadata._genuine import genuine

    if _core.is_real() and not (os.path.isfile(entry) or os.path.isdir(entry)):
        return  # opening a pipe would wait for ever
    module = genuine()
    context = module.DistributionFinder.Context(name=name, path=[entry])
    for found in _contained(entry, module.MetadataPathFinder.find_distributions, context):
        # our own reading contains what is damaged inside
        yield PathDistribution(found._path)


def unique(distributions: "Iterator[Any]", path: "list[str]") -> "Iterator[Any]":
    """The first of each project; of several copies on the path the one that counts."""
    hidden: set[str] = set()
    if _core.is_real():
        survey = _core.SCANNER.survey(path)
        hidden = {info for info, _ in survey.folders()} - {info for info, _ in survey.folders(all=False)}
    seen = set()
    for found in distributions:
        if type(found) is PathDistribution and found._info in hidden:
            continue
        key = _key(found)
        if key is not None and key not in seen:
            seen.add(key)
            yield found


def _key(distribution: "Any") -> "str | None":
    try:
        return str(distribution._normalized_name)
    except Exception:  # noqa: BLE001  # somebody else's class
        try:
            return _core.normalize(distribution.metadata["Name"])
        except Exception as error:  # noqa: BLE001
            _distribution_failed(distribution, error)
            return None


def _distribution_failed(distribution: "Any", error: Exception) -> None:
    from vplug_rs.metadata import _report

    path = getattr(distribution, "_path", None) or repr(distribution)
    _report.note("distribution-failed", path, f"{type(error).__name__}: {error}")


def entry_points() -> "list[Any]":
    """The entry points of all unique distributions, asked one by one."""
    path = strings(sys.path)
    points: list[Any] = []
    for distribution in unique(discover(None, {}), path):
        try:
            points.extend(distribution.entry_points)
        except Exception as error:  # noqa: BLE001  # contained: one broken package must not hide the others
            _distribution_failed(distribution, error)
    from vplug_rs.metadata import _report

    damaged = _report.damaged_files()
    if damaged:
        _report.announce(damaged)
    return points
