"""One function of a class replaced, its signature checked first: by `vplug_rs` where it is installed, else here."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING

from vplug_logits.errors import LogitsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LABEL = "vplug_logits"
_MARK = "__vplug_logits__"


class PatchRefusedError(LogitsError):
    """The function that was to be replaced is missing, or takes other arguments than it is known to take."""


@dataclass(frozen=True)
class Applied:
    """A function was replaced.

    Attributes:
        by: "vplug_rs" or "vplug_logits": whose means were used.
        undo: Puts the original back.
    """

    by: str
    undo: Callable[[], None]


def replace(
    owner: type, name: str, make: Callable[[Any], Callable[..., Any]], expects: Callable[..., Any] | None = None
) -> Applied:
    """Replace `owner.name`, once: the second call finds the first one's work.

    Args:
        owner: The class.
        name: The function's name in it.
        make: Called with the original; gives the replacement. What that raises is its own business: it is not
            contained here, since only the replacement knows which of its errors the original may answer.
        expects: A function with the parameters that the original has to have: names, kinds, which have defaults.

    Raises:
        PatchRefusedError: The original is missing or has other parameters.
    """
    try:
        from vplug_rs import patching
    except ImportError:
        return _replace(owner, name, make, expects)
    patch = patching.replace(owner, name, make, expects=expects, label=LABEL, contain=False)
    if patch.state != patching.APPLIED:
        raise PatchRefusedError(patch.reason)
    return Applied("vplug_rs", patch.undo)


def _replace(
    owner: type, name: str, make: Callable[[Any], Callable[..., Any]], expects: Callable[..., Any] | None
) -> Applied:
    place = f"{owner.__module__}.{owner.__qualname__}.{name}"
    original = inspect.getattr_static(owner, name, None)
    if not inspect.isfunction(original):
        raise PatchRefusedError(f"there is no method {place}")
    if _MARK in vars(original):
        applied: Applied = vars(original)[_MARK]
        return applied
    if expects is not None and _shape(original) != _shape(expects):
        raise PatchRefusedError(f"{place} takes {_bare(original)}, and {_bare(expects)} was expected")
    replacement = make(original)
    answering = [replacement]

    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        return answering[0](*args, **kwargs)

    inherited = name not in vars(owner)

    def undo() -> None:
        answering[0] = original  # for whoever has wrapped ours since: that cannot be taken out from the middle
        if inspect.getattr_static(owner, name, None) is not called:
            return
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    applied = Applied("vplug_logits", undo)
    setattr(owner, name, called)
    setattr(called, _MARK, applied)  # last: whoever finds the mark finds a whole patch
    return applied


def _shape(function: Callable[..., Any]) -> list[tuple[str, object, bool]]:
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default is p.empty) for p in parameters]


def _bare(function: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)
