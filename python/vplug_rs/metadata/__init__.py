"""A faster, mended `importlib.metadata`: the same names, own types, answers from the core.

Where it differs from the running interpreter's module is listed in docs/compatibility.md. Names that are not defined
here (finders, protocols, private helpers) are the interpreter's own, imported when they are asked for.
"""

import sys

from vplug_rs import _core
from vplug_rs.metadata import _points
from vplug_rs.metadata._points import EntryPoint, EntryPoints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import (
        DistributionFinder as DistributionFinder,
    )
    from importlib.metadata import (
        PackageMetadata as PackageMetadata,
    )
    from importlib.metadata import (
        PackageNotFoundError as PackageNotFoundError,
    )
    from typing import Any

    from vplug_rs._core import Diagnostic
    from vplug_rs.metadata._distribution import (
        Distribution as Distribution,
    )
    from vplug_rs.metadata._distribution import (
        PathDistribution as PathDistribution,
    )
    from vplug_rs.metadata._files import FileHash as FileHash
    from vplug_rs.metadata._files import PackagePath as PackagePath

__all__ = [
    "Distribution",
    "DistributionFinder",
    "EntryPoint",
    "EntryPoints",
    "PackageMetadata",
    "PackageNotFoundError",
    "diagnostics",
    "distribution",
    "distributions",
    "entry_points",
    "files",
    "invalidate_caches",
    "metadata",
    "packages_distributions",
    "requires",
    "version",
]

_OURS = {
    "Distribution": "_distribution",
    "PathDistribution": "_distribution",
    "FileHash": "_files",
    "PackagePath": "_files",
    "SelectableGroups": "_older",
}


# submodules of the standard's package that its own code and tests reach for
_PRIVATE = {"_adapters", "_collections", "_functools", "_itertools", "_meta", "_text"}
_SUBMODULES = frozenset(
    "_discovery _distribution _files _genuine _late _message _older _packages _points _report _search_path".split()  # noqa: SIM905  # one constant is quicker to load
)
_MISSING = object()


def entry_points(**params: "Any") -> "Any":
    """The entry points of all installed distributions, of each project's first copy on the path.

    Parameters such as `group` and `name` select; without any, Python 3.11 gives a mapping by group and later releases
    give all. Damaged files are passed over and reported by `diagnostics()`. Nothing of the plugins is imported.
    """
    inventory = _plain_inventory()
    if inventory is None:
        from vplug_rs.metadata import _discovery

        points, rest = _discovery.entry_points(), params
    else:
        group, name = params.get("group"), params.get("name")
        if params.keys() <= {"group", "name"} and all(type(value) is str for value in params.values()):
            points, rest = _points.make(inventory.entry_points(group, name), inventory), {}
        else:
            points, rest = _points.make(inventory.entry_points(), inventory), params
    if sys.version_info < (3, 12) and "group" not in params:
        from vplug_rs.metadata._older import SelectableGroups

        groups = SelectableGroups.load(points)
        if not params:
            return groups
        points = groups._all  # sorted by group, as 3.11 does before it selects
    return EntryPoints(points).select(**rest) if rest else EntryPoints(points)


def _plain_inventory() -> "_core.Inventory | None":
    """The path as the core sees it, if that is all there is to ask; what is damaged in it is announced."""
    inventory = _scan() if _core.is_plain(sys.meta_path) else None
    if inventory is None or inventory.has_deferred:
        return None
    if inventory.damaged:
        from vplug_rs.metadata import _report

        _report.announce(inventory.damaged)
    return inventory


def _scan() -> "_core.Inventory":
    try:
        return _core.SCANNER.scan(sys.path)
    except (TypeError, UnicodeError):  # an entry that is no string
        from vplug_rs.metadata._search_path import strings

        return _core.SCANNER.scan(strings(sys.path))


def distribution(distribution_name: str) -> "Any":
    """The distribution of a project, in any spelling of its name.

    Raises PackageNotFoundError if it is not installed, ValueError for an empty name.
    """
    from vplug_rs.metadata._distribution import Distribution

    return Distribution.from_name(distribution_name)


def distributions(**kwargs: "Any") -> "Iterator[Any]":
    """All installed distributions, those hidden behind another copy included.

    Keywords: `name` and `path` (a list of folders in place of `sys.path`), or `context`.
    """
    from vplug_rs.metadata._distribution import Distribution

    return Distribution.discover(**kwargs)


def metadata(distribution_name: str) -> "Any":
    """The header fields of a project's metadata. Raises PackageNotFoundError."""
    return distribution(distribution_name).metadata


def version(distribution_name: str) -> str:
    """The version of a project, as its metadata spells it. Raises PackageNotFoundError."""
    if type(distribution_name) is str and distribution_name and _core.is_plain(sys.meta_path):
        try:
            found = _core.SCANNER.header(sys.path, distribution_name, "Version")
        except (TypeError, UnicodeError):  # an odd path entry, or a name that no folder can bear
            found = NotImplemented
        if type(found) is str:
            return found
    version: str = distribution(distribution_name).version
    return version


def files(distribution_name: str) -> "Any":
    """The installed files of a project, or None if no list of them exists. Raises PackageNotFoundError."""
    return distribution(distribution_name).files


def requires(distribution_name: str) -> "list[str] | None":
    """The requirements of a project, or None if it states none. Raises PackageNotFoundError."""
    found: list[str] | None = distribution(distribution_name).requires
    return found


def packages_distributions() -> "dict[str, list[str]]":
    """Import names, each with the names of the distributions that provide it."""
    from vplug_rs.metadata import _packages

    return _packages.packages_distributions()


def diagnostics() -> "list[Diagnostic]":
    """What is wrong with what is installed: damaged, hidden, doubled, left over.

    Looks at the metadata folders of `sys.path` and their entry points now, and adds what this process came across
    when it was asked for: in METADATA, RECORD, archives and other finders. `vplug doctor` reads those too.
    """
    from vplug_rs.metadata import _report

    found = _scan().diagnostics()
    return list(dict.fromkeys([*found, *_report.noted()]))


def invalidate_caches() -> None:
    """Forgets what was read. Never needed for right answers; here for callers that know the standard's."""
    _core.SCANNER.clear()
    report = sys.modules.get("vplug_rs.metadata._report")
    if report is not None:
        report.forget()


def __getattr__(name: str) -> "Any":
    # asked for by every `from vplug_rs.metadata import _x` before the submodule is loaded
    if name in _SUBMODULES or name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _OURS:
        return getattr(import_module(f"vplug_rs.metadata.{_OURS[name]}"), name)
    standard = import_module("vplug_rs.metadata._genuine")
    if name in _PRIVATE:
        return standard.part(name)
    found = getattr(standard.genuine(), name, _MISSING)
    if found is _MISSING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
