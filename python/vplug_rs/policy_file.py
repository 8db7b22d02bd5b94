"""A policy file -> the arguments of `Policy`; what is wrong in it is said with its line."""

from __future__ import annotations

import os
import re

from vplug_rs import _core, toml_lines
from vplug_rs.errors import PolicyError
from vplug_rs.policy import COLLISIONS, GROUP_RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_IN_PYPROJECT = ("tool", "vplug")


class _File:
    def __init__(self, path: str) -> None:
        self.path = path
        import tomllib

        try:
            with open(path, "rb") as stream:
                data = stream.read()
        except OSError as error:
            raise PolicyError(f"it cannot be read: {error.strerror}", path=path) from error
        except ValueError as error:  # a NUL in the path
            raise PolicyError(f"it cannot be read: {error}", path=path) from error
        try:
            self.text = data.decode("utf-8")
            whole = tomllib.loads(self.text)
        except UnicodeDecodeError as error:
            raise PolicyError("it is not UTF-8", path=path, line=data.count(b"\n", 0, error.start) + 1) from None
        except RecursionError:
            raise PolicyError("its lists and tables are nested too deeply to be read", path=path) from None
        except ValueError as error:  # TOMLDecodeError, or int() on too many digits
            found = re.search(r"at line (\d+)", str(error))
            line = int(found[1]) if found else self.text.rstrip("\n").count("\n") + 1
            raise PolicyError(str(error), path=path, line=line) from None
        self.prefix = _IN_PYPROJECT if os.path.basename(path) == "pyproject.toml" else ()
        self.table: Any = whole
        for key in self.prefix:
            if not isinstance(self.table, dict) or key not in self.table:
                # a policy that is looked for in the wrong file must not let everything in
                raise PolicyError(
                    "it has no table `[tool.vplug]`", path=path, hint="An empty one lets every plugin load."
                )
            self.table = self.table[key]

    def fault(self, message: str, *keys: str | int, hint: str | None = None) -> PolicyError:
        """What is wrong with a key, or with what it stands in where that is not written down."""
        line = toml_lines.line_of(toml_lines.lines(self.text), [*self.prefix, *keys])
        return PolicyError(message, path=self.path, line=line, hint=hint)


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
    if not isinstance(value, list):
        raise file.fault(f"`{keys[-1]}` has to be a list of texts", *keys)
    for number, item in enumerate(value):
        if not isinstance(item, str):
            raise file.fault(f"`{keys[-1]}` has to be a list of texts", *keys, number)
    return value


def _patterns(file: _File, value: Any, *keys: str) -> list[str]:
    names = _strings(file, value, *keys)
    for number, name in enumerate(names):
        try:
            _core.judge([(None, "", [name], [])], exact=False, explicit_only=[], require=[], order=[], collision="all")
        except ValueError as error:
            entry, reason = error.args
            raise file.fault(f"`{entry}` is no pattern: {reason}", *keys, number) from None
    return names


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
    if _core.version_meets(host["version"], "==0") is None:
        raise file.fault(f"`{host['version']}` is no version by PEP 440", key, "version")
    return host["name"], host["version"]


def _groups(file: _File, value: Any, key: str) -> dict[str, dict[str, list[str]]]:
    if not isinstance(value, dict):
        raise file.fault(f"`{key}` has to be a table of groups", key)
    groups = {}
    for group, rules in value.items():
        if not isinstance(rules, dict):
            raise file.fault(f"`{group}` has to be a table with {', '.join(GROUP_RULES)}", key, group)
        for rule in rules:
            if rule not in GROUP_RULES:
                known = f"Known are {', '.join(GROUP_RULES)}."
                raise file.fault(f"`{rule}` is no rule of a group", key, group, rule, hint=known)
        groups[group] = {rule: _READERS[rule](file, names, key, group, rule) for rule, names in rules.items()}
    return groups


_READERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("allow", "deny"), _patterns),
    **dict.fromkeys(("explicit-only", "require", "order"), _strings),
    "collision": _collision,
    "strict": _flag,
    "when": _texts,
    "host": _host,
    "groups": _groups,
}
