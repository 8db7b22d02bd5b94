"""Which plugins may load, by which rule: from code, a variable or a TOML file; judged before any import."""

from __future__ import annotations

import os

from vplug_rs import _core
from vplug_rs.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

COLLISIONS = ("first", "last", "error", "all")
_VLLM_VARIABLE = "VLLM_PLUGINS"


class Policy:
    """An immutable set of rules. Without any, all plugins of a group may load.

    Lists are read our way (blanks stripped, globs, `!name` denies, `dist:NAME` names a distribution) or, by
    `Policy.vllm()`, exactly as vLLM reads its variable. A denial always wins.

    Args:
        allow: Names that may load; None allows all, an empty list nothing.
        deny: Names that may not.
        groups: Rules of single groups: `{"group": {"allow": [...], "deny": [...]}}`. Their `allow` takes the place of
            the general one, their `deny` is added.
        explicit_only: Groups of which only what a list names may load.
        require: Names that have to be there and allowed, else `PolicyError` before anything is imported.
        order: Names that load first, in this order; the rest keeps the order of discovery.
        collision: What counts when several distributions offer one name: "first" (in the order of discovery), "last",
            "error" or "all".
        when: `{"name or pattern": "module"}`: it loads only if that module can be found (which imports nothing).
        host: (name, version) of the host; a plugin whose own `Requires-Dist` excludes it is refused.
        strict: Faults of the policy raise before any import, failures of plugins after all were tried.
        origin: Where the lists come from, for people.

    Raises:
        PolicyError: an entry is no pattern, or a rule is unknown.
    """

    __slots__ = ("_judge", "collision", "host", "lists", "origin", "require", "strict", "when")

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
        for group, rules in (groups or {}).items():
            unknown = rules.keys() - {"allow", "deny"}
            if unknown:
                raise PolicyError(f"`{min(unknown)}` is no rule of a group", hint="Known are `allow` and `deny`.")
            allowed, denied = _names(rules.get("allow"), "allow"), _names(rules.get("deny") or (), "deny") or []
            lists.append((group, f"{origin}, group `{group}`", allowed, denied))
        self._set(
            lists,
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
        explicit_only: Iterable[str] = (),
        require: Iterable[str] = (),
        order: Iterable[str] = (),
        when: Mapping[str, str] | None = None,
        host: tuple[str, str] | None = None,
    ) -> None:
        if collision not in COLLISIONS:
            raise PolicyError(f"`{collision}` is no collision rule", hint=f"Known are {', '.join(COLLISIONS)}.")
        self.lists = tuple(lists)
        self.require = tuple(_names(require, "require") or ())
        self.collision = collision
        self.when = dict(when or {})
        self.host = host
        self.strict = strict
        self.origin = origin
        try:
            self._judge = _core.judge(
                lists,
                exact=exact,
                explicit_only=_names(explicit_only, "explicit_only") or [],
                require=self.require,
                order=_names(order, "order") or [],
                collision=collision,
            )
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
            PolicyError: the file cannot be read, or has an unknown key or a value of the wrong type; with the line.
        """
        from vplug_rs import policy_file

        return cls(**{**policy_file.read(os.fspath(path)), **rules})

    @classmethod
    def vllm(cls, *, strict: bool = False) -> Policy:
        """`VLLM_PLUGINS` exactly as vLLM reads it, as it is now: split at commas, nothing stripped, case counts.

        Of doubles the last one counts, as there; a plugin with an empty name is never let in.
        """
        text = os.environ.get(_VLLM_VARIABLE)
        policy = cls.__new__(cls)
        allowed = None if text is None else text.split(",")
        lists: list[tuple[str | None, str, list[str] | None, list[str]]] = [(None, _VLLM_VARIABLE, allowed, [])]
        policy._set(lists, exact=True, collision="last", strict=strict, origin=_VLLM_VARIABLE)
        return policy

    def judge(
        self, group: str, candidates: Sequence[tuple[str, str]], elsewhere: Sequence[str] = ()
    ) -> _core.Judgement:
        """Judges the plugins of a group, given as (name, distribution). Imports nothing.

        `elsewhere` are names in other groups: one list may serve many.
        """
        return self._judge.judge(group, list(candidates), list(elsewhere))

    def __repr__(self) -> str:
        return f"<Policy from {self.origin}>"


def _names(names: Iterable[str] | None, rule: str) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, (str, bytes)):
        raise PolicyError(f"`{rule}` is a text, but a list of names is wanted", hint="Put it into a list.")
    out = list(names)
    for name in out:
        if not isinstance(name, str):
            raise PolicyError(f"`{rule}` has {name!r}, but a list of names is wanted")
    return out
