"""Installed files: RECORD rows as paths that know their hash, size and distribution."""

import os
import pathlib
import sys
from functools import cached_property

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class FileHash:
    """A hash as RECORD states it: `mode` is the algorithm, `value` the digest in URL-safe base64 without padding."""

    def __init__(self, spec: str) -> None:
        self.mode, _, self.value = spec.partition("=")

    def __repr__(self) -> str:
        return f"<FileHash mode: {self.mode} value: {self.value}>"


class PackagePath(pathlib.PurePosixPath):
    """An installed file, relative to where the distribution is installed. `size` is in bytes, or None."""

    # three places are cheaper than a dict for each of thousands of files; others may still add attributes
    __slots__ = ("__dict__", "_spec", "dist", "size")

    dist: "Any"
    size: "int | None"
    _spec: "str | None"

    @cached_property
    def hash(self) -> "FileHash | None":
        """The stated hash, or None."""
        return FileHash(self._spec) if self._spec else None

    def read_text(self, encoding: str = "utf-8") -> str:
        """The file's text."""
        text: str = self.locate().read_text(encoding=encoding)
        return text

    def read_binary(self) -> bytes:
        """The file's bytes."""
        data: bytes = self.locate().read_bytes()
        return data

    def locate(self) -> "Any":
        """Where the file is."""
        return self.dist.locate_file(self)


def _plain(texts: "list[str]") -> "list[PackagePath]":
    return [PackagePath(text) for text in texts]


def _by_raw_paths(texts: "list[str]") -> "list[PackagePath]":
    new = object.__new__
    found = []
    for text in texts:
        path = new(PackagePath)
        path._raw_paths = [text]  # type: ignore[attr-defined]  # 3.12 and later parse it when needed
        found.append(path)
    return found


def _by_parts(texts: "list[str]") -> "list[PackagePath]":
    new = object.__new__
    found = []
    for text in texts:
        if text[:1] == "/" or text == ".":
            found.append(PackagePath(text))
            continue
        path = new(PackagePath)
        path._drv = path._root = ""  # type: ignore[attr-defined]  # what 3.11's own constructor sets
        path._parts = text.split("/")  # type: ignore[attr-defined]
        found.append(path)
    return found


def _constructor() -> "Callable[[list[str]], list[PackagePath]]":
    """The quickest way to paths whose texts are in pathlib's form, if it gives what the constructor gives."""
    quick = _by_raw_paths if sys.version_info >= (3, 12) else _by_parts
    texts = ["a/b.c/d.tar.gz", "x.py", "../../bin/run", "/abs/olute", "."]
    try:
        same = all(
            read(one) == read(PackagePath(text))
            for one, text in zip(quick(texts), texts, strict=True)
            for read in (str, hash, lambda path: path.parts, lambda path: path.suffixes, lambda path: path.parent)
        )
    except AttributeError:
        same = False
    return quick if same else _plain


_paths = _constructor()


def of(distribution: "Any") -> "list[PackagePath] | None":
    """The files of a distribution that exist, or None if no list of them is there."""
    info = getattr(distribution, "_info", None)
    rows: Any = None
    if info is not None and type(distribution).read_text.__module__ == "vplug_rs.metadata._distribution":
        rows, findings = _core.read_files(info, os.path.dirname(info) or ".")
        if findings:
            from vplug_rs.metadata import _report

            _report.keep(findings)
        if rows is None:
            distribution._explain_absence("RECORD")
            rows = _from_older_lists(distribution)
    else:
        rows = _from_older_lists(distribution)
    if rows is None:
        return None
    found = _paths([text for text, _, _ in rows])
    for path, (_, spec, size) in zip(found, rows, strict=True):
        path._spec, path.size, path.dist = spec, size, distribution
    return found


def _from_older_lists(distribution: "Any") -> "list[tuple[str, str | None, int | None]] | None":
    """RECORD, installed-files.txt or SOURCES.txt through the standard's own reading of them."""
    from vplug_rs.metadata._genuine import genuine

    reader = genuine().Distribution

    class Reader(reader):  # type: ignore[misc,valid-type]
        def read_text(self, filename: str) -> "str | None":
            text: str | None = distribution.read_text(filename)
            return text

        def locate_file(self, path: "Any") -> "Any":
            return distribution.locate_file(path)

        @property
        def _path(self) -> "Any":
            return distribution._path

    try:
        found = Reader().files
    except Exception as error:  # noqa: BLE001  # csv, paths, numbers: somebody else's file
        from vplug_rs.metadata import _report

        path = getattr(distribution, "_info", None) or repr(distribution)
        _report.note("record-malformed", path, f"its list of files cannot be used: {error}")
        return None
    if found is None:
        return None
    return [
        (str(path), f"{path.hash.mode}={path.hash.value}" if path.hash else None, path.size)
        for path in found
        if _exists(path)
    ]


def _exists(path: "Any") -> bool:
    try:
        return bool(path.locate().exists())
    except (OSError, ValueError):  # a name that no file can have
        return False
