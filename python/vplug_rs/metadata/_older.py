"""Interfaces that the standard still has on Python 3.11 and 3.12, deprecated there."""

import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from vplug_rs.metadata._points import EntryPoint, EntryPoints


def _warn(text: str) -> None:
    # this function, its caller here, the method that called it: the next frame is the user's
    warnings.warn(text, DeprecationWarning, stacklevel=4)


def field(point: "EntryPoint", item: "Any") -> "Any":
    """`entry_point[0]`."""
    _warn("EntryPoint tuple interface is deprecated. Access members by name.")
    return point._key()[item]


def name_and_point(point: "EntryPoint") -> "Iterator[Any]":
    """`dict(entry_points)`."""
    _warn("Construction of dict of EntryPoints is deprecated in favor of EntryPoints.")
    return iter((point.name, point))


def by_index(points: "EntryPoints", index: int) -> "Any":
    """`entry_points[0]`, on Python 3.11."""
    _warn("Accessing entry points by index is deprecated. Cast to tuple if needed.")
    return list.__getitem__(points, index)


def list_method(points: "EntryPoints", name: str, *args: "Any", **kwargs: "Any") -> "Any":
    """A method of a list, on Python 3.11."""
    text = "EntryPoints list interface is deprecated. Cast to list if needed."
    if name in {"__add__", "__eq__"}:
        (other,) = args
        if not isinstance(other, tuple):
            _warn(text)
            other = tuple(other)
        return points.__class__(tuple(points) + other) if name == "__add__" else tuple(points) == other
    _warn(text)
    return getattr(list, name)(points, *args, **kwargs)


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
        warnings.warn("SelectableGroups dict interface is deprecated. Use select.", DeprecationWarning, stacklevel=3)

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
