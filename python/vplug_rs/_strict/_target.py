"""One genuine module, and what all replacements for it share: its classes, the guard, makers of its objects."""

from __future__ import annotations

import pathlib

from ._guards import Guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_new = object.__new__


class Target:
    """A genuine metadata module.

    Args:
        module: `importlib.metadata` or `importlib_metadata`, executed.

    Raises:
        LookupError: A name that the replacements need is missing or already replaced.
    """

    __slots__ = ("alone", "check", "distribution_class", "entry_point_class", "entry_points_class", "space")

    def __init__(self, module: ModuleType) -> None:
        guard = Guard(module)
        self.check = guard.check
        self.alone = guard.alone
        self.space: dict[str, Any] = vars(module)
        self.distribution_class: Any = self.space["PathDistribution"]
        self.entry_point_class: Any = self.space["EntryPoint"]
        self.entry_points_class: Any = self.space["EntryPoints"]

    def folder(self, *concerns: str) -> Callable[[Any], str | None]:
        """A function that gives the metadata path of a distribution whose files the core may read.

        It gives `None` for a subclass, an instance with attributes of its own, a path in an archive, and when
        anything of these concerns was rebound.
        """
        intact, plain = self.check("files", "folder", *concerns), self.distribution_class

        def folder(distribution: Any) -> str | None:
            if type(distribution) is not plain:
                return None
            attributes = vars(distribution)
            path = attributes.get("_path")
            if type(path) is not pathlib.PosixPath or len(attributes) != 1 or not intact():
                return None
            return str(path)

        return folder

    def distribution(self, path: pathlib.Path) -> Any:
        """A `PathDistribution` as its constructor makes it, without the slow look for abstract methods."""
        made = _new(self.distribution_class)
        made._path = path
        return made

    def entry_point(self, name: str, value: str, group: str, distribution: Any) -> Any:
        """An `EntryPoint` as its constructor and `_for` make it."""
        made = _new(self.entry_point_class)
        vars(made).update(name=name, value=value, group=group, dist=distribution)
        return made
