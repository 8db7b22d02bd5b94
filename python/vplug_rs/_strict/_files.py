"""Replacement for `Distribution.files`: the rows of RECORD as the genuine PackagePath objects."""

from __future__ import annotations

import os.path
import sys

from vplug_rs import _core

from ._shapes import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import PurePosixPath
    from typing import Any

    from ._target import Target

_new = object.__new__
_KEPT_FRONTS = 4096
_SAMPLES = ("a/b.py", "a-1.dist-info/METADATA", "../../bin/a", "a.py")


def files(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `Distribution.files` where there is a RECORD; without one the genuine code looks further."""
    folder, hash_class = target.folder("record"), target.space["FileHash"]
    make = _path_maker(target.space["PackagePath"])
    # The standard drops what does not exist since 3.12, the back-port in all the releases that we know.
    exists = "exists" in names_in(genuine.__code__)

    def replacement(self: Any) -> Any:
        path = folder(self)
        rows = None
        if path is not None:
            rows = _core.read_record(path, os.path.dirname(path) or ".", exists=exists)
        if type(rows) is not list or not rows:
            return genuine(self)
        found = []
        for name, spec, size in rows:
            digest = None
            if spec:
                digest = _new(hash_class)
                digest.mode, _, digest.value = spec.partition("=")
            made = make(name)
            made.hash = digest
            made.size = size
            made.dist = self
            found.append(made)
        return found

    return replacement


def _path_maker(path_class: Any) -> Callable[[str], Any]:
    """A quicker maker of equal paths, if this interpreter's pathlib works as those that we know; else the class."""

    def from_raw(name: str) -> Any:  # 3.12 and later parse on demand
        made = _new(path_class)
        made._raw_paths = [name]
        return made

    intern = sys.intern
    fronts: dict[str, list[str]] = {}

    def from_parts(name: str) -> Any:  # 3.11 has parsed already
        head, slash, tail = name.rpartition("/")
        front = fronts.get(head)
        if front is None:
            front = head.split("/") if head else []
            if "" in front or "." in front:
                return path_class(name)
            if len(fronts) >= _KEPT_FRONTS:
                fronts.clear()
            front = fronts[head] = list(map(intern, front))
        if not tail or tail == "." or (slash and not head):
            return path_class(name)
        made = _new(path_class)
        made._drv = made._root = ""
        made._parts = [*front, intern(tail)]
        return made

    for maker in (from_raw, from_parts):
        try:
            if all(_state(maker(name)) == _state(path_class(name)) for name in _SAMPLES):
                return maker
        except AttributeError:  # another pathlib's slots
            continue
    return path_class  # type: ignore[no-any-return]


def _state(path: PurePosixPath) -> tuple[Any, ...]:
    slots = [slot for cls in type(path).__mro__ for slot in getattr(cls, "__slots__", ()) if slot != "__weakref__"]
    raw = {slot: getattr(path, slot) for slot in slots if hasattr(path, slot)}
    return raw, vars(path), str(path), path.parts, path.parent, path.suffix, hash(path)
