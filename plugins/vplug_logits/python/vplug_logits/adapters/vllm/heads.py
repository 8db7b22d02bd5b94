"""The heads of this process, and the function that stands for `LogitsProcessor._apply_head`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from vplug_logits.adapters.vllm import figures
from vplug_logits.adapters.vllm.log import log
from vplug_logits.adapters.vllm.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import torch

    from vplug_logits.config import Config


class Heads:
    """One `Serving` for each pair of head and layer that has made logits.

    A drafter often has a layer of its own and the target's head; what the layer does to the logits afterwards is part
    of what a head has to know, so the pair counts.

    Attributes:
        failures: Calls in which this class itself failed; the original answered.

    Args:
        config: What is asked for.
    """

    def __init__(self, config: Config) -> None:
        self.failures = 0
        self._config = config
        self._servings: WeakKeyDictionary[Any, WeakKeyDictionary[Any, Serving]] = WeakKeyDictionary()
        self._writer: figures.Writer | None = figures.Writer()

    def replacement(self, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """What stands for `_apply_head`: two stages where they can be had, else the original, which is counted."""

        def _apply_head(processor: Any, lm_head: Any, hidden_states: torch.Tensor, embedding_bias: Any) -> torch.Tensor:
            answer = self._answer(original, processor, lm_head, hidden_states, embedding_bias)
            if answer is not None:
                return answer
            return original(processor, lm_head, hidden_states, embedding_bias)

        return _apply_head

    def changed_rows(self) -> dict[str, int]:
        """For each active head, by name, how many rows of this rank are not those of its sketch any more."""
        every = (one for of_head in self._servings.values() for one in of_head.values())
        return {one.name: changed for one in every if (changed := one.changed_rows()) is not None}

    def snapshot(self) -> list[dict[str, Any]]:
        """What is told about each head, as plain data."""
        return [one.snapshot() for of_head in self._servings.values() for one in of_head.values()]

    def _answer(
        self, original: Callable[..., torch.Tensor], processor: Any, lm_head: Any, states: torch.Tensor, bias: Any
    ) -> torch.Tensor | None:
        try:
            serving = self._serving(original, processor, lm_head)
            answer = serving.logits(processor, lm_head, states, bias)
        except Exception as error:  # noqa: BLE001  # a fault of ours; vLLM's own function answers
            self.failures += 1
            if self.failures == 1:
                log.warning("vplug_logits failed, and the dense head answers: %s: %s", type(error).__name__, error)
            answer = None
        self._tell()
        return answer

    def _tell(self) -> None:
        """Write the figures; a full disk or a lost folder costs the figures and nothing else."""
        if self._writer is None:
            return
        try:
            self._writer.write({"heads": self.snapshot(), "failures": self.failures})
        except OSError as error:
            self._writer = None
            log.warning("vplug_logits: no more figures of process %d for the metrics: %s", os.getpid(), error)

    def _serving(self, original: Callable[..., torch.Tensor], processor: Any, lm_head: Any) -> Serving:
        of_head = self._servings.get(lm_head)
        if of_head is None:
            of_head = self._servings[lm_head] = WeakKeyDictionary()
        found = of_head.get(processor)
        if found is None:
            dense = _dense(original, ref(processor), ref(lm_head))  # neither is kept alive by us
            found = of_head[processor] = Serving(processor, lm_head, self._config, dense)
        return found


def _dense(
    original: Callable[..., torch.Tensor], processor: ref[Any], lm_head: ref[Any]
) -> Callable[[torch.Tensor], torch.Tensor]:
    def dense(states: torch.Tensor) -> torch.Tensor:
        return original(processor(), lm_head(), states, None)

    return dense
