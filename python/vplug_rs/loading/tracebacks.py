"""An exception -> its traceback as text, from the first frame that is neither ours nor the import system's."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_FRAMES = 50  # a recursion of a thousand frames says no more


def own(exception: BaseException) -> str:
    """The text; empty where the plugin itself has no frame in it."""
    at = exception.__traceback__
    while at is not None and _foreign(at):
        at = at.tb_next
    if at is None:
        return ""
    import traceback

    return "".join(traceback.format_exception(type(exception), exception, at, limit=_MOST_FRAMES))


def _foreign(at: TracebackType) -> bool:
    file = at.tb_frame.f_code.co_filename
    return file.startswith((_OURS, "<frozen importlib")) or file == "<frozen runpy>"
