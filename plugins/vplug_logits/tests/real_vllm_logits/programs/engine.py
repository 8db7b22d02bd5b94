"""One engine, asked the same in several modes: engine.py MODEL TENSOR_PARALLEL RESULT SUITES MODE...

The modes are switched in the workers while the engine runs, so that all of them cost one start; the first is what the
environment asked for, and so came by the entry point alone. "off" gives vLLM its own functions back.
A mode may be followed by = and an artefact.
RESULT is written by torch: for each mode, what each suite said, and what the workers tell of their heads.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "Der alte Mann ging langsam durch",
    '{"name": "get_weather", "arguments": {',
    "Once upon a time, in a small village by the sea,",
    "1, 1, 2, 3, 5, 8, 13,",
    "La recette commence par",
    "SELECT name, price FROM products WHERE",
]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SAMPLING: dict[str, dict[str, Any]] = {
    "temperature 1": {"temperature": 1.0},
    "temperature 0.7": {"temperature": 0.7},
    "top-p 0.9": {"temperature": 1.0, "top_p": 0.9},
    "top-k 20": {"temperature": 1.0, "top_k": 20},
    "min-p 0.05": {"temperature": 1.0, "min_p": 0.05},
}


def greedy(tokens: int, **more: Any) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=tokens, **{"ignore_eos": True, "detokenize": False, **more})


def said(engine: LLM, prompts: list[str], parameters: Any) -> list[list[int]]:
    return [list(one.outputs[0].token_ids) for one in engine.generate(prompts, parameters, use_tqdm=False)]


def alone(engine: LLM) -> Any:
    """One request: a batch of one."""
    return said(engine, PROMPTS[4:5], greedy(256))


def together(engine: LLM) -> Any:
    """Eight requests at once."""
    return said(engine, PROMPTS, greedy(64))


def short(engine: LLM) -> Any:
    """The same, half as long."""
    return said(engine, PROMPTS, greedy(32))


def features(engine: LLM) -> Any:
    """What changes logits before the greedy choice, and what keeps tokens out or in."""
    tokenizer = engine.get_tokenizer()
    digits = sorted({tokenizer.encode(str(digit))[-1] for digit in range(10)})
    rare = tokenizer.encode(" zebra")[-1]  # far outside of what is rescored
    asked = {
        "frequency penalty": greedy(24, frequency_penalty=1.2),
        "presence penalty": greedy(24, presence_penalty=1.2),
        "repetition penalty": greedy(24, repetition_penalty=1.3),
        "logit bias up": greedy(24, logit_bias={rare: 12.0}),
        "logit bias out of reach": greedy(24, logit_bias={rare: 100.0}),
        "logit bias down": greedy(24, logit_bias=dict.fromkeys(digits, -100.0)),
        "bad words": greedy(24, bad_words=["the", " the", "."], detokenize=True),
        "min tokens": SamplingParams(temperature=0, max_tokens=48, min_tokens=40, detokenize=False),
        "allowed ids": greedy(24, allowed_token_ids=digits),
        "json schema": SamplingParams(
            temperature=0, max_tokens=40, structured_outputs=StructuredOutputsParams(json=SCHEMA)
        ),
        "regex": SamplingParams(
            temperature=0, max_tokens=24, structured_outputs=StructuredOutputsParams(regex=r"[a-f]{3}-\d{4}")
        ),
        "choice": SamplingParams(
            temperature=0, max_tokens=8, structured_outputs=StructuredOutputsParams(choice=["zebra", "giraffe"])
        ),
    }
    prompts = [PROMPTS[number % len(PROMPTS)] for number in range(len(asked))]
    return dict(zip(asked, said(engine, prompts, list(asked.values())), strict=True))


def prompt_logprobs(engine: LLM) -> Any:
    """The logarithm of the probability of each prompt token."""
    parameters = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0, detokenize=False)
    answers: Any = engine.generate(PROMPTS[:3], parameters, use_tqdm=False)
    return [
        [row[token].logprob for token, row in zip(one.prompt_token_ids[1:], one.prompt_logprobs[1:], strict=True)]
        for one in answers
    ]


def distributions(engine: LLM) -> Any:
    """What the next token is drawn from, by setting: logarithms over the whole vocabulary, one row for each prompt.

    And the states that these came of, and which rows are exact, are what `watch` has seen.
    """
    found = {}
    for name, setting in SAMPLING.items():
        parameters = SamplingParams(max_tokens=1, logprobs=-1, detokenize=False, seed=1, **setting)
        rows = []
        answers: Any = engine.generate(PROMPTS, parameters, use_tqdm=False)
        for one in answers:
            (position,) = one.outputs[0].logprobs
            row = torch.full((engine.llm_engine.vllm_config.model_config.get_vocab_size(),), -torch.inf)
            row[torch.tensor(list(position))] = torch.tensor([entry.logprob for entry in position.values()])
            rows.append(row)
        found[name] = torch.stack(rows)
    return found


def states(engine: LLM) -> Any:
    """The hidden states of the prompts, in the order of the prompts: asked for one by one."""
    engine.collective_rpc(watch)
    for prompt in PROMPTS:
        engine.generate([prompt], greedy(1), use_tqdm=False)
    return engine.collective_rpc(seen)[0]


def watch(worker: Any) -> None:
    """In a worker: note what the logits layer is given."""
    model = worker.get_model()
    model.watched = []

    def note(layer: Any, given: Any) -> None:
        model.watched.append(given[1].detach().clone())

    model.watching = model.logits_processor.register_forward_pre_hook(note)


def seen(worker: Any) -> Any:
    """In a worker: what was noted."""
    model = worker.get_model()
    model.watching.remove()
    return torch.cat(model.watched)


def switch(worker: Any, mode: str, path: str) -> None:
    """In a worker: as if it had been started in that mode, with that artefact if one is named."""
    import os

    from vplug_logits import plugin
    from vplug_logits.adapters.vllm import install

    before = install.installation()
    if before is not None:
        before.undo()
    install._installed = None
    plugin._known = ("unregistered", "")
    os.environ["VPLUG_LOGITS"], os.environ["VPLUG_LOGITS_ARTEFACT"] = mode, path
    plugin.register()


def told(worker: Any) -> dict[str, Any]:
    """In a worker: what it tells of its heads."""
    import dataclasses

    from vplug_logits import plugin

    return dataclasses.asdict(plugin.state())


def modules(worker: Any) -> list[str]:
    """In a worker: what of ours is imported."""
    import sys

    return sorted(name for name in sys.modules if name.partition(".")[0] == "vplug_logits")


SUITES = {suite.__name__: suite for suite in (alone, together, short, features, prompt_logprobs, distributions, states)}


def main(model: str, tensor_parallel: str, result: str, suites: str, *modes: str) -> None:
    """Start, and ask all suites in all modes."""
    began = time.monotonic()
    engine = LLM(
        model=model,
        dtype="float32",
        enforce_eager=True,
        max_model_len=512,
        max_num_seqs=16,
        max_num_batched_tokens=512,
        tensor_parallel_size=int(tensor_parallel),
        seed=0,
        max_logprobs=-1,
        logprobs_mode="processed_logprobs",
        enable_prefix_caching=False,  # each mode computes the same
    )
    answer: dict[str, Any] = {"started": time.monotonic() - began, "modes": {}}
    for number, word in enumerate(modes):
        mode, _, path = word.partition("=")
        if number:
            engine.collective_rpc(switch, args=(mode, path))
        began = time.monotonic()
        answers = {name: SUITES[name](engine) for name in suites.split(",")}
        answer["modes"][mode] = {
            "answers": answers,
            "modules": engine.collective_rpc(modules),
            "workers": engine.collective_rpc(told),
            "seconds": time.monotonic() - began,
        }
    torch.save(answer, result)


if __name__ == "__main__":  # the other processes import this file again
    main(*sys.argv[1:])
