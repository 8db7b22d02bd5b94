"""Whether `generate()` changes logits before it chooses a token: read from its frame, which is among the callers.

A rescored row is exact and the others are estimates, so a mask, a bias or a penalty may bring up a row that was only
estimated.  What narrows a draw and leaves the order of logits as it is does no harm.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_MODULE = "transformers.generation.logits_process"
_HARMLESS = {
    "TemperatureLogitsWarper",
    "TopKLogitsWarper",
    "TopPLogitsWarper",
    "TopHLogitsWarper",
    "MinPLogitsWarper",
    "TypicalLogitsWarper",
    "EpsilonLogitsWarper",
    "EtaLogitsWarper",
    "InfNanRemoveLogitsProcessor",
    "LogitNormalization",
}


def alters_logits() -> bool:
    """Whether the loop that asks for logits, the innermost caller with a list of processors, has one that may."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the documented way to the callers
    while frame is not None:
        if "logits_processor" in frame.f_code.co_varnames:
            return any(not _is_harmless(one) for one in frame.f_locals.get("logits_processor") or ())
        frame = frame.f_back
    return False


def _is_harmless(processor: Any) -> bool:
    kind = type(processor)
    return kind.__module__ == _MODULE and kind.__name__ in _HARMLESS
