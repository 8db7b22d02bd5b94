"""`EntryPoint` and `EntryPoints`: own types with the interface of the running interpreter's."""

import sys

from vplug_rs import _core

if sys.version_info < (3, 13):
    from vplug_rs.metadata import _older

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, ClassVar


class Owner:
    """The distribution of some entry points, made when it is first asked for and shared by them."""

    __slots__ = ("made", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.made: Any = None

    def distribution(self) -> "Any":
        if self.made is None:
            from vplug_rs.metadata._distribution import PathDistribution

            self.made = PathDistribution(self.path)
        return self.made


class _LazyDistribution:
    """`EntryPoint.dist`: None on the class, as in the standard."""

    def __get__(self, point: "Any", owner: type) -> "Any":
        if point is None:
            return None
        holder = vars(point).get("_owner")
        if holder is None:
            return None
        made = vars(point)["dist"] = holder.distribution()
        return made


class _Pattern:
    """`EntryPoint.pattern`, compiled when it is asked for: `re` costs more than a scan."""

    def __get__(self, point: "Any", owner: type) -> "Any":
        import re

        return re.compile(
            r"(?P<module>[\w.]+)\s*"
            r"(:\s*(?P<attr>[\w.]+)\s*)?"
            r"((?P<extras>\[.*\])\s*)?$"
        )


def _parts(point: "Any") -> "tuple[str, str | None, list[str]]":
    value = point.value
    found = _core.parse_reference(value) if isinstance(value, str) else NotImplemented
    if found is NotImplemented:
        import re

        match = point.pattern.match(value)
        found = match and (match["module"], match["attr"], re.findall(r"\w+", match["extras"] or ""))
    if found is None:
        raise ValueError(
            f"invalid object reference {value!r} of the entry point {point.name!r} in group {point.group!r}: "
            "expected 'module' or 'module:attribute'"
        )
    return found


_POINT_BASES: "tuple[type, ...]" = (_older.Subscriptable,) if sys.version_info < (3, 13) else ()


class EntryPoint(*_POINT_BASES):  # type: ignore[misc]  # the bases differ by interpreter
    """A named reference to an object, offered by a distribution in a group.

    Attributes: `name`, `value` (the reference, `module:attribute [extras]`), `group`, and `dist`, the distribution,
    or None. Immutable, hashable, ordered by (name, value, group); `dist` takes no part in comparisons.
    """

    name: str
    value: str
    group: str
    dist = _LazyDistribution()
    pattern: "ClassVar[Any]" = _Pattern()

    def __init__(self, name: str, value: str, group: str) -> None:
        vars(self).update(name=name, value=value, group=group)

    def load(self) -> "Any":
        """Imports the module and returns the object that the reference names.

        Raises ValueError if the value is no reference, ImportError or AttributeError if there is no such object, and
        whatever the module raises.
        """
        module, attr, _ = _parts(self)
        # not __import__: that gives the top-level package
        from importlib import import_module

        found: Any = import_module(module)
        for part in filter(None, (attr or "").split(".")):
            found = getattr(found, part)
        return found

    @property
    def module(self) -> str:
        """The module of the reference. Raises ValueError if the value is no reference."""
        return _parts(self)[0]

    @property
    def attr(self) -> "str | None":
        """The attribute of the reference, or None. Raises ValueError if the value is no reference."""
        return _parts(self)[1]

    @property
    def extras(self) -> "list[str]":
        """The words in brackets behind the reference. Raises ValueError if the value is no reference."""
        return _parts(self)[2]

    def _for(self, dist: "Any") -> "EntryPoint":
        vars(self).update(dist=dist)
        return self

    def matches(self, **params: "Any") -> bool:
        """Whether each parameter equals the attribute of its name."""
        return all(wanted == getattr(self, name) for name, wanted in params.items())

    def _key(self) -> "tuple[str, str, str]":
        return self.name, self.value, self.group

    def __lt__(self, other: "Any") -> bool:
        return bool(self._key() < other._key())

    def __eq__(self, other: object) -> bool:
        return bool(self._key() == other._key())  # type: ignore[attr-defined]  # an AttributeError, as in the standard

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("EntryPoint objects are immutable.")

    def __repr__(self) -> str:
        return f"EntryPoint(name={self.name!r}, value={self.value!r}, group={self.group!r})"

    def __hash__(self) -> int:
        return hash(self._key())

    def __getstate__(self) -> "dict[str, Any]":
        # the distribution travels, the holder does not
        return {**{k: v for k, v in vars(self).items() if k != "_owner"}, "dist": self.dist}

    def __setstate__(self, state: "dict[str, Any]") -> None:
        vars(self).update(state)


_POINTS_BASE: type = _older.DeprecatedList if sys.version_info < (3, 12) else tuple


class EntryPoints(_POINTS_BASE):  # type: ignore[misc,valid-type]  # the base differs by interpreter
    """An immutable sequence of entry points: a list on Python 3.11, a tuple from 3.12 on, as in the standard."""

    __slots__ = ()

    def __getitem__(self, name: "Any") -> "Any":
        """The first entry point of a name. Raises KeyError if there is none."""
        if sys.version_info < (3, 12) and isinstance(name, int):
            _older.warn_index()
            return super().__getitem__(name)
        for point in self.select(name=name):
            return point
        raise KeyError(name)

    if sys.version_info >= (3, 13):

        def __repr__(self) -> str:
            return f"{type(self).__name__}({tuple(self)!r})"

    def select(self, **params: "Any") -> "EntryPoints":
        """Those that match all parameters, such as `group` and `name`."""
        return EntryPoints(point for point in self if point.matches(**params))

    @property
    def names(self) -> "set[str]":
        """The names of all entry points."""
        return {point.name for point in self}

    @property
    def groups(self) -> "set[str]":
        """The groups of all entry points."""
        return {point.group for point in self}

    @classmethod
    def _from_text_for(cls, text: "str | None", dist: "Any") -> "EntryPoints":
        return cls(point._for(dist) for point in cls._from_text(text))

    @staticmethod
    def _from_text(text: "str | None") -> "Iterable[EntryPoint]":
        return (EntryPoint(name, value, group) for name, value, group, _ in _core.parse_entry_points(text or ""))


def make(rows: "list[tuple[str, str, str, int, int]]", inventory: "_core.Inventory") -> "list[EntryPoint]":
    """Entry points for the rows of an inventory; those of one distribution share its object."""
    owners: dict[int, Owner] = {}
    made = []
    new = object.__new__
    for name, value, group, row, _ in rows:
        owner = owners.get(row)
        if owner is None:
            owner = owners[row] = Owner(inventory.path_of(row))
        point = new(EntryPoint)
        # past the guard of __setattr__
        point.__dict__.update(name=name, value=value, group=group, _owner=owner)
        made.append(point)
    return made
