"""One plugin's distribution as its files declare it: entry points and requirements with their lines, source folders.

In: the folder of its pyproject.toml; the rows of an installed one come from whoever has them. Nothing is built or run.
"""

from __future__ import annotations

import os
import re
import tomllib

from vplug_rs import toml_lines
from vplug_rs.errors import NotFoundError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_BYTES = 1024 * 1024
_NAME = re.compile(r"\s*([A-Za-z0-9._-]+)")
_SKIPPED = frozenset({"build", "dist", "docs", "node_modules", "target", "test", "tests"})


class Point:
    """One entry point, and where it is written down."""

    __slots__ = ("file", "group", "line", "name", "value")

    def __init__(self, group: str, name: str, value: str, file: str, line: int | None) -> None:  # a row
        self.group, self.name, self.value, self.file, self.line = group, name, value, file, line

    def __str__(self) -> str:
        return f"`{self.name} = {self.value}` in group `{self.group}`"


class Requirement:
    """One requirement that is no extra's, and where it is written down."""

    __slots__ = ("file", "line", "text")

    def __init__(self, text: str, file: str, line: int | None) -> None:
        self.text, self.file, self.line = text, file, line

    @property
    def name(self) -> str:
        """The project that is required, in the spelling that all have in common."""
        found = _NAME.match(self.text)
        return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


class Project:
    """What is known of a plugin without running anything.

    Attributes:
        label: What to call it.
        points: Its entry points.
        requires: What it cannot be installed without.
        roots: The folders that its packages lie in.
        whole: Whether it is installed, among others: a module that is not below them is nowhere else.
    """

    def __init__(
        self, label: str, points: list[Point], requires: list[Requirement], roots: list[str], *, whole: bool
    ) -> None:
        self.label, self.points, self.requires, self.roots, self.whole = label, points, requires, roots, whole


def read(folder: str) -> Project:
    """The plugin in a folder with a pyproject.toml.

    Args:
        folder: The folder, or the file itself.

    Raises:
        NotFoundError: There is no such file.
        UsageError: It cannot be read, or has not the shape of one.
    """
    file = folder if os.path.basename(folder) == "pyproject.toml" else os.path.join(folder, "pyproject.toml")
    folder = os.path.dirname(file) or os.curdir
    try:
        with open(file, "rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"`{file}` has more than {MOST_BYTES} bytes", hint="this is no pyproject.toml")
        text = data.decode("utf-8").replace("\r\n", "\n")
        table = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"there is no file `{file}`", hint="name the folder of a plugin, or an installed distribution"
        ) from None
    except OSError as error:
        raise UsageError(f"`{file}` cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"`{file}` is no TOML: {error}", hint="correct it; nothing was checked") from None
    lines = toml_lines.lines(text)
    project = _table(table, "project")
    points = [
        Point(group, name, str(value), file, toml_lines.line_of(lines, (*path, group, name)))
        for path in (("project", "entry-points"), ("tool", "poetry", "plugins"))
        for group, rows in _table(table, *path).items()
        if isinstance(rows, dict)
        for name, value in rows.items()
    ]
    dependencies = project.get("dependencies", [])
    requires = [
        Requirement(text, file, toml_lines.line_of(lines, ("project", "dependencies", number)))
        for number, text in enumerate(dependencies if isinstance(dependencies, list) else [])
        if isinstance(text, str)
    ]
    requires += [
        Requirement(name, file, toml_lines.line_of(lines, ("tool", "poetry", "dependencies", name)))
        for name, value in _table(table, "tool", "poetry", "dependencies").items()
        if not (isinstance(value, dict) and value.get("optional"))
    ]
    name = project.get("name")
    roots = _roots(folder, table, [point.value for point in points])
    return Project(name if isinstance(name, str) else folder, points, requires, roots, whole=False)


def _table(table: Any, *path: str) -> dict[str, Any]:
    for part in path:
        table = table.get(part) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _roots(folder: str, table: dict[str, Any], values: list[str]) -> list[str]:
    """The folders that packages lie in: those that the build's settings name, and those where one is found."""
    named = ["src", "python", "", *_settings(table)]
    found = [os.path.normpath(os.path.join(folder, each)) for each in dict.fromkeys(named)]
    tops = {value.partition(":")[0].partition(".")[0].strip() for value in values}
    seen = {top for top in tops for root in found if _holds(root, top)}
    if tops - seen:  # a build may be told in ways that only it knows
        for below, folders, _ in os.walk(folder):
            folders[:] = sorted(each for each in folders if each not in _SKIPPED and not each.startswith("."))
            if any(_holds(below, top) for top in tops - seen):
                found.append(below)
    return found


def _settings(table: dict[str, Any]) -> Iterator[str]:
    tool = _table(table, "tool")
    candidates: list[Any] = [
        _table(tool, "maturin").get("python-source"),
        _table(tool, "pdm", "build").get("package-dir"),
    ]
    where = _table(tool, "setuptools", "packages", "find").get("where")
    candidates += where if isinstance(where, list) else []
    for name, path in _table(tool, "setuptools", "package-dir").items():
        candidates.append(path if not name else os.path.dirname(path) if isinstance(path, str) else None)
    wheel = _table(tool, "hatch", "build", "targets", "wheel")
    for key in ("packages", "sources"):
        listed = wheel.get(key)
        candidates += (
            [os.path.dirname(each) for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
        )
    packages = _table(tool, "poetry").get("packages")
    candidates += (
        [each.get("from") for each in packages if isinstance(each, dict)] if isinstance(packages, list) else []
    )
    return (each for each in candidates if isinstance(each, str))


def _holds(root: str, top: str) -> bool:
    if not top.isidentifier():
        return False
    path = os.path.join(root, top)
    return os.path.isfile(path + ".py") or os.path.isfile(os.path.join(path, "__init__.py"))
