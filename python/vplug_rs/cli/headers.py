"""The metadata files of each live copy: are they there, can they be read, do they say what they must?

In: copies. Out: findings. A scan of entry points opens neither METADATA nor RECORD, so the commands look themselves.
"""

from __future__ import annotations

import os

from vplug_rs import _core
from vplug_rs.cli.findings import Unread, make, read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vplug_rs.cli.inventory import Copy

NAMES = ("METADATA", "PKG-INFO", "")  # an `.egg-info` may be the file itself
REQUIRED = (("Name", "metadata-without-name"), ("Version", "metadata-without-version"))
LARGEST_RECORD = 64 * 1024 * 1024  # the core reads no larger one


def check(copies: Iterable[Copy]) -> Iterator[_core.Diagnostic]:
    """Yield what is wrong with the metadata files.

    Args:
        copies: Those that are not live, or lie in an archive, are passed over.
    """
    for copy in copies:
        if copy.state == "live" and copy.origin == "files":
            yield from _metadata(copy)
            yield from _record(copy)


def _metadata(copy: Copy) -> Iterator[_core.Diagnostic]:
    for name in NAMES:
        path = os.path.join(copy.path, name) if name else copy.path
        data = read_bytes(path)
        if not isinstance(data, Unread):
            yield from _headers(copy, path, data)
            return
        if data.fault != "missing" and (name or not os.path.isdir(path)):
            # Whatever cannot be read is no reason to tell anybody to delete it.
            code = "metadata-too-large" if data.fault == "too-large" else "metadata-unreadable"
            yield make(code, path, data.reason, copy=copy)
            return
    message = "there is neither METADATA nor PKG-INFO, so name and version are guessed"
    yield make("metadata-missing", copy.path, message, copy=copy)


def _headers(copy: Copy, path: str, data: bytes) -> Iterator[_core.Diagnostic]:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte {data[error.start]:#04x} is not UTF-8"
        yield make("metadata-not-utf8", path, message, line=line, copy=copy)
    for field, code in REQUIRED:
        value = _core.read_header(copy.path, field, strict=False)
        if value is None or (isinstance(value, str) and not value.strip()):
            yield make(code, path, f"there is no `{field}`", copy=copy)


def _record(copy: Copy) -> Iterator[_core.Diagnostic]:
    path = os.path.join(copy.path, "RECORD")
    data = read_bytes(path, LARGEST_RECORD)
    if isinstance(data, Unread):
        if data.fault != "missing":  # without one it is a package of the system, or an older form
            yield make(
                f"record-{'too-large' if data.fault == 'too-large' else 'unreadable'}", path, data.reason, copy=copy
            )
        return
    # The exact reading refuses what the standard library may fail on; the mended one says what that is.
    if _core.read_record(copy.path, "", exists=False) is NotImplemented:
        yield from _core.read_files(copy.path, os.path.dirname(copy.path) or os.curdir)[1]
