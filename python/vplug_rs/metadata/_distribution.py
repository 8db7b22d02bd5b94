"""`Distribution` and `PathDistribution`: own types with the interface of the running interpreter's."""

import os
import stat
import sys
from abc import abstractmethod

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# larger files are no metadata, and reading one would fill the memory; bytes
LARGEST_TEXT = 16 * 1024 * 1024
LARGEST_RECORD = 64 * 1024 * 1024


_header_of = _core.SCANNER.header_of


class Distribution:
    """An installed distribution. Providers derive from it and define `read_text` and `locate_file`."""

    def __new__(cls, *_args: "Any", **_kwargs: "Any") -> "Any":
        if sys.version_info >= (3, 12):
            _warn_if_abstract(cls)
        return super().__new__(cls)

    @abstractmethod
    def read_text(self, filename: "Any") -> "str | None":
        """The text of a metadata file, or None if there is none."""

    @abstractmethod
    def locate_file(self, path: "Any") -> "Any":
        """A path to a file of this distribution, given relative to where it is installed."""

    @classmethod
    def from_name(cls, name: str) -> "Any":
        """The distribution of a project, in any spelling of its name.

        Raises PackageNotFoundError if there is none, ValueError for an empty name.
        """
        if not name:
            raise ValueError("A distribution name is required.")
        for found in cls.discover(name=name):
            return found
        from vplug_rs.metadata._genuine import genuine

        raise genuine().PackageNotFoundError(name)

    @classmethod
    def discover(cls, *, context: "Any" = None, **kwargs: "Any") -> "Iterator[Any]":
        """All distributions that match a `DistributionFinder.Context`, or its keywords `name` and `path`.

        Raises ValueError for both at once.
        """
        if context and kwargs:
            raise ValueError("cannot accept context and kwargs")
        from vplug_rs.metadata import _discovery

        return _discovery.discover(context, kwargs)

    @staticmethod
    def at(path: "Any") -> "PathDistribution":
        """The distribution whose metadata folder this is."""
        return PathDistribution(path)

    @property
    def metadata(self) -> "Any":
        """The header fields of METADATA, as an email message."""
        from vplug_rs.metadata import _message

        return _message.from_text(self.read_text("METADATA") or self.read_text("PKG-INFO") or self.read_text(""))

    @property
    def name(self) -> str:
        """The project's name, as its metadata spells it."""
        name: str = self.metadata["Name"]
        return name

    @property
    def version(self) -> str:
        """The version, as the metadata spells it."""
        version: str = self.metadata["Version"]
        return version

    @property
    def _normalized_name(self) -> str:
        return _normalize(self.name)

    @property
    def entry_points(self) -> "Any":
        """The entry points of this distribution, in file order."""
        from vplug_rs.metadata._points import EntryPoints

        return EntryPoints._from_text_for(self.read_text("entry_points.txt"), self)

    @property
    def files(self) -> "Any":
        """The installed files as PackagePath objects, or None if no list of them exists."""
        from vplug_rs.metadata import _files

        return _files.of(self)

    @property
    def requires(self) -> "list[str] | None":
        """The requirements, extras as markers, or None if none are stated."""
        listed: list[str] | None = self.metadata.get_all("Requires-Dist")
        if listed:
            return list(listed)
        source = self.read_text("requires.txt")
        return None if source is None else list(self._deps_from_requires_text(source))

    @classmethod
    def _deps_from_requires_text(cls, source: str) -> "Iterable[str]":
        from vplug_rs.metadata._genuine import genuine

        found: Iterable[str] = genuine().Distribution._deps_from_requires_text(source)
        return found

    if sys.version_info >= (3, 13):

        @property
        def origin(self) -> "Any":
            """Where it was installed from (direct_url.json), or None."""
            text = self.read_text("direct_url.json")
            if text is None:
                return None
            import json
            from types import SimpleNamespace

            try:
                return json.loads(text, object_hook=lambda data: SimpleNamespace(**data))
            except (ValueError, RecursionError, TypeError) as error:
                from vplug_rs.metadata import _report

                path = getattr(self, "_info", None) or repr(self)
                _report.note("direct-url-malformed", os.path.join(path, "direct_url.json"), str(error))
                return None


def _warn_if_abstract(kind: type) -> None:
    names = {name for base in kind.__mro__ for name in vars(base)}
    abstract = {name for name in names if getattr(getattr(kind, name), "__isabstractmethod__", False)}
    if abstract:
        import warnings

        warnings.warn(f"Unimplemented abstract methods {abstract}", DeprecationWarning, stacklevel=3)


class PathDistribution(Distribution):
    """A distribution whose metadata is a folder or file on disk (or in something that acts like one)."""

    def __new__(cls, *_args: "Any", **_kwargs: "Any") -> "Any":
        return object.__new__(cls)

    def __init__(self, path: "Any") -> None:
        # a text stays a text until a path object is asked for: pathlib costs more than the answer
        self._given = path
        self._info: str | None = path if isinstance(path, str) else _fspath(path)

    @property
    def _path(self) -> "Any":
        if isinstance(self._given, str):
            import pathlib

            self._given = pathlib.Path(self._given)
        return self._given

    @_path.setter
    def _path(self, path: "Any") -> None:
        PathDistribution.__init__(self, path)

    def read_text(self, filename: "str | os.PathLike[str]") -> "str | None":
        """The text of a metadata file, or None if there is none that can be read.

        Bytes that are not UTF-8 become U+FFFD and are reported.
        """
        data = self._read_bytes(filename)
        if data is None or isinstance(data, str):
            return data
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            self._note_bad_bytes(os.fspath(filename), error)
            text = data.decode("utf-8", "replace")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    def _read_bytes(self, filename: "str | os.PathLike[str]") -> "bytes | str | None":
        if self._info is None:
            return _read_foreign(self._given, filename)
        name = os.fspath(filename)
        path = os.path.join(self._info, name) if name else self._info
        try:
            # looked at before it is opened: a pipe would make us wait
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):
                return None
            if self._is_too_large(name, found.st_size):
                return None
            with open(path, "rb") as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self._note(name, "unreadable", str(error))
            return None

    def _is_too_large(self, name: str, size: int) -> bool:
        most = LARGEST_RECORD if name == "RECORD" else LARGEST_TEXT
        if size > most:
            self._note(name, "too-large", f"it has {size} bytes; at most {most} are read")
        return size > most

    def _explain_absence(self, *names: str) -> bool:
        """Reports why files that gave nothing could not be read. Whether none of them is there."""
        absent = True
        for name in names:
            try:
                found = os.stat(os.path.join(self._info or "", name) if name else self._info or "")
            except (FileNotFoundError, NotADirectoryError, ValueError):
                continue
            except OSError as error:
                self._note(name, "unreadable", str(error))
                absent = False
                continue
            if stat.S_ISREG(found.st_mode):
                self._is_too_large(name, found.st_size)
            elif name:
                self._note(name, "unreadable", "it is not a regular file")
            absent = absent and not (name or stat.S_ISREG(found.st_mode))
        return absent

    def _headers_file(self) -> str:
        """The file that the header fields were looked for in."""
        names = ("METADATA", "PKG-INFO")
        return next((name for name in names if os.path.isfile(os.path.join(self._info or "", name))), "")

    def _note(self, name: str, fault: str, message: str, **more: "Any") -> None:
        from vplug_rs.metadata import _report

        base = os.path.basename(name)
        kind = {"entry_points.txt": "entry-points", "RECORD": "record"}.get(base, "metadata")
        path = os.path.join(self._info or str(self._given), name) if name else self._info
        _report.note(f"{kind}-{fault}", path, message, distribution=self._label(), **more)

    def _note_bad_bytes(self, name: str, error: UnicodeDecodeError) -> None:
        line = error.object.count(b"\n", 0, error.start) + 1
        self._note(name, "not-utf8", f"line {line} has a byte that is not UTF-8", line=line)

    def _label(self) -> str:
        # a folder in an archive ends with a slash
        stem = os.path.basename((self._info or str(self._given)).rstrip("/")).rpartition(".")[0]
        # a file name that is not UTF-8 comes with surrogates
        return stem.replace("-", " ", 1).encode("utf-8", "backslashreplace").decode("utf-8")

    def locate_file(self, path: "str | os.PathLike[str]") -> "Any":
        """The path of an installed file, given relative to the folder that holds the metadata folder."""
        return self._path.parent / path

    def _header(self, field: str) -> "str | None":
        if self._info is None:
            value: str | None = super().metadata[field]
            return value
        found: str | None = _header_of(self._info, field, False)
        if found is None:
            if self._explain_absence("METADATA", "PKG-INFO", ""):
                self._note("", "missing", "it has neither METADATA nor PKG-INFO")
            else:
                self._note(self._headers_file(), f"without-{field.lower()}", f"its metadata has no field `{field}`")
        return found

    @property
    def name(self) -> "Any":
        """The project's name, as its metadata spells it; None if it does not."""
        return self._header("Name")

    @property
    def version(self) -> "Any":
        """The version, as the metadata spells it; None if it does not."""
        return self._header("Version")

    @property
    def metadata(self) -> "Any":
        """The header fields of METADATA or PKG-INFO, as an email message."""
        from vplug_rs.metadata import _message

        return _message.from_folder(self) if self._info is not None else super().metadata

    @property
    def entry_points(self) -> "Any":
        """The entry points of this distribution, in file order; malformed lines are passed over and reported."""
        from vplug_rs.metadata._points import EntryPoint, EntryPoints

        data = self._read_bytes("entry_points.txt")
        try:
            text = data.decode("utf-8") if isinstance(data, bytes) else data
        except UnicodeDecodeError as error:
            # a half-read file would look whole: it is left out
            self._note_bad_bytes("entry_points.txt", error)
            return EntryPoints()
        path = os.path.join(self._info or str(self._given), "entry_points.txt")
        rows, findings = _core.parse_entry_points(text or "", path, self._label())
        if findings:
            from vplug_rs.metadata import _report

            _report.keep(findings)
        return EntryPoints(EntryPoint(name, value, group)._for(self) for name, value, group, _ in rows)

    @property
    def _normalized_name(self) -> str:
        stem, extension = os.path.splitext(os.path.basename(self._info or str(self._given)))
        if extension in {".dist-info", ".egg-info"}:
            key = _normalize(stem.partition("-")[0])
            if key:
                return key
        return _normalize(self.name or "")


def _normalize(name: str) -> str:
    try:
        return _core.normalize(name)
    except UnicodeEncodeError:  # bytes of a file name that are not UTF-8
        return _core.normalize(os.fsencode(name).decode("utf-8", "replace"))


def _fspath(path: "Any") -> "str | None":
    try:
        text = os.fspath(path)
    except TypeError:
        return None  # a zip member or another object that acts like a path
    return text if isinstance(text, str) else None


def _read_foreign(path: "Any", filename: "Any") -> "bytes | str | None":
    try:
        text: str = path.joinpath(filename).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        data: bytes = path.joinpath(filename).read_bytes()
        return data
    except (FileNotFoundError, IsADirectoryError, KeyError, NotADirectoryError, PermissionError):
        return None
    return text
