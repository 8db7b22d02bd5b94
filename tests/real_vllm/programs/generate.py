"""Starts an engine, generates greedily, and writes what came out: generate.py MODEL TENSOR_PARALLEL RESULT."""

from __future__ import annotations

import json
import os
import sys
import time

BEGAN = time.perf_counter()
from vllm import LLM, SamplingParams  # noqa: E402  the first line is the start of the clock


def main(model: str, tensor_parallel: str, result: str) -> None:
    """Generate for prompts of several lengths at once."""
    engine = LLM(
        model=model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=8,
        max_num_batched_tokens=256,
        tensor_parallel_size=int(tensor_parallel),
        seed=0,
    )
    started = time.perf_counter() - BEGAN
    prompts = ["hello", "a", "the quick brown fox", "0123456789" * 4]
    greedy = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    tokens = [list(one.outputs[0].token_ids) for one in engine.generate(prompts, greedy, use_tqdm=False)]
    activation = sys.modules.get("vplug_rs.vllm.activation")
    state = None if activation is None else activation.state()
    answer = {
        "tokens": tokens,
        "seconds": started,
        "pid": os.getpid(),
        "state": state and [state.state, state.door, state.version],
        "activation": state.seconds if state else 0.0,
        "patches": state and {patch.label: [patch.state, patch.reason, patch.failures] for patch in state.patches},
    }
    with open(result, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


if __name__ == "__main__":  # the other processes import this file again
    main(*sys.argv[1:])
