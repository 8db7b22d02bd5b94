"""A general plugin that makes the head fail while the file that `SABOTAGE` names is there."""

from __future__ import annotations

import os
from typing import Any

from vplug_logits.adapters.vllm.watch import when_imported


def register() -> None:
    """Have it made to fail as soon as it is imported."""
    when_imported("vplug_logits.head", _break)


def _break(module: Any) -> None:
    genuine = module.Head.logits

    def logits(self: Any, states: Any) -> Any:
        if os.path.exists(os.environ["SABOTAGE"]):
            raise RuntimeError("this head was sabotaged")
        return genuine(self, states)

    module.Head.logits = logits
