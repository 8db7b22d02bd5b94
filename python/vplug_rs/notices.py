"""Warnings about plugins: one line each, the same one once, and never a reason to fail."""

from __future__ import annotations

import sys
import warnings

from vplug_rs.errors import PluginWarning

_PACKAGE = __name__.partition(".")[0]


def warn(text: str) -> None:
    """Warns at the first caller outside this package. Under `-W error` it stays data."""
    from vplug_rs.report import visible

    level = 1
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    try:
        warnings.warn(visible(text), PluginWarning, stacklevel=level + 1)
    except Exception:  # noqa: BLE001  # an error by a filter, or the host's own `showwarning`: the report has it all
        return
