"""An exception -> its traceback as text, from the first frame that is neither ours nor the import system's."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_FRAMES = 50  # a recursion of a thousand frames says no more
_MOST_TEXT = 20_000
_MOST_CAUSES = 20


def own(exception: BaseException) -> str:
    """The text; empty where the plugin itself has no frame in it."""
    at = exception.__traceback__
    while at is not None and _foreign(at):
        at = at.tb_next
    if at is None:
        return ""
    import traceback

    try:
        text = "".join(traceback.format_exception(type(exception), exception, at, limit=_MOST_FRAMES))
    except (Exception, SystemExit):  # noqa: BLE001  # an exception that cannot be shown; its frames can
        text = "".join(["Traceback (most recent call last):\n", *traceback.format_tb(at, limit=_MOST_FRAMES)])
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…\n"


def strip(exception: BaseException) -> None:
    """Takes the tracebacks off an exception and what led to it: they hold the frames of whoever asked."""
    left: list[BaseException | None] = [exception]
    for _ in range(_MOST_CAUSES):
        if not left:
            return
        error = left.pop()
        if error is None or error.__traceback__ is None:
            continue
        BaseException.with_traceback(error, None)  # past a `__setattr__` of its own, as of a frozen dataclass
        left += [error.__cause__, error.__context__]


def _foreign(at: TracebackType) -> bool:
    file = at.tb_frame.f_code.co_filename
    return file.startswith((_OURS, "<frozen importlib")) or file == "<frozen runpy>"
