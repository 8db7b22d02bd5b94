"""A policy file -> the arguments of `Policy`; what is wrong in it is said with its line."""

from __future__ import annotations

import os
import re

from vplug_rs.errors import PolicyError
from vplug_rs.policy import COLLISIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_IN_PYPROJECT = ("tool", "vplug")
_HEADER = re.compile(r"\s*\[\s*(?P<table>[^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"""\s*(?P<key>"[^"]*"|'[^']*'|[\w.-]+)\s*=""")


class _File:
    def __init__(self, path: str) -> None:
        self.path = path
        import tomllib

        try:
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError as error:
            raise PolicyError(f"it cannot be read: {error.strerror}", path=path) from error
        try:
            self.text = data.decode("utf-8")
            whole = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            raise PolicyError("it is not UTF-8", path=path, line=data.count(b"\n", 0, error.start) + 1) from None
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"at line (\d+)", str(error))
            raise PolicyError(str(error), path=path, line=int(found[1]) if found else data.count(b"\n") or 1) from None
        self.prefix = _IN_PYPROJECT if os.path.basename(path) == "pyproject.toml" else ()
        self.table: Any = whole
        for key in self.prefix:
            self.table = self.table.get(key, {}) if isinstance(self.table, dict) else {}

    def fault(self, message: str, *keys: str, hint: str | None = None) -> PolicyError:
        return PolicyError(message, path=self.path, line=self.line(*keys), hint=hint)

    def line(self, *keys: str) -> int | None:
        """The line on which a key stands, or else what it stands in; None where that is written in another way."""
        wanted = [*self.prefix, *keys]
        table: list[str] = []
        depth, best = 0, None
        for number, text in enumerate(self.text.splitlines(), 1):
            if found := _HEADER.match(text):
                at = table = _parts(found["table"])
            elif found := _KEY.match(text):
                at = [*table, *_parts(found["key"])]
            else:
                continue
            if len(at) > depth and at == wanted[: len(at)]:
                depth, best = len(at), number
        return best


def _parts(key: str) -> list[str]:
    return [part[1] or part[2] or part[3] for part in re.finditer(r""""([^"]*)"|'([^']*)'|([^.\s]+)""", key)]


def read(path: str) -> dict[str, Any]:
    """The arguments for `Policy` in a TOML file.

    Raises:
        PolicyError: it cannot be read, has an unknown key or a value of the wrong type.
    """
    file = _File(path)
    table = file.table
    if not isinstance(table, dict):
        raise file.fault("`[tool.vplug]` is no table")
    for key in table:
        if key not in _READERS:
            raise file.fault(f"`{key}` is no rule", key, hint=f"Known are {', '.join(_READERS)}.")
    out: dict[str, Any] = {"origin": path}
    for key, value in table.items():
        out[key.replace("-", "_")] = _READERS[key](file, value, key)
    return out


def _strings(file: _File, value: Any, *keys: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise file.fault(f"`{keys[-1]}` has to be a list of texts", *keys)
    return value


def _texts(file: _File, value: Any, *keys: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise file.fault(f"`{keys[-1]}` has to be a table of texts", *keys)
    for key, item in value.items():
        if not isinstance(item, str):
            raise file.fault(f"`{key}` has to be a text", *keys, key)
    return value


def _flag(file: _File, value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise file.fault(f"`{key}` has to be true or false", key)
    return value


def _collision(file: _File, value: Any, key: str) -> str:
    if value not in COLLISIONS:
        raise file.fault(f"`{value}` is no collision rule", key, hint=f"Known are {', '.join(COLLISIONS)}.")
    return str(value)


def _host(file: _File, value: Any, key: str) -> tuple[str, str]:
    host = _texts(file, value, key)
    if host.keys() != {"name", "version"}:
        raise file.fault(f"`{key}` has to be a table with `name` and `version`", key)
    return host["name"], host["version"]


def _groups(file: _File, value: Any, key: str) -> dict[str, dict[str, list[str]]]:
    if not isinstance(value, dict):
        raise file.fault(f"`{key}` has to be a table of groups", key)
    groups = {}
    for group, rules in value.items():
        if not isinstance(rules, dict):
            raise file.fault(f"`{group}` has to be a table with `allow` or `deny`", key, group)
        for rule in rules:
            if rule not in {"allow", "deny"}:
                raise file.fault(f"`{rule}` is no rule of a group", key, group, rule, hint="Known are allow and deny.")
        groups[group] = {rule: _strings(file, names, key, group, rule) for rule, names in rules.items()}
    return groups


_READERS: dict[str, Callable[[_File, Any, str], Any]] = {
    **dict.fromkeys(("allow", "deny", "explicit-only", "require", "order"), _strings),
    "collision": _collision,
    "strict": _flag,
    "when": _texts,
    "host": _host,
    "groups": _groups,
}
