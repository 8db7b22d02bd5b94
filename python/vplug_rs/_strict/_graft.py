"""Give a genuine function other code and take it back: same object, name, signature, defaults, position.

The new code holds the replacement as a constant, so the genuine module's namespace gains nothing.
"""

from __future__ import annotations

from types import CodeType, FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Factory = Callable[[Callable[..., Any]], Callable[..., Any]]

_MARK = "vplug_rs: the replacement stands here"
_VARARGS, _KEYWORDS = 0x04, 0x08


def _none() -> Any:
    _vplug_rs: Any = "vplug_rs: the replacement stands here"
    return _vplug_rs()


def _one(a: Any) -> Any:
    _vplug_rs: Any = "vplug_rs: the replacement stands here"
    return _vplug_rs(a)


def _two(a: Any, b: Any) -> Any:
    _vplug_rs: Any = "vplug_rs: the replacement stands here"
    return _vplug_rs(a, b)


def _keywords(**a: Any) -> Any:
    _vplug_rs: Any = "vplug_rs: the replacement stands here"
    return _vplug_rs(a)


class _Cell:
    # Code with a free variable fits only a function that has one: methods that say `super()`.
    def _one(self: Any) -> Any:
        _vplug_rs: Any = "vplug_rs: the replacement stands here"
        __class__  # type: ignore[name-defined]  # noqa: B018 (makes the cell)
        return _vplug_rs(self)


# (positional arguments, takes **keywords, free variables) -> code
_STUBS: dict[tuple[int, bool, tuple[str, ...]], CodeType] = {
    (0, False, ()): _none.__code__,
    (1, False, ()): _one.__code__,
    (2, False, ()): _two.__code__,
    (0, True, ()): _keywords.__code__,
    (1, False, ("__class__",)): _Cell._one.__code__,
}


class Graft:
    """One function's old and new code.

    Args:
        function: The genuine function. It stays the same object.
        factory: Called with a copy of the genuine function (to step aside to); returns the replacement, which takes
            the same arguments by position, or one dict for a function of `**keywords`.

    Raises:
        LookupError: The function has a form that no stub fits.
    """

    __slots__ = ("_function", "_new", "_old")

    def __init__(self, function: FunctionType, factory: Factory) -> None:
        old = function.__code__
        keywords = bool(old.co_flags & _KEYWORDS)
        stub = _STUBS[old.co_argcount, keywords, old.co_freevars]
        if old.co_flags & _VARARGS or old.co_kwonlyargcount or old.co_posonlyargcount:
            raise LookupError(function)
        names = old.co_argcount + keywords
        genuine = FunctionType(
            old, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        hook = factory(genuine)
        self._function = function
        self._old = old
        self._new = stub.replace(
            co_consts=tuple(hook if constant == _MARK else constant for constant in stub.co_consts),
            co_varnames=old.co_varnames[:names] + stub.co_varnames[names:],
            co_name=old.co_name,
            co_qualname=old.co_qualname,
            # so that inspect and pdb still lead to the genuine source
            co_filename=old.co_filename,
            co_firstlineno=old.co_firstlineno,
        )

    def apply(self) -> None:
        """Put the new code in."""
        self._function.__code__ = self._new

    def undo(self) -> None:
        """Put the old code back, unless somebody else has put in theirs since."""
        if self._function.__code__ is self._new:
            self._function.__code__ = self._old
