"""Which distributions provide an import name."""

import os
import sys
from importlib.machinery import all_suffixes

from vplug_rs import _core
from vplug_rs.metadata import _discovery
from vplug_rs.metadata._distribution import PathDistribution
from vplug_rs.metadata._search_path import strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# whose rules count: each release changed what an import name is
_GENERATION = min(max(sys.version_info[1], 11), 13)


def packages_distributions() -> "dict[str, list[str]]":
    """Import names with the names of the distributions that provide them."""
    mapping: dict[str, list[str]] = {}
    suffixes = all_suffixes()
    if _core.is_plain(sys.meta_path):
        found = _core.SCANNER.packages(strings(sys.path), generation=_GENERATION, suffixes=suffixes)
        if found is not None:
            for packages, name in found:
                if packages is None:
                    _add_foreign(mapping, PathDistribution(name))
                    continue
                for package in packages:
                    mapping.setdefault(package, []).append(name)
            return mapping
    for distribution in _discovery.discover(None, {}):
        if type(distribution) is PathDistribution and distribution._info is not None:
            _add(mapping, distribution._info, distribution._normalized_name, suffixes)
        else:
            _add_foreign(mapping, distribution)
    return mapping


def _add(mapping: "dict[str, list[str]]", info: str, key: str, suffixes: "list[str]") -> None:
    root = os.path.dirname(info) or "."
    found = _core.top_level(info, root, generation=_GENERATION, suffixes=suffixes, strict=False)
    if found is NotImplemented:
        _add_foreign(mapping, PathDistribution(info))
        return
    declared, names = found
    packages = names if declared else _inferred(set(names))
    if packages:
        # metadata without a name is filed under its folder's
        name = _core.SCANNER.header_of(info, "Name", False) or key
        for package in packages:
            mapping.setdefault(package, []).append(name)


def _inferred(names: "set[Any]") -> "list[str]":
    if _GENERATION == 11:  # noqa: PLR2004  # it takes the names of .py files as they are
        return list(names)
    return [name for name in names if name is not None and "." not in name]


def _add_foreign(mapping: "dict[str, list[str]]", distribution: "Any") -> None:
    from vplug_rs.metadata._genuine import genuine

    module = genuine()
    try:
        packages: Iterable[str] = module._top_level_declared(distribution) or module._top_level_inferred(distribution)
        name = distribution.metadata["Name"]
        for package in list(packages):
            mapping.setdefault(package, []).append(name)
    except Exception as error:  # noqa: BLE001  # contained: somebody else's package
        _discovery._distribution_failed(distribution, error)
