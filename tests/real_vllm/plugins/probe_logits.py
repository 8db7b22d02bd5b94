"""A logits processor that changes nothing, and tells where it is made."""

from __future__ import annotations

from typing import Any

from vllm.v1.sample.logits_processor.interface import LogitsProcessor

from probe import tell


class Unchanged(LogitsProcessor):
    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        tell("logits")

    def apply(self, logits: Any) -> Any:
        return logits

    def is_argmax_invariant(self) -> bool:
        return True

    def update_state(self, batch_update: Any) -> None:
        return None
