"""Editable installs: where they point, and whether that still exists.

In: the site. Out: findings. It reads `direct_url.json`, `.egg-link` files and the tables of setuptools' finders; it
runs none of them.
"""

from __future__ import annotations

import os

from vplug_rs.cli.findings import Unread, make, read_bytes, read_text
from vplug_rs.cli.locate import SUFFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator, Sequence

    from vplug_rs import _core
    from vplug_rs.cli.inventory import Copy, Site

TABLES = frozenset({"MAPPING", "NAMESPACES"})
"""The names under which setuptools' finder keeps what it provides."""


class FinderTable:
    """What one of setuptools' editable finders provides.

    Attributes:
        path: The finder's file.
        targets: Dotted name, path without its suffix, and line of each module or package.
    """

    __slots__ = ("path", "targets")

    def __init__(self, path: str, targets: list[tuple[str, str, int]]) -> None:
        """Describe one finder."""
        self.path = path
        self.targets = targets


def check(site: Site) -> Iterator[_core.Diagnostic]:
    """Yield a finding for each editable install whose folder is gone.

    Args:
        site: The environment.
    """
    for copy in site.copies:
        if copy.state == "live" and copy.origin == "files":
            yield from _direct_url(copy)
    for path in _files(site.paths, "", ".egg-link"):
        yield from _egg_link(path)
    for table in finder_tables(site.paths):
        yield from _finder(table)


def finder_tables(paths: Iterable[str]) -> Iterator[FinderTable]:
    """Yield what setuptools' editable finders provide, from the text of their files.

    Args:
        paths: The search path.
    """
    for path in _files(paths, "__editable__", "_finder.py"):
        text = read_text(path)
        if text is not None:
            yield FinderTable(path, list(_targets(text)))


def _files(paths: Iterable[str], prefix: str, suffix: str) -> Iterator[str]:
    for folder in dict.fromkeys(paths):
        try:
            children = os.listdir(folder or os.curdir)
        except (OSError, ValueError):  # the core reports path entries that cannot be read
            continue
        for child in sorted(children):
            if child.startswith(prefix) and child.endswith(suffix):
                yield os.path.join(folder, child)


def _direct_url(copy: Copy) -> Iterator[_core.Diagnostic]:
    path = os.path.join(copy.path, "direct_url.json")
    data = read_bytes(path)
    if isinstance(data, Unread):
        if data.fault != "missing":
            yield make("direct-url-malformed", path, data.reason, copy=copy)
        return
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        yield make("direct-url-malformed", path, f"it is no JSON: {error}", copy=copy)
        return
    try:
        editable = document["dir_info"]["editable"]
        parts = urlsplit(str(document["url"]))
    except (KeyError, TypeError, ValueError):  # some other document: nothing that we could check
        return
    if editable is not True or parts.scheme != "file":
        return
    folder = url2pathname(parts.path)
    if not os.path.isdir(folder):
        yield make(
            "editable-stale",
            path,
            f"`{copy.label}` is installed in editable mode from `{folder}`, which is gone",
            copy=copy,
        )


def _egg_link(path: str) -> Iterator[_core.Diagnostic]:
    text = read_text(path)
    lines = (text or "").splitlines()
    folder = lines[0].strip() if lines else ""
    target = os.path.join(os.path.dirname(path), folder)
    if not folder:
        yield make("editable-stale", path, "the link of a development install names no folder")
    elif not os.path.isdir(target):
        yield make("editable-stale", path, f"a development install points to `{target}`, which is gone", line=1)
    else:
        yield make("egg-link", path, f"a development install points to `{target}`", line=1)


def _finder(table: FinderTable) -> Iterator[_core.Diagnostic]:
    for name, target, line in table.targets:
        if not os.path.isdir(target) and not any(os.path.isfile(target + suffix) for suffix in SUFFIXES):
            yield make(
                "editable-stale",
                table.path,
                f"the editable install of `{name}` points to `{target}`, which is gone",
                line=line,
            )


def _targets(text: str) -> Iterator[tuple[str, str, int]]:
    """Name, path and line of every string pair in a finder's tables."""
    import ast

    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # not setuptools' template: nothing to check
        return
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign):
            names: Sequence[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            names = statement.targets
        else:
            continue
        if isinstance(statement.value, ast.Dict) and any(
            isinstance(name, ast.Name) and name.id in TABLES for name in names
        ):
            yield from _pairs(statement.value)


def _pairs(table: ast.Dict) -> Iterator[tuple[str, str, int]]:
    import ast

    for key, value in zip(table.keys, table.values, strict=True):
        targets = value.elts if isinstance(value, ast.List) else [value]
        for target in targets:
            if isinstance(key, ast.Constant) and isinstance(target, ast.Constant):
                yield str(key.value), str(target.value), target.lineno
