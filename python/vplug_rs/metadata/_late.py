"""What an entry point can tell but is seldom asked: its distribution, the parts of its reference, its object."""

import sys

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_pattern: "Any" = None


def dist(point: "Any") -> "Any":
    """The distribution of an entry point, made once for all entry points that share it; None if it has none."""
    owner = None if point is None else vars(point).get("_owner")
    if owner is None:
        return None
    if owner[1] is None:
        from vplug_rs.metadata._distribution import PathDistribution

        owner[1] = PathDistribution(owner[0])
    vars(point)["dist"] = owner[1]
    return owner[1]


def pattern(_point: "Any") -> "Any":
    """The grammar of a reference as a regular expression; compiled late, since `re` costs more than a scan."""
    global _pattern  # noqa: PLW0603  # one for all
    if _pattern is None:
        import re

        _pattern = re.compile(
            r"(?P<module>[\w.]+)\s*"
            r"(:\s*(?P<attr>[\w.]+)\s*)?"
            r"((?P<extras>\[.*\])\s*)?$"
        )
    return _pattern


def parts(point: "Any") -> "tuple[str, str | None, list[str]]":
    """Module, attribute and extras of a reference. Raises ValueError if the value is none."""
    value = point.value
    found: Any = _core.parse_reference(value) if isinstance(value, str) else NotImplemented
    if found is NotImplemented:  # beyond ASCII the interpreter's own tables count
        import re

        match = point.pattern.match(value)
        found = match and (match["module"], match["attr"], re.findall(r"\w+", match["extras"] or ""))
    if found is None:
        raise ValueError(
            f"invalid object reference {value!r} of the entry point {point.name!r} in group {point.group!r}: "
            "expected 'module' or 'module:attribute'"
        )
    module, attr, extras = found
    return module, attr, extras


def load(point: "Any") -> "Any":
    """The object that an entry point names."""
    module, attr, _ = parts(point)
    __import__(module)
    found: Any = sys.modules[module]
    for part in filter(None, (attr or "").split(".")):
        found = getattr(found, part)
    return found
