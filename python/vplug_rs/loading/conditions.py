"""What beside the lists may keep a plugin out: a module that is not there, a host that the plugin excludes."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from vplug_rs.loading.plugin import Plugin
    from vplug_rs.policy import Policy

# PEP 508: name, extras, version part, marker
_REQUIREMENT = re.compile(r"\s*(?P<name>[\w.-]+)\s*(\[[^\]]*\])?\s*\(?(?P<versions>[^;()]*)\)?\s*(;(?P<marker>.*))?$")


def refusals(candidates: Sequence[Plugin], policy: Policy) -> dict[int, tuple[str, str]]:
    """The reason and the rule of each candidate that conditions or the host keep out, by its number.

    To be asked before doubles are settled: a copy that may not load must not push out one that may.
    """
    if not policy.when and policy.host is None:
        return {}
    found = ((number, refusal(plugin, policy)) for number, plugin in enumerate(candidates))
    return {number: refused for number, refused in found if refused is not None}


def refusal(plugin: Plugin, policy: Policy) -> tuple[str, str] | None:
    """The reason and the rule that keep an allowed plugin out, or None."""
    for pattern, module in policy.when.items():
        if not fnmatch.fnmatchcase(plugin.name, pattern):
            continue
        lack = _lack(module)
        if lack is not None:
            needs = f"`{pattern}` in {policy.origin} needs the module `{module}`"
            return "condition", f"{needs}, which cannot be found{lack}"
    if policy.host is not None:
        excluded = _excludes(plugin, *policy.host)
        if excluded is not None:
            name, version = policy.host
            return "host-version", f"it requires `{excluded}`, and the host is {name} {version}"
    return None


def _lack(module: str) -> str | None:
    """None if a module can be found, else the cause as an addition to a sentence; nothing is imported."""
    try:
        return None if _can_be_found(module) else ""
    except (Exception, SystemExit) as error:  # noqa: BLE001  # somebody else's finder must not end the host
        text = " ".join(str(error).split())
        return f" ({type(error).__name__}: {text})" if text else f" ({type(error).__name__})"


def _can_be_found(module: str) -> bool:
    """Whether a module can be found, package by package."""
    names = module.split(".")
    if not all(names):
        return False
    path: Iterable[str] | None = None
    for end in range(1, len(names) + 1):
        name = ".".join(names[:end])
        if name in sys.modules:
            loaded: Any = sys.modules[name]
            if loaded is None:  # how an import is blocked
                return False
            path = getattr(loaded, "__path__", None)
        else:
            spec = importlib.util.find_spec(name) if end == 1 else _below(name, path)
            if spec is None:
                return False
            path = spec.submodule_search_locations
        if path is None and end < len(names) and ".".join(names[: end + 1]) not in sys.modules:
            return False  # no package, so nothing is below it
    return True


def _below(name: str, path: Iterable[str] | None) -> Any:
    """The spec of a module in a package's folders, or None.

    `PathFinder` would want the package imported to answer for a namespace in it, so its finders are asked one by one.
    """
    from importlib.machinery import ModuleSpec, PathFinder
    from pkgutil import get_importer

    folders = [] if path is None else list(path)
    portions: list[str] = []
    for folder in folders:
        finder = get_importer(folder)
        spec = None if finder is None else finder.find_spec(name)
        if spec is None:
            continue
        if spec.loader is not None:
            return spec
        portions += spec.submodule_search_locations or []
    for other in sys.meta_path:
        find = None if other is PathFinder else getattr(other, "find_spec", None)
        if find is not None and (spec := find(name, folders)) is not None:
            return spec
    if not portions:
        return None
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace


def _excludes(plugin: Plugin, name: str, version: str) -> str | None:
    """The requirement of a plugin's distribution that the host does not meet, or None.

    One with a marker is not judged: whether it applies is not for a loader to say.
    """
    from vplug_rs import _core

    try:
        required = plugin.distribution.requires or []
    except Exception:  # noqa: BLE001  # somebody else's class: what it does not say excludes nothing
        return None
    wanted = _core.normalize(name)
    for text in required:
        found = _REQUIREMENT.match(text)
        if found is None or found["marker"] or _core.normalize(found["name"]) != wanted:
            continue
        versions = found["versions"].strip()
        if versions and _core.version_meets(version, versions) is False:
            return str(text)
    return None
