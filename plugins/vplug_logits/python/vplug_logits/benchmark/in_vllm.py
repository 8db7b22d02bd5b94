"""In a process of its own: a vLLM engine decodes, and its head is drawn anew for each step.

    python -m vplug_logits.benchmark.in_vllm MODEL DTYPE STEPS SEED RESULT

Three steps in a row, in random order, have vLLM's own head, ours, and one that returns logits that are there already.
The result is JSON: by kind, seconds of the processor of the head's call and of the engine's whole step.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

KINDS = ("dense", "ours", "free")
_WARM = 4  # rounds that do not count
_PROMPT = "Once upon a time, in a small village by the sea,"


class Switch:
    """Stands for `LogitsProcessor._apply_head`, and times it.

    Attributes:
        kind: Which head answers next.
        seconds: Of the processor, in the last call.
    """

    def __init__(self, layer: Any) -> None:
        ours = layer._apply_head  # noqa: SLF001  # what the plugin has replaced
        self._heads = {"ours": ours, "dense": ours.__wrapped__, "free": self._free}
        self._nothing: torch.Tensor | None = None
        self.kind, self.seconds = "ours", 0.0

    def __call__(self, *given: Any) -> torch.Tensor:
        """One call of the head, as `_apply_head(processor, lm_head, hidden_states, embedding_bias)`."""
        began = time.process_time()
        logits: torch.Tensor = self._heads[self.kind](*given)
        self.seconds = time.process_time() - began
        if self._nothing is None:  # in a round that does not count: a copy would be part of the dense step
            self._nothing = logits.clone()
        return logits

    def _free(self, *_: Any) -> torch.Tensor:
        assert self._nothing is not None  # a step with another head came first
        return self._nothing


def main(model: str, dtype: str, steps: str, seed: str, result: str) -> None:
    """Start, decode, write the result."""
    from vplug_logits.adapters.vllm import install, state

    install.install()  # where the distribution is installed vLLM's entry point does it, too, which changes nothing
    import vllm
    from vllm import LLM, SamplingParams
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    rounds = int(steps) + _WARM
    made: Any = LLM
    engine = made(
        model=model,
        dtype=dtype,
        enforce_eager=True,
        max_model_len=max(256, len(KINDS) * rounds + 64),
        max_num_seqs=1,
        seed=0,
        enable_prefix_caching=False,
    )
    parameters = SamplingParams(temperature=0, max_tokens=len(KINDS) * rounds + 8, ignore_eos=True, detokenize=False)
    engine.llm_engine.add_request("0", _PROMPT, parameters)
    switch = Switch(LogitsProcessor)
    layer: Any = LogitsProcessor
    layer._apply_head = lambda *given: switch(*given)  # noqa: SLF001, PLW0108  # a function: it is to be bound
    engine.llm_engine.step()  # reads the prompt by our head, which looks for its sketch now
    (head,) = state.current("registered", "").heads
    if head["state"] != "active":
        raise SystemExit(f"the head is {head['state']}: {head['reason']}")
    answer = measure(engine, switch, rounds, random.Random(int(seed)))  # noqa: S311  # an order, no secret
    (head,) = state.current("registered", "").heads
    answer |= {"vllm": vllm.__version__, "dense_rows": head["counters"]["fallback_rows"]}
    Path(result).write_text(json.dumps(answer), "utf-8")


def measure(engine: Any, switch: Switch, rounds: int, order: random.Random) -> dict[str, Any]:
    """Decode: in each round one step with each head."""
    from vplug_logits.benchmark.quiet import Watch

    head: dict[str, list[float]] = {kind: [] for kind in KINDS}
    step: dict[str, list[float]] = {kind: [] for kind in KINDS}
    noisy = []
    for number in range(rounds):
        kinds = order.sample(KINDS, len(KINDS)) if number else KINDS
        with Watch() as watch:
            for kind in kinds:
                switch.kind = kind
                began = time.process_time()
                engine.llm_engine.step()
                seconds = time.process_time() - began
                if number >= _WARM:
                    step[kind].append(seconds)
                    head[kind].append(switch.seconds)
        if number >= _WARM:
            noisy.append(watch.noisy)
    return {"head": head, "step": step, "noisy": noisy}


if __name__ == "__main__":
    main(*sys.argv[1:])
