"""A two-stage LM head: a low-bit sketch of the whole vocabulary, then exact logits of the rows that matter.

    undo = vplug_logits.patch(model)         # a transformers model; in vLLM the plugin does it

Importing this package imports no torch: what needs it comes when it is asked for.
"""

from __future__ import annotations

from vplug_logits.errors import (
    ArtefactDamagedError,
    ArtefactError,
    ArtefactForeignError,
    ArtefactMissingError,
    BackendError,
    BadInputError,
    BuildError,
    ConfigError,
    LogitsError,
    UnsupportedHeadError,
)

TYPE_CHECKING = False  # `typing` would be most of what a host pays that switches us off
if TYPE_CHECKING:
    from typing import Any

    from vplug_logits.adapters.transformers import Patched, Sampling, patch
    from vplug_logits.config import Config, Mode
    from vplug_logits.head import Head
    from vplug_logits.parallel import ParallelHead

_LATE: dict[str, str] = {
    "Config": "vplug_logits.config",
    "Head": "vplug_logits.head",
    "Mode": "vplug_logits.config",
    "ParallelHead": "vplug_logits.parallel",
    "Patched": "vplug_logits.adapters.transformers",
    "Sampling": "vplug_logits.adapters.transformers",
    "patch": "vplug_logits.adapters.transformers",
}

__all__ = [
    "ArtefactDamagedError",
    "ArtefactError",
    "ArtefactForeignError",
    "ArtefactMissingError",
    "BackendError",
    "BadInputError",
    "BuildError",
    "Config",
    "ConfigError",
    "Head",
    "LogitsError",
    "Mode",
    "ParallelHead",
    "Patched",
    "Sampling",
    "UnsupportedHeadError",
    "patch",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first asked for."""
    if name in _LATE:
        from importlib import import_module

        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
