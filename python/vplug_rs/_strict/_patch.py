"""Which functions of a genuine module get a replacement, and what each replacement relies on."""

from __future__ import annotations

import sys
from functools import partial

from . import _backport, _distribution, _files, _functions, _listing
from ._graft import Graft
from ._shapes import DISCOVERY, FOLDER, LISTING, OFFER, function_of, is_known
from ._target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Replacement = Callable[[Target, Callable[..., Any]], Callable[..., Any]]

# The interpreters whose importlib.metadata was read; a later one answers for itself until it has been.
_VERIFIED = ((3, 11), (3, 12), (3, 13), (3, 14))
_STANDARD = "importlib.metadata"
_CONTENT = ("_top_level_declared", "_top_level_inferred", "Distribution.metadata", "Distribution.files")

# function, replacement, what else must have a known shape
_LEAVES: tuple[tuple[str, Replacement, tuple[str, ...]], ...] = (
    ("FastPath.search", _listing.search, LISTING),
    (
        "PathDistribution._normalized_name",
        _distribution.normalized_name,
        (*FOLDER, "PathDistribution._name_from_stem", "Prepared.normalize"),
    ),
    ("Distribution.entry_points", _distribution.entry_points, FOLDER + OFFER),
    ("Distribution.name", _distribution.header("Name"), FOLDER),
    ("Distribution.version", _distribution.header("Version"), FOLDER),
    ("Distribution.files", _files.files, (*FOLDER, "Distribution._read_files_distinfo", "FileHash.__init__")),
    ("PathDistribution._has_metadata", _backport.has_metadata, FOLDER),
)
_CALLS: tuple[tuple[str, Replacement, tuple[str, ...]], ...] = (
    ("Distribution.metadata", _distribution.metadata, FOLDER),
    ("Distribution.requires", _distribution.requires, (*FOLDER, "Distribution._read_dist_info_reqs")),
    (
        "MetadataPathFinder.find_distributions",
        _listing.find_distributions,
        (*FOLDER, "MetadataPathFinder._search_paths"),
    ),
    ("Distribution.from_name", _listing.from_name, FOLDER + LISTING + DISCOVERY),
    ("entry_points", _functions.entry_points, FOLDER + LISTING + DISCOVERY + OFFER),
    ("version", _functions.version, FOLDER + LISTING + DISCOVERY),
    ("packages_distributions", _functions.packages_distributions, FOLDER + LISTING + DISCOVERY + _CONTENT),
)


def patch(module: ModuleType, name: str) -> list[Graft]:
    """Stand in for a genuine module's functions.

    Args:
        module: What `sys.modules` has, or is about to have, under `name`; executed.
        name: `importlib.metadata` or `importlib_metadata`.

    Returns:
        What was put in, to be undone; empty if the module only bears the name, or is one that we do not know.
    """
    if module.__name__ != name or not _has_gil():
        return []
    standard = name == _STANDARD
    if standard and (sys.version_info[:2] not in _VERIFIED or sys.implementation.name != "cpython"):
        return []
    try:
        target = Target(module)
    except (AttributeError, LookupError, TypeError):  # a namesake, or changed by somebody before us
        return []
    grafts = []
    # All are checked before the first is put in: our own code has no known shape.
    for qualified, replacement, relied in _LEAVES + (_CALLS if standard else ()):
        function = function_of(module, qualified)
        if function is None or not is_known(module, (qualified, *relied)):
            continue
        try:
            grafts.append(Graft(function, partial(replacement, target)))
        except LookupError:  # a signature that we do not know
            continue
    try:
        for graft in grafts:
            graft.apply()
    except BaseException:  # all of it, or nothing
        for graft in reversed(grafts):
            graft.undo()
        raise
    return grafts


def _has_gil() -> bool:
    # A free-threaded interpreter has not been tried.
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())
