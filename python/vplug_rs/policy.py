"""Which plugins may load, by which rule: from code, a variable or a TOML file; judged before any import."""

from __future__ import annotations

import os

from vplug_rs import _core
from vplug_rs.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    Unmatched = tuple[str, str, str | None, bool]

COLLISIONS = ("first", "last", "error", "all")
GROUP_RULES = ("allow", "deny", "require")
_VLLM_VARIABLE = "VLLM_PLUGINS"


class Judgement:
    """The core's judgement on one group with what Python adds to it; the same attributes."""

    __slots__ = ("doubled", "missing", "order", "unmatched", "verdicts")

    def __init__(self, found: _core.Judgement) -> None:
        self.verdicts = found.verdicts
        self.order = found.order
        self.unmatched = found.unmatched
        self.missing = found.missing
        self.doubled = found.doubled


class Policy:
    """An immutable set of rules. Without any, all plugins of a group may load.

    Lists are read our way (blanks stripped, globs, `!name` denies, `dist:NAME` names a distribution) or, by
    `Policy.vllm()`, exactly as vLLM reads its variable. A denial always wins. An entry of any rule that names nothing
    installed is told, and under `strict` a fault: a denial with a slip in it lets in what it was to keep out.

    Args:
        allow: Names that may load; None allows all, an empty list nothing.
        deny: Names that may not.
        groups: Rules of single groups: `{"group": {"allow": [...], "deny": [...], "require": [...]}}`. Their `allow`
            and `require` take the place of the general ones, their `deny` is added.
        explicit_only: Groups of which only what a list names may load.
        require: Names that have to be there and allowed, else `PolicyError` before anything is imported. It holds for
            every group that has no `require` of its own, so a policy for several groups has it in `groups` alone.
        order: Names that load first, in this order; the rest keeps the order of discovery.
        collision: What counts when several distributions offer one name: "first" (in the order of discovery), "last",
            "error" or "all".
        when: `{"name or pattern": "module"}`: it loads only if that module can be found. The module itself is looked
            for, not only its top package; nothing is imported, so one that only exists at run time is not found.
        host: (name, version) of the host; a plugin whose own `Requires-Dist` excludes it is refused.
        strict: Faults of the policy raise before any import, failures of plugins after all were tried.
        origin: Where the lists come from, for people.

    Raises:
        PolicyError: an entry is no pattern, a rule is unknown or of the wrong shape.
    """

    __slots__ = (
        "_group_require",
        "_judge",
        "collision",
        "explicit_only",
        "host",
        "lists",
        "order",
        "origin",
        "require",
        "strict",
        "when",
    )

    def __init__(  # noqa: PLR0913  # keywords, each with its default
        self,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] = (),
        *,
        groups: Mapping[str, Mapping[str, Iterable[str] | None]] | None = None,
        explicit_only: Iterable[str] = (),
        require: Iterable[str] = (),
        order: Iterable[str] = (),
        collision: str = "first",
        when: Mapping[str, str] | None = None,
        host: tuple[str, str] | None = None,
        strict: bool = False,
        origin: str = "code",
    ) -> None:
        lists: list[tuple[str | None, str, list[str] | None, list[str]]]
        lists = [(None, origin, _names(allow, "allow"), _names(deny, "deny") or [])]
        group_require: dict[str, tuple[str, ...]] = {}
        for group, rules in _mapping({} if groups is None else groups, "groups", "dicts of rules").items():
            rules = _mapping(rules, f"groups.{group}", "lists of names")  # noqa: PLW2901  # the same, checked
            for rule in rules:
                if rule not in GROUP_RULES:
                    raise PolicyError(f"`{rule}` is no rule of a group", hint=f"Known are {', '.join(GROUP_RULES)}.")
            allowed, denied = _names(rules.get("allow"), "allow"), _names(rules.get("deny"), "deny") or []
            lists.append((group, f"{origin}, group `{group}`", allowed, denied))
            required = _names(rules.get("require"), "require")
            if required is not None:
                group_require[group] = tuple(required)
        self._set(
            lists,
            group_require=group_require,
            explicit_only=explicit_only,
            require=require,
            order=order,
            collision=collision,
            when=when,
            host=host,
            strict=strict,
            origin=origin,
        )

    def _set(  # noqa: PLR0913
        self,
        lists: list[tuple[str | None, str, list[str] | None, list[str]]],
        *,
        origin: str,
        strict: bool,
        collision: str,
        exact: bool = False,
        group_require: Mapping[str, tuple[str, ...]] | None = None,
        explicit_only: Iterable[str] = (),
        require: Iterable[str] = (),
        order: Iterable[str] = (),
        when: Mapping[str, str] | None = None,
        host: tuple[str, str] | None = None,
    ) -> None:
        if collision not in COLLISIONS:
            raise PolicyError(f"`{collision}` is no collision rule", hint=f"Known are {', '.join(COLLISIONS)}.")
        if not isinstance(strict, bool):
            raise PolicyError(f"`strict` is {strict!r}, but True or False is wanted")
        self.lists = tuple(lists)
        self.require = tuple(_names(require, "require") or ())
        self.explicit_only = tuple(_names(explicit_only, "explicit_only") or ())
        self.order = tuple(_names(order, "order") or ())
        self.collision = collision
        self.when = _conditions(when)
        self.host = _pair(host)
        self.strict = strict
        self.origin = origin
        self._group_require = dict(group_require or {})
        try:
            self._judge = _core.judge(
                lists,
                exact=exact,
                explicit_only=self.explicit_only,
                require=self.require,
                order=self.order,
                collision=collision,
            )
        except UnicodeEncodeError as error:
            raise PolicyError(f"{error.object!r} in {origin} is no Unicode text, so it can name no plugin") from None
        except ValueError as error:
            entry, reason = error.args
            raise PolicyError(f"`{entry}` in {origin} is no pattern: {reason}") from None

    @classmethod
    def from_env(cls, variable: str, **rules: Any) -> Policy:
        """The allowlist in an environment variable, separated by commas, as it is now.

        Unset allows all; empty allows nothing. Other rules as for `Policy`.
        """
        text = os.environ.get(variable)
        return cls(None if text is None else text.split(","), origin=variable, **rules)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **rules: Any) -> Policy:
        """The policy in `[tool.vplug]` of a pyproject.toml, or at the top of any other TOML file.

        Raises:
            PolicyError: the file cannot be read, is a pyproject.toml without that table, or has an unknown key, a
                value of the wrong type or an entry that is no pattern; with the line.
        """
        from vplug_rs import policy_file

        return cls(**{**policy_file.read(os.fspath(path)), **rules})

    @classmethod
    def vllm(
        cls, *, strict: bool = False, collision: str = "last", environment: Mapping[str, str] | None = None
    ) -> Policy:
        """`VLLM_PLUGINS` exactly as vLLM reads it, as it is now: split at commas, nothing stripped, case counts.

        Of doubles the last one counts, in the place of the first, as in vLLM's dict; the others are not imported,
        unless `collision` is "all". A plugin with an empty name is never let in. `environment` is where the variable
        stands, if not in this process's.
        """
        text = (os.environ if environment is None else environment).get(_VLLM_VARIABLE)
        policy = cls.__new__(cls)
        allowed = None if text is None else _encodable(text).split(",")
        lists: list[tuple[str | None, str, list[str] | None, list[str]]] = [(None, _VLLM_VARIABLE, allowed, [])]
        policy._set(lists, exact=True, collision=collision, strict=strict, origin=_VLLM_VARIABLE)
        return policy

    @property
    def names_distributions(self) -> bool:
        """Whether some list names a distribution."""
        return self._judge.names_distributions

    @property
    def names_any(self) -> bool:
        """Whether some rule names plugins or groups, so that it matters what other groups offer."""
        return bool(
            len(self.lists) > 1
            or self.explicit_only
            or self.order
            or self.when
            or any(allowed is not None or denied for _, _, allowed, denied in self.lists)
        )

    def judge(
        self,
        group: str,
        candidates: Sequence[tuple[str, str]],
        elsewhere: Sequence[str | tuple[str, str]] = (),
        *,
        refused: Mapping[int, tuple[str, str]] | None = None,
        groups: Collection[str] | None = None,
    ) -> _core.Judgement:
        """Judges the plugins of a group, given as (name, distribution). Imports nothing.

        Args:
            group: The group.
            candidates: Its plugins, in the order of discovery.
            elsewhere: What other groups offer, as names or as (name, distribution): one list may serve many groups.
            refused: Numbers of candidates that something else keeps out, with its reason and rule. If the lists let
                them in, that is their verdict, and they count neither as doubles nor as there.
            groups: All groups that are installed, to tell tables of groups that are not; None tells none.
        """
        rows, pairs = list(candidates), [row for row in elsewhere if not isinstance(row, str)]
        names = [row if isinstance(row, str) else row[0] for row in elsewhere]
        found = self._judge.judge(group, rows, names)
        out = Judgement(found)
        if refused:
            self._keep_out(out, refused, group, rows)
        if out.unmatched and pairs:  # names are settled; distributions of other groups are not
            idle = {row[:2] for row in self._judge.judge(group, pairs, [name for name, _ in rows]).unmatched}
            out.unmatched = [row for row in out.unmatched if row[:2] in idle]
        if self.when or groups is not None:
            out.unmatched += self._idle([name for name, _ in rows] + names, group, groups)
        required = self._group_require.get(group)
        if required is not None:
            there = {rows[number][0] for number in out.order}
            out.missing = [name for name in required if name not in there]
        return out  # type: ignore[return-value]  # the same attributes; the core's own class cannot be made here

    def _keep_out(
        self, out: Judgement, refused: Mapping[int, tuple[str, str]], group: str, rows: list[tuple[str, str]]
    ) -> None:
        """Judges the others among themselves, so that one which may not load keeps no other one from loading."""
        others = [number for number in range(len(rows)) if number not in refused]
        among = self._judge.judge(group, [rows[number] for number in others], [])
        verdicts = dict(zip(others, among.verdicts, strict=True))
        for number, (allowed, reason, _) in enumerate(out.verdicts):
            if number in refused:
                by_lists = not allowed and reason != "collision"
                verdicts[number] = out.verdicts[number] if by_lists else (False, *refused[number])
        out.verdicts = [verdicts[number] for number in range(len(rows))]
        out.order = [others[number] for number in among.order]
        out.doubled = [(name, [others[number] for number in numbers]) for name, numbers in among.doubled]
        out.missing = among.missing

    def _idle(self, plugins: list[str], group: str, groups: Collection[str] | None) -> list[Unmatched]:
        """Conditions that name no plugin, and rules of groups that are not installed."""
        rows = []
        if self.when:
            from fnmatch import fnmatchcase

            idle = [pattern for pattern in self.when if not any(fnmatchcase(name, pattern) for name in plugins)]
            rows += [_unmatched(pattern, f"`when` of {self.origin}", plugins) for pattern in idle]
        if groups is not None:
            known = [*groups, group]
            tables = [name for name, _, _, _ in self.lists if name is not None]
            for rule, named in (("groups", tables), ("explicit_only", self.explicit_only)):
                origin = f"`{rule}` of {self.origin}"
                rows += [_unmatched(name, origin, known) for name in named if name not in known]
        return rows

    def __repr__(self) -> str:
        return f"<Policy from {self.origin}>"


def _encodable(text: str) -> str:
    """A variable's text without what is no UTF-8: it is shown as an escape, and names no plugin, as under vLLM."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _names(names: Iterable[str] | None, rule: str) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, (str, bytes)):
        raise PolicyError(f"`{rule}` is a text, but a list of names is wanted", hint="Put it into a list.")
    try:
        out = list(names)
    except TypeError:
        raise PolicyError(f"`{rule}` is {names!r}, but a list of names is wanted") from None
    for name in out:
        if not isinstance(name, str):
            raise PolicyError(f"`{rule}` has {name!r}, but a list of names is wanted")
    return out


def _mapping(value: Any, rule: str, of: str) -> Mapping[str, Any]:
    # `collections.abc` may be half imported by another thread (seen on 3.13.0); this one the interpreter starts with
    from _collections_abc import Mapping

    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise PolicyError(f"`{rule}` is {value!r}, but a dict of {of} is wanted")
    return value


def _conditions(when: Any) -> dict[str, str]:
    conditions = dict(_mapping({} if when is None else when, "when", "patterns with a module each"))
    for module in conditions.values():
        if not isinstance(module, str):
            raise PolicyError(f"`when` has {module!r}, but the name of a module is wanted")
    return conditions


def _pair(host: Any) -> tuple[str, str] | None:
    if host is None:
        return None
    if not isinstance(host, (tuple, list)) or [type(text) for text in host] != [str, str]:
        raise PolicyError(f"`host` is {host!r}, but the host's name and version are wanted, both as texts")
    if _core.version_meets(host[1], "==0") is None:
        hint = 'As in ("myapp", "2.5").'
        raise PolicyError(f"`host` has the version {host[1]!r}, which is none by PEP 440", hint=hint)
    return host[0], host[1]


def _unmatched(entry: str, origin: str, names: Sequence[str]) -> Unmatched:
    near = _core.nearest(entry, names)
    return entry, origin, near, near is not None and near.strip().lower() == entry.strip().lower()
