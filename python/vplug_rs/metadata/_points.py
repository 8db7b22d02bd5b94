"""`EntryPoint` and `EntryPoints`: own types with the interface of the running interpreter's."""

import sys

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, ClassVar


class _Late:
    """An attribute that costs too much to have before it is asked for: `dist` and `pattern`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, point: "Any", owner: type) -> "Any":
        from vplug_rs.metadata import _late

        return getattr(_late, self.name)(point)


class EntryPoint:
    """A named reference to an object, offered by a distribution in a group.

    Attributes: `name`, `value` (the reference, `module:attribute [extras]`), `group`, and `dist`, the distribution,
    or None. Immutable, hashable, ordered by (name, value, group); `dist` takes no part in comparisons.
    """

    name: str
    value: str
    group: str
    dist: "Any" = _Late()
    pattern: "ClassVar[Any]" = _Late()

    def __init__(self, name: str, value: str, group: str) -> None:
        vars(self).update(name=name, value=value, group=group)

    def load(self) -> "Any":
        """Imports the module and returns the object that the reference names.

        Raises ValueError if the value is no reference, ImportError or AttributeError if there is no such object, and
        whatever the module raises.
        """
        from vplug_rs.metadata import _late

        return _late.load(self)

    @property
    def module(self) -> str:
        """The module of the reference. Raises ValueError if the value is no reference."""
        return self._parts()[0]

    @property
    def attr(self) -> "str | None":
        """The attribute of the reference, or None. Raises ValueError if the value is no reference."""
        return self._parts()[1]

    @property
    def extras(self) -> "list[str]":
        """The words in brackets behind the reference. Raises ValueError if the value is no reference."""
        return self._parts()[2]

    def _parts(self) -> "tuple[str, str | None, list[str]]":
        from vplug_rs.metadata import _late

        return _late.parts(self)

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

    if sys.version_info < (3, 13):

        def __getitem__(self, item: "Any") -> "Any":
            from vplug_rs.metadata import _older

            return _older.field(self, item)

    if sys.version_info < (3, 12):

        def __iter__(self) -> "Any":
            from vplug_rs.metadata import _older

            return _older.name_and_point(self)

    def __setstate__(self, state: "dict[str, Any]") -> None:
        vars(self).update(state)


_SEQUENCE: type = tuple if sys.version_info >= (3, 12) else list


class EntryPoints(_SEQUENCE):  # type: ignore[misc]  # the base differs by interpreter
    """An immutable sequence of entry points: a list on Python 3.11, a tuple from 3.12 on, as in the standard."""

    __slots__ = ()

    def __getitem__(self, name: "Any") -> "Any":
        """The first entry point of a name. Raises KeyError if there is none."""
        if sys.version_info < (3, 12) and isinstance(name, int):
            from vplug_rs.metadata import _older

            return _older.by_index(self, name)
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
        return (EntryPoint(name, value, group) for name, value, group, _ in _core.parse_entry_points(text or "")[0])


if sys.version_info < (3, 12):

    def _deprecated(name: str) -> "Any":
        def method(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
            from vplug_rs.metadata import _older

            return _older.list_method(self, name, *args, **kwargs)

        return method

    for _name in [
        "__setitem__",
        "__delitem__",
        "__iadd__",
        "__add__",
        "__eq__",
        "append",
        "reverse",
        "extend",
        "pop",
        "remove",
        "insert",
        "sort",
    ]:
        setattr(EntryPoints, _name, _deprecated(_name))
    EntryPoints.__hash__ = None  # type: ignore[assignment]


def make(rows: "list[tuple[str, str, str, int, int]]", inventory: "_core.Inventory") -> "list[EntryPoint]":
    """Entry points for the rows of an inventory; those of one distribution share its object."""
    owners: dict[int, list[Any]] = {}
    made = []
    new = object.__new__
    for name, value, group, row, _ in rows:
        owner = owners.get(row)
        if owner is None:
            owner = owners[row] = [inventory.path_of(row), None]  # the object comes when it is asked for
        point = new(EntryPoint)
        # past the guard of __setattr__
        point.__dict__.update(name=name, value=value, group=group, _owner=owner)
        made.append(point)
    return made
