"""What beside the lists may keep a plugin out: a module that is not there, a host that the plugin excludes."""

from __future__ import annotations

import fnmatch
import importlib.util
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.loading.plugin import Plugin
    from vplug_rs.policy import Policy

# PEP 508: name, extras, version part, marker
_REQUIREMENT = re.compile(r"\s*(?P<name>[\w.-]+)\s*(\[[^\]]*\])?\s*\(?(?P<versions>[^;()]*)\)?\s*(;(?P<marker>.*))?$")


def refusal(plugin: Plugin, policy: Policy) -> tuple[str, str] | None:
    """The reason and the rule that keep an allowed plugin out, or None."""
    for pattern, module in policy.when.items():
        if fnmatch.fnmatchcase(plugin.name, pattern) and not _can_be_found(module):
            return "condition", f"`{pattern}` in {policy.origin} needs the module `{module}`, which cannot be found"
    if policy.host is not None:
        excluded = _excludes(plugin, *policy.host)
        if excluded is not None:
            name, version = policy.host
            return "host-version", f"it requires `{excluded}`, and the host is {name} {version}"
    return None


def _can_be_found(module: str) -> bool:
    """Whether the top package of a module can be found; nothing is imported."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


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
