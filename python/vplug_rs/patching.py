"""One function of somebody else's package replaced: checked first, counted, contained, undone.

    patch = vplug_rs.patching.replace(
        Processor, "_get_logits", make, expects=lambda self, hidden_states, lm_head, bias: None, switch="MY_PATCH"
    )
    patch.state, patch.calls, patch.failures
    patch.undo()

`make(original)` gives the replacement. Whatever is in the way (another signature, a missing name, a switch that is off,
a `make` that fails) leaves the owner as it was and is told by `state` and `reason`: a patch never stops its host.
"""

from __future__ import annotations

import inspect
import os
from functools import wraps
from threading import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

APPLIED, OFF, REFUSED, UNDONE = "applied", "off", "refused", "undone"
_OFF_WORDS = {"0", "off", "false", "no"}
_MARK = "__vplug_patch__"


class StepAside(Exception):  # noqa: N818  # a word to the patch, not an error
    """Raised by a replacement: the original is to answer this call."""


class Patch:
    """What became of one replacement.

    Attributes:
        owner, name: The class or module, and the function's name in it.
        label: Who put it in: a second patch of the same label at the same place is the first one.
        state: "applied", "off" (by its switch), "refused" (see `reason`) or "undone".
        reason: Why it was not applied, in one sentence; else empty.
        original: The function as it was, or None where there is none.
        calls: How often the replacement was asked.
        stepped_aside: How often it left the answer to the original.
        failures: How often it failed and the original answered instead.
        last_failure: The last such exception as text, or None.
    """

    def __init__(self, owner: Any, name: str, label: str) -> None:
        self.owner, self.name, self.label = owner, name, label
        self.state, self.reason = REFUSED, ""
        self.original: Any = None
        self.calls = self.stepped_aside = self.failures = 0
        self.last_failure: str | None = None
        self._lock = Lock()
        self._installed: Any = None
        self._before: Any = None
        self._inherited = False

    def undo(self) -> None:
        """Puts the original back; where somebody has wrapped ours since, ours only passes calls on from now on."""
        if self.state != APPLIED:
            return
        self.state = UNDONE
        if inspect.getattr_static(self.owner, self.name, None) is not self._installed:
            return
        if self._inherited:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self._before)

    def _count(self, what: str, error: BaseException | None = None) -> int:
        with self._lock:
            number: int = getattr(self, what) + 1
            setattr(self, what, number)
            if error is not None:
                self.last_failure = f"{type(error).__name__}: {error}"
        return number

    def __repr__(self) -> str:
        return f"<Patch {self.label} of {_told(self.owner)}.{self.name}, {self.state}>"


def replace(  # noqa: PLR0913  # keywords, each with its default
    owner: Any,
    name: str,
    make: Callable[[Any], Callable[..., Any]],
    *,
    expects: Callable[..., Any] | None = None,
    switch: str | None = None,
    label: str | None = None,
    contain: bool = True,
) -> Patch:
    """Replaces one function, method, class method or static method.

    Args:
        owner: The class or module.
        name: The function's name in it.
        make: Called once with the original; gives the replacement, which takes the same arguments.
        expects: A function with the parameters that the original has to have: names, kinds and which have defaults.
        switch: An environment variable; 0, off, false or no in it leaves everything as it is.
        label: Who this is, for a second call at the same place; by default module and name of `make`.
        contain: An exception of the replacement is counted and told once, and the original answers. Not for a
            replacement whose half-done work must not be repeated. What replaces a coroutine function is one, too.

    Returns:
        The patch, applied or not.
    """
    patch = Patch(owner, name, label or _told(make))
    if switch is not None and os.environ.get(switch, "").strip().lower() in _OFF_WORDS:
        patch.state, patch.reason = OFF, f"{switch} is {os.environ[switch]}"
        return patch
    raw = inspect.getattr_static(owner, name, None)
    function = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
    known = _known(function, patch.label)
    if known is not None:
        return known
    patch.original = function
    patch.reason = _objection(patch, function, expects)
    if patch.reason:
        return patch
    try:
        replacement = make(function)
        wrapper = _wrapper(patch, function, replacement, contain=contain)
        installed = type(raw)(wrapper) if isinstance(raw, (staticmethod, classmethod)) else wrapper
        inherited = name not in vars(owner)
        setattr(owner, name, installed)
    except Exception as error:  # noqa: BLE001  # a patch never stops its host
        patch.reason = f"it could not be made: {type(error).__name__}: {error}"
        return patch
    patch._before, patch._installed, patch._inherited = raw, installed, inherited
    patch.state = APPLIED
    # last: whoever finds the mark finds a whole patch
    setattr(wrapper, _MARK, patch)
    return patch


def _known(function: Any, label: str) -> Patch | None:
    """The applied patch of that label on a function, below other patches too."""
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        known = getattr(function, "__dict__", {}).get(_MARK)
        if isinstance(known, Patch) and known.label == label and known.state == APPLIED:
            return known
        function = getattr(function, "__wrapped__", None)
    return None


def _objection(patch: Patch, function: Any, expects: Callable[..., Any] | None) -> str:
    """What speaks against a patch, or nothing."""
    place = f"{_told(patch.owner)}.{patch.name}"
    if function is None:
        return f"there is no {place}"
    if not callable(function) or isinstance(function, type):
        return f"{place} is no function"
    if expects is None:
        return ""
    try:
        found = _bare(inspect.signature(function))
    except (TypeError, ValueError):
        return f"{place} has a signature that cannot be read"
    try:
        wanted = _bare(inspect.signature(expects))
    except (TypeError, ValueError):
        return f"{expects!r}, which is expected in its place, is no function with a signature"
    if _shape(found) != _shape(wanted):
        return f"{place} takes {found}, and {wanted} was expected"
    return ""


def _bare(signature: inspect.Signature) -> inspect.Signature:
    """Without annotations, which say nothing about how it is called."""
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=signature.empty)


def _shape(signature: inspect.Signature) -> list[tuple[str, object, bool]]:
    return [(p.name, p.kind, p.default is p.empty) for p in signature.parameters.values()]


def _wrapper(patch: Patch, original: Any, replacement: Callable[..., Any], *, contain: bool) -> Any:
    @wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        if patch.state == APPLIED:
            patch._count("calls")
            try:
                return replacement(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # raised again unless the original is to answer
                _step_aside(patch, error, contain=contain)
        return original(*args, **kwargs)

    @wraps(original)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        if patch.state == APPLIED:
            patch._count("calls")
            try:
                answer = replacement(*args, **kwargs)
                return await answer if inspect.isawaitable(answer) else answer
            except Exception as error:  # noqa: BLE001  # the same
                _step_aside(patch, error, contain=contain)
        return await original(*args, **kwargs)

    return awaited if inspect.iscoroutinefunction(original) else called


def _step_aside(patch: Patch, error: Exception, *, contain: bool) -> None:
    """In an `except` clause: raises again what the host is to see; else the original is to answer."""
    if isinstance(error, StepAside):
        patch._count("stepped_aside")
    elif not contain:
        raise  # noqa: PLE0704  # the one that is being handled
    elif patch._count("failures", error) == 1:
        _tell(patch)


def _tell(patch: Patch) -> None:
    from vplug_rs.notices import warn

    place = f"{_told(patch.owner)}.{patch.name}"
    warn(f"{patch.label} failed in place of {place}, which answers itself: {patch.last_failure}")


def _told(owner: Any) -> str:
    module = getattr(owner, "__module__", None)
    name = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None) or type(owner).__name__
    return f"{module}.{name}" if isinstance(module, str) else str(name)
