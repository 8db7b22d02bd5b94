"""One class or object against the calls that vLLM makes on it: presence, signature, whether it is async.

Everything is looked up statically, so no code of the plugin's runs. What cannot be told without running it, such as a
property or a function without a readable signature, is taken to be right.
"""

from __future__ import annotations

import functools
import inspect
import sys

from vplug_rs.groups import whose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vplug_rs.loading.plugin import Plugin

ERROR, WARNING = "error", "warning"
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "<missing>"})()
# `def` may give one too
_AWAITABLE = ("Awaitable", "Coroutine", "Future", "Task")
_OURS = __name__.rpartition(".")[0]


class Finding:
    """One thing that a plugin's author should look at.

    Attributes:
        severity: "error": vLLM refuses it or will fail at it; or "warning".
        message: What is wrong, with the plugin, its distribution and version.
        hint: The fix.
        text: What is wrong, alone.
    """

    __slots__ = ("hint", "message", "severity", "text")

    def __init__(self, severity: str, subject: str, text: str, hint: str) -> None:
        self.severity, self.text, self.hint = severity, text, hint
        self.message = f"{subject}: {text}"

    def __str__(self) -> str:
        return f"{self.severity}: {self.message} ({self.hint})"

    def __repr__(self) -> str:
        return f"<Finding {self}>"


class Check:
    """What a checker has found out so far about one class or object."""

    def __init__(self, found: Any, plugin: Plugin | None = None) -> None:
        self.found = found
        self.is_class = issubclass(type(found), type)  # by the type itself: `__class__` is the object's own to answer
        self.cls: type = found if self.is_class else type(found)
        self.subject = f"`{_of(self.cls, '__module__')}.{_of(self.cls, '__qualname__')}`"
        if plugin is not None:
            self.subject = f"{whose(plugin)} ({self.subject})"
        self.findings: list[Finding] = []
        self._abstract: set[str] = set()

    def error(self, text: str, hint: str) -> None:
        """Adds what vLLM refuses or fails at."""
        self.findings.append(Finding(ERROR, self.subject, text, hint))

    def warn(self, text: str, hint: str) -> None:
        """Adds what vLLM lives with."""
        self.findings.append(Finding(WARNING, self.subject, text, hint))

    def wants_class(self, hint: str) -> bool:
        """Whether it is a class; an error if not."""
        if not self.is_class:
            self.error("this is no class but an object of it", hint)
        return self.is_class

    def descends(self, name: str, package: str = "vllm") -> bool:
        """Whether a class of this name in this package, or below it, is among its bases."""
        return any(_is(base, name, package) for base in _of(self.cls, "__mro__"))

    def definer(self, name: str) -> type | None:
        """The class that a name comes from, or None."""
        return next((base for base in _of(self.cls, "__mro__") if name in _of(base, "__dict__")), None)

    def has_constructor(self) -> bool:
        """Whether a constructor of its own may set what the class does not show."""
        definer = self.definer("__init__")
        return definer is not None and definer is not object and not _within(definer, _OURS)

    def inherits(self, name: str, base: str) -> bool:
        """Whether a name comes as it is from this base class of vLLM's."""
        definer = self.definer(name)
        return definer is not None and _is(definer, base, "vllm")

    def attribute(self, name: str) -> Any:
        """An attribute as it stands there, unbound; MISSING where there is none but in our own protocols."""
        own, definer = _own(self.found), self.definer(name)
        if name in own:
            return own[name]
        return MISSING if definer is None or _within(definer, _OURS) else _of(definer, "__dict__")[name]

    def method(self, protocol: type, name: str, *calls: str, severity: str = ERROR) -> None:
        """Checks one method.

        Args:
            protocol: Where the method stands as it should be.
            name: Its name.
            calls: How vLLM calls it, as "logits, ctx=": one name for each argument, `=` after those by keyword.
            severity: What it is if the method is not there.
        """
        raw = self.attribute(name)
        form = f"Declare `{_form(protocol, name)}`."
        if raw is MISSING:
            (self.error if severity == ERROR else self.warn)(f"there is no `{name}`", form)
            return
        function, skip = self._function(name, raw)
        if function is MISSING:
            return
        if not callable(function):
            self.error(f"`{name}` is {type(function).__name__}, and a method is wanted", form)
        elif inspect.getattr_static(function, "__isabstractmethod__", False) is True:
            self._abstract.add(name)
            self.error(f"`{name}` is abstract still, so no instance can be made", form)
        else:
            self._signature(name, function, skip, calls, form)
            self._asynchrony(name, function, form, wanted=inspect.iscoroutinefunction(getattr(protocol, name)))

    def constructor(self, protocol: type, *calls: str) -> None:
        """Checks whether the class can be made as vLLM makes it; `calls` as for a method. To be asked last."""
        for name in sorted(_abstract(self.cls) - self._abstract):
            self.error(f"`{name}` is abstract still, so no instance can be made", f"Write `{name}`.")
        form = f"Declare `{_form(protocol, '__init__')}`." if calls[0] else "Let it be made without arguments."
        names = ("__init__", "__new__")
        definers = {name: self.definer(name) for name in names}
        plain = {name for name in names if definers[name] is object}
        if len(plain) == len(names) and calls[0]:
            self.error(f"it takes no arguments, and vLLM makes it with ({_call(calls[0])})", form)
        for name in names:
            definer = definers[name]
            if name not in plain and definer is not None and not _within(definer, "typing"):
                function, skip = self._function(name, _of(definer, "__dict__")[name])
                self._signature(name, function, skip if name == "__init__" else 1, calls, form)

    def _function(self, name: str, raw: Any) -> tuple[Any, int]:
        """What is called, and how many arguments it gets by itself; MISSING where only running it would tell."""
        if isinstance(raw, staticmethod):
            return raw.__func__, 0
        if isinstance(raw, classmethod):
            return raw.__func__, 1
        opaque = (property, functools.cached_property, functools.partialmethod)
        if isinstance(raw, opaque) or inspect.isdatadescriptor(raw):
            return MISSING, 0
        return raw, 1 if inspect.isfunction(raw) and (self.is_class or name not in _own(self.found)) else 0

    def _signature(self, name: str, function: Any, skip: int, calls: tuple[str, ...], form: str) -> None:
        signature = None if function is MISSING else _signature(function)
        if signature is None:
            return
        for call in calls:
            words = call.replace(",", " ").split()
            keywords = {word[:-1]: None for word in words if word.endswith("=")}
            try:
                signature.bind(*[None] * (skip + len(words) - len(keywords)), **keywords)
            except TypeError as error:
                shown = "it" if name == "__new__" else f"`{name}{_bare(signature)}`"
                how = "makes it with" if name in {"__init__", "__new__"} else "calls it with"
                self.error(f"{shown} does not take what vLLM {how}, ({_call(call)}): {error}", form)
                return

    def _asynchrony(self, name: str, function: Any, form: str, *, wanted: bool) -> None:
        called = function if inspect.isfunction(function) or not callable(function) else _called(function)
        inner = _unwrapped(called)
        is_async = any(_is_async(each) for each in (function, called, inner))
        if inspect.isfunction(inner) and inspect.isasyncgenfunction(inner):
            self.error(f"`{name}` is an async generator (it has a `yield`), and vLLM does not iterate over it", form)
        elif wanted and not is_async and not _promises(function):
            self.error(f"`{name}` is no `async def`, and vLLM awaits what it gives", form)
        elif is_async and not wanted:
            self.error(f"`{name}` is `async def`, and vLLM does not await it: nothing in it would run", form)


def _of(cls: type, name: str) -> Any:
    """What every class has, past a metaclass with ideas of its own."""
    return type.__getattribute__(cls, name)


def _within(cls: type, package: str) -> bool:
    return f"{_of(cls, '__module__')}.".startswith(f"{package}.")


def _is(cls: type, name: str, package: str) -> bool:
    return _of(cls, "__name__") == name and _within(cls, package)


def _abstract(cls: type) -> set[str]:
    try:
        return set(_of(cls, "__abstractmethods__"))
    except AttributeError:
        return set()


def _own(found: Any) -> Any:
    """What stands in an object itself and not in its class."""
    try:
        return object.__getattribute__(found, "__dict__")
    except AttributeError:
        return {}


def _signature(function: Any) -> inspect.Signature | None:
    try:
        if sys.version_info >= (3, 14):  # annotations may name what is there for type checkers alone
            from annotationlib import Format

            return inspect.signature(function, annotation_format=Format.STRING)
        return inspect.signature(function)
    except Exception:  # noqa: BLE001  # none that can be read; or a callable with ideas of its own
        return None


def _bare(signature: inspect.Signature) -> inspect.Signature:
    parameters = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)


def _form(protocol: type, name: str) -> str:
    """How a method is declared, as the protocol has it."""
    raw = inspect.getattr_static(protocol, name)
    function = raw.__func__ if isinstance(raw, classmethod) else raw
    signature = _signature(function)
    assert signature is not None
    words = ("@classmethod " if isinstance(raw, classmethod) else "") + (
        "async def" if inspect.iscoroutinefunction(function) else "def"
    )
    return f"{words} {name}{_bare(signature)}"


def _call(call: str) -> str:
    return ", ".join(f"{word}..." if word.endswith("=") else word for word in call.replace(",", " ").split())


def _called(function: Any) -> Any:
    return inspect.getattr_static(type(function), "__call__", function)


def _unwrapped(function: Any) -> Any:
    try:
        return inspect.unwrap(function)
    except Exception:  # noqa: BLE001  # wrapped in a circle; or a callable with ideas of its own
        return function


def _is_async(function: Any) -> bool:
    try:
        return inspect.iscoroutinefunction(function)
    except Exception:  # noqa: BLE001  # the same
        return False


def _promises(function: Any) -> bool:
    """Whether a plain function says that it gives something to await."""
    signature = _signature(function)
    return signature is not None and any(word in str(signature.return_annotation) for word in _AWAITABLE)
