"""The metadata file of each live copy: is it there, can it be read, does it say what it must?

In: copies. Out: findings. A scan of entry points never opens these files, so the commands look for themselves.
"""

from __future__ import annotations

import os

from vplug_rs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vplug_rs.cli.inventory import Copy

NAMES = ("METADATA", "PKG-INFO")
REQUIRED = (("Name", "metadata-without-name"), ("Version", "metadata-without-version"))
LIMIT = 64 * 1024 * 1024  # the core says what is too large; this only bounds what is looked at here


def check(copies: Iterable[Copy]) -> Iterator[_core.Diagnostic]:
    """Yield what is wrong with the metadata files.

    Args:
        copies: Those that are not live, or lie in an archive, are passed over.
    """
    for copy in copies:
        if copy.state == "live" and copy.origin == "files":
            yield from _check(copy)


def _check(copy: Copy) -> Iterator[_core.Diagnostic]:
    files = [path for path in (os.path.join(copy.path, name) for name in NAMES) if os.path.isfile(path)]
    path = files[0] if files else copy.path  # an `.egg-info` may be the file itself
    if not os.path.isfile(path):
        message = "there is neither METADATA nor PKG-INFO, so name and version are guessed"
        yield _core.Diagnostic("metadata-missing", copy.path, message, distribution=copy.name)
        return
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT)
    except OSError as error:
        yield _core.Diagnostic("metadata-unreadable", path, f"the file cannot be read: {error.strerror}")
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte {data[error.start]:#04x} is not UTF-8"
        yield _core.Diagnostic("metadata-not-utf8", path, message, line=line, distribution=copy.name)
    for field, code in REQUIRED:
        value = _core.read_header(copy.path, field, strict=False)
        if value is None or (isinstance(value, str) and not value.strip()):
            yield _core.Diagnostic(code, path, f"there is no `{field}`", distribution=copy.name)
