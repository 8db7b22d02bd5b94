"""Interfaces that the standard still has on Python 3.11 and 3.12, deprecated there."""

import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sys
    from collections.abc import Iterable, Iterator
    from typing import Any

    from vplug_rs.metadata._points import EntryPoint, EntryPoints
else:
    import sys


class Subscriptable:
    """Index access to an entry point's fields."""

    def __getitem__(self, item: "Any") -> "Any":
        warnings.warn(
            "EntryPoint tuple interface is deprecated. Access members by name.", DeprecationWarning, stacklevel=2
        )
        return self._key()[item]  # type: ignore[attr-defined]

    if sys.version_info < (3, 12):

        def __iter__(self) -> "Iterator[Any]":
            warnings.warn(
                "Construction of dict of EntryPoints is deprecated in favor of EntryPoints.",
                DeprecationWarning,
                stacklevel=1,
            )
            return iter((self.name, self))  # type: ignore[attr-defined]


def _warn_list() -> None:
    warnings.warn(
        "EntryPoints list interface is deprecated. Cast to list if needed.", DeprecationWarning, stacklevel=3
    )


def warn_index() -> None:
    """Warns of `entry_points[0]`, two frames up."""
    warnings.warn(
        "Accessing entry points by index is deprecated. Cast to tuple if needed.", DeprecationWarning, stacklevel=3
    )


class DeprecatedList(list):  # type: ignore[type-arg]
    """A list whose own methods warn."""

    __slots__ = ()

    def __add__(self, other: "Any") -> "Any":
        if not isinstance(other, tuple):
            _warn_list()
            other = tuple(other)
        return self.__class__(tuple(self) + other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            _warn_list()
            other = tuple(other)  # type: ignore[arg-type]
        return tuple(self) == other

    __hash__ = None  # type: ignore[assignment]


def _warning(name: str) -> "Any":
    genuine = getattr(list, name)

    def method(self: "Any", *args: "Any", **kwargs: "Any") -> "Any":
        _warn_list()
        return genuine(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in ("__setitem__", "__delitem__", "__iadd__", "append", "reverse", "extend", "pop", "remove", "insert", "sort"):
    setattr(DeprecatedList, _name, _warning(_name))


class SelectableGroups(dict):  # type: ignore[type-arg]
    """What `entry_points()` without parameters gives on Python 3.11: groups with their entry points."""

    @classmethod
    def load(cls, points: "Iterable[EntryPoint]") -> "SelectableGroups":
        """Groups entry points, group by group in the order of their names."""
        from vplug_rs.metadata._points import EntryPoints

        grouped: dict[str, list[EntryPoint]] = {}
        for point in points:
            grouped.setdefault(point.group, []).append(point)
        return cls((group, EntryPoints(grouped[group])) for group in sorted(grouped))

    @property
    def _all(self) -> "EntryPoints":
        from vplug_rs.metadata._points import EntryPoints

        return EntryPoints(point for group in dict.values(self) for point in group)

    @property
    def groups(self) -> "set[str]":
        """The groups of all entry points."""
        return self._all.groups

    @property
    def names(self) -> "set[str]":
        """The names of all entry points."""
        return self._all.names

    def select(self, **params: "Any") -> "Any":
        """Those that match all parameters; the groups themselves without parameters."""
        return self._all.select(**params) if params else self

    def _warn(self) -> None:
        warnings.warn(
            "SelectableGroups dict interface is deprecated. Use select.", DeprecationWarning, stacklevel=3
        )

    def __getitem__(self, name: "Any") -> "Any":
        self._warn()
        return super().__getitem__(name)

    def get(self, name: "Any", default: "Any" = None) -> "Any":
        """The entry points of a group."""
        self._warn()
        return super().get(name, default)

    def __iter__(self) -> "Iterator[Any]":
        self._warn()
        return super().__iter__()

    def __contains__(self, *args: "Any") -> bool:
        self._warn()
        return super().__contains__(*args)

    def keys(self) -> "Any":
        """The groups."""
        self._warn()
        return super().keys()

    def values(self) -> "Any":
        """The entry points of each group."""
        self._warn()
        return super().values()
