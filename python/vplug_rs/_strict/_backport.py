"""Replacement for what only the back-port has: the look whether a distribution has metadata at all."""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._target import Target


def has_metadata(target: Target, genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces `PathDistribution._has_metadata` where METADATA exists, which is nearly always."""
    folder = target.folder()

    def replacement(self: Any) -> Any:
        path = folder(self)
        if path is not None:
            try:
                posix.stat(path + "/METADATA")
            except OSError:  # the genuine code looks at the other files, or raises
                return genuine(self)
            return True
        return genuine(self)

    return replacement
