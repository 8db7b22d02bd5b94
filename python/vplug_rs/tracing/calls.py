"""Wrappers around metadata functions: they write down each call, and give what it gave."""

import os
import sys
from _thread import get_ident
from time import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from vplug_rs.tracing.recorder import Recorder

MODULES = ("importlib.metadata", "importlib_metadata", "vplug_rs.metadata")
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_DETAIL = 200


def watched(
    recorder: "Recorder",
    genuine: "Callable[..., Any]",
    told: "Callable[[tuple[Any, ...], dict[str, Any]], str]",
    *,
    lazy: bool = False,
    summed: bool = False,
) -> "Callable[..., Any]":
    """A metadata function that is written down.

    Args:
        recorder: Where to.
        genuine: The function.
        told: Its arguments -> the text of the event.
        lazy: What it gives may be an iterator, and costs when it is read.
        summed: Calls from one line are one event.
    """

    def traced(*args: "Any", **kwargs: "Any") -> "Any":
        thread = get_ident()
        if thread in recorder.inside:  # what a metadata call calls itself is its own affair
            return genuine(*args, **kwargs)
        fresh = recorder.fresh()
        recorder.inside.add(thread)
        found, error, began = None, None, time()
        try:
            found = genuine(*args, **kwargs)
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            end = time()
            recorder.inside.discard(thread)
            postponed = lazy and hasattr(found, "__next__")
            if not postponed:
                what = told(args, kwargs)
                recorder.asked((began, end, thread, what, caller(), error, fresh, end - began), summed=summed)
        if not postponed:
            return found
        call = (began, end, told(args, kwargs), caller(), fresh)
        return _counted(recorder, found, call, summed=summed)

    return dressed(traced, genuine)


def _counted(
    recorder: "Recorder", found: "Any", call: "tuple[float, float, str, str, int]", *, summed: bool
) -> "Iterator[Any]":
    """A lazy answer costs when it is read: its event spans the reading, and its seconds are those of the steps."""
    began, end, what, asked, fresh = call
    spent, error, thread = end - began, None, get_ident()
    try:
        while True:
            thread = get_ident()
            nested = thread in recorder.inside
            recorder.inside.add(thread)
            step = time()
            try:
                item = next(found)
            except StopIteration:
                return
            except BaseException as raised:
                error = type(raised).__name__
                raise
            finally:
                end = time()
                spent += end - step
                if not nested:
                    recorder.inside.discard(thread)
            yield item
    finally:
        recorder.asked((began, end, thread, what, asked, error, fresh, spent), summed=summed)


def dressed(wrapper: "Callable[..., Any]", genuine: "Callable[..., Any]") -> "Callable[..., Any]":
    """A wrapper that looks like what it wraps."""
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__defaults__"):
        try:
            setattr(wrapper, attribute, getattr(genuine, attribute))
        except (AttributeError, TypeError):
            continue
    wrapper.__wrapped__ = genuine  # type: ignore[attr-defined]  # so that inspect shows the genuine signature
    return wrapper


def words(args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> str:
    """Arguments as text; only plain texts are shown, others by their type."""
    shown = [_word(value) for value in args]
    shown += [f"{key}={_word(value)}" for key, value in kwargs.items()]
    return ", ".join(shown)[:_MOST_DETAIL]


def _word(value: "Any") -> str:
    return repr(value) if type(value) in {str, int, bool, type(None)} else f"<{type(value).__name__}>"


def caller() -> str:
    """File, line and function of the first frame that is neither ours nor in a metadata module."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        module = str(frame.f_globals.get("__name__", ""))
        if not file.startswith((_OURS, "<frozen importlib")) and not module.startswith(MODULES):
            return f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""
