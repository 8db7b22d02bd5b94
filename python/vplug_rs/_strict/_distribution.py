"""Replacements for one distribution's properties: names, headers, entry points, requirements, message."""

from __future__ import annotations

import os.path

from vplug_rs import _core
from vplug_rs._core import SCANNER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._target import Target

_KEPT_STEMS = 16384
_basename = os.path.basename


def normalized_name(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `PathDistribution._normalized_name` where the file name decides."""
    folder = target.folder("name")
    kept: dict[str, str] = {}

    def replacement(self: Any) -> Any:
        path = folder(self)
        if path is None:
            return genuine(self)
        stem = _basename(path)
        name = kept.get(stem)
        if name is None:
            if not stem.isascii() or not stem.endswith((".dist-info", ".egg-info")):
                return genuine(self)
            written = stem[: stem.rindex(".")].partition("-")[0]
            if not written.lstrip("."):  # splitext takes leading dots for part of the name
                return genuine(self)
            name = _core.normalize(written)
            if len(kept) >= _KEPT_STEMS:
                kept.clear()
            kept[stem] = name
        return name

    return replacement


def entry_points(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `Distribution.entry_points`."""
    folder, make, result = target.folder("offer"), target.entry_point, target.entry_points_class
    read = _core.read_entry_points

    def replacement(self: Any) -> Any:
        path = folder(self)
        if path is not None:
            rows = read(path)
            if type(rows) is list:
                return result([make(name, value, group, self) for name, value, group in rows])
        return genuine(self)

    return replacement


def header(field: str) -> Callable[[Target, Callable[..., Any]], Callable[..., Any]]:
    """Replaces `Distribution.name` or `.version`; a missing field gets the genuine answer, warning and all.

    Args:
        field: The header's name in METADATA.
    """

    def factory(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
        folder, read = target.folder("header"), SCANNER.header_of

        def replacement(self: Any) -> Any:
            path = folder(self)
            if path is not None:
                value = read(path, field, True)
                if type(value) is str and "\n" not in value:
                    return value
            return genuine(self)

        return replacement

    return factory


def requires(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `Distribution.requires` where METADATA has at least one `Requires-Dist`."""
    folder, read = target.folder("header", "requires"), _core.read_headers

    def replacement(self: Any) -> Any:
        path = folder(self)
        if path is not None:
            headers = read(path, strict=True)
            if type(headers) is list:
                found = [value for field, value in headers if field.lower() == "requires-dist"]
                if found and not any("\n" in value for value in found):
                    return found
        return genuine(self)

    return replacement


def metadata(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `Distribution.metadata`: the genuine Message, filled without the email parser."""
    folder, space, read = target.folder("header"), target.space, _core.read_message
    email: Any = space["email"]
    parse = email.message_from_string

    def replacement(self: Any) -> Any:
        # The first access imports the adapters (3.13), and with them email.message: leave that to the genuine code.
        adapters = space.get("_adapters")
        if adapters is not None and email.message_from_string is parse:
            path = folder(self)
            parts = None if path is None else read(path)
            if type(parts) is tuple:
                parsed = email.message.Message()
                parsed._headers, parsed._payload = parts
                return adapters.Message(parsed)
        return genuine(self)

    return replacement
