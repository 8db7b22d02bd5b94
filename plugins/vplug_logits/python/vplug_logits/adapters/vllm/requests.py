"""What the requests of a step ask of their logits, read from the model runner that is asking.

A two-stage head knows the winner and the rows around it.  A request that changes logits before it chooses (a bias, a
mask, a grammar, penalties) may choose a row that was only estimated, and one that draws from a flat distribution draws
from the estimates.  vLLM does not hand sampling parameters to its layers, and its own extensions that get them would
cost every request something; so the runner is looked at where it stands: among the callers.  Nothing is changed there.

The first runner keeps `SamplingParams` by request, the second (`vllm.v1.worker.gpu`) arrays by slot; both are known by
what they have, not by their class, so that runners derived from them are known too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

GREEDY = 1e-5  # temperatures below are none: vLLM's own limit
FEW = 20  # candidates of a top-k that the rescored rows hold

_PROMPT = {"_get_prompt_logprobs_dict", "compute_prompt_logprobs", "compute_prompt_token_id_logprobs"}
_NOBODY = {
    "_dummy_sampler_run",
    "_dummy_pooler_run",
    "propose",
    "profile_run",
}  # warming up; drafts, which are verified
_OWN = "vllm.v1.sample."
_DEPTH = 60  # callers that are looked at


@dataclass(slots=True)
class Asked:
    """What is asked of the rows of one call.

    Attributes:
        known: Whether anybody was found who could say it.
        prompt: The rows are those of a prompt, whose logarithms are asked for.
        altered: Rows whose logits are changed before a token is chosen.
        drawn: Rows whose token is drawn from the tail too -> the temperature.
    """

    known: bool = True
    prompt: bool = False
    altered: set[int] = field(default_factory=set)
    drawn: dict[int, float] = field(default_factory=dict)


def asked(rows: int) -> Asked:
    """What the caller of the layer wants to do with the logits of `rows` states.

    Args:
        rows: How many there are.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the documented way to the callers
    for _ in range(_DEPTH):
        if frame is None:
            break
        name = frame.f_code.co_name
        if name in _PROMPT:
            return Asked(prompt=True)
        if name in _NOBODY:
            return Asked()
        if name == "execute_model" and hasattr(runner := frame.f_locals.get("self"), "requests"):
            return _by_request(runner, rows)
        if name == "sample" and hasattr(runner := frame.f_locals.get("self"), "req_states"):
            return _by_slot(runner, frame.f_locals, rows)
        frame = frame.f_back
    return Asked(known=False)


def _by_request(runner: Any, rows: int) -> Asked:
    """The first runner: one row for each request of the batch, unless drafts are verified."""
    parameters = [runner.requests[name].sampling_params for name in runner.input_batch.req_ids]
    of_each = (
        [range(row, row + 1) for row in range(rows)] if rows == len(parameters) else [range(rows)] * len(parameters)
    )
    found = Asked()
    if any(not type(one).__module__.startswith(_OWN) for one in runner.input_batch.logitsprocs.non_argmax_invariant):
        found.altered.update(range(rows))  # somebody's own: it may do anything
    for one, its_rows in zip(parameters, of_each, strict=True):
        if one is None:
            continue
        if _alters(one):
            found.altered.update(its_rows)
        if one.temperature > GREEDY and not 0 < one.top_k <= FEW:
            _draw(found, its_rows, one.temperature)
    return found


def _draw(found: Asked, rows: range, temperature: float) -> None:
    for row in rows:
        found.drawn[row] = min(temperature, found.drawn.get(row, temperature))


def _alters(one: Any) -> bool:
    """Whether any parameter changes logits before the token is chosen."""
    return bool(
        one.allowed_token_ids
        or one.logit_bias
        or one.structured_outputs is not None
        or one.bad_words
        or one.presence_penalty
        or one.frequency_penalty
        or one.repetition_penalty != 1.0
        or one.min_tokens
        or getattr(one, "thinking_token_budget", None) is not None
        or getattr(one, "trace_decode_token_ids", None)
    )


def _by_slot(runner: Any, around: dict[str, Any], rows: int) -> Asked:
    """The second runner: `cu_num_logits_np` says which rows are whose, unless ranks share out the batch."""
    batch, sampler = around["input_batch"], runner.sampler
    slots, ends = batch.idx_mapping_np[: batch.num_reqs], batch.cu_num_logits_np
    apart = getattr(runner, "batch_sharder", None) is None and rows == int(ends[batch.num_reqs])
    of_each = [range(int(ends[at]), int(ends[at + 1])) if apart else range(rows) for at in range(batch.num_reqs)]
    grammar = around.get("grammar_output")
    forced = set(() if grammar is None else grammar.structured_output_request_ids)
    states = sampler.sampling_states
    found = Asked()
    for name, slot, its_rows in zip(batch.req_ids, slots, of_each, strict=True):
        if name in forced or any(_is_used(processor, slot) for processor in sampler.logits_processors):
            found.altered.update(its_rows)
        temperature, few = float(states.temperature.np[slot]), int(states.top_k.np[slot])
        if temperature > GREEDY and not 0 < few <= FEW:
            _draw(found, its_rows, temperature)
    return found


def _is_used(processor: Any, slot: int) -> bool:
    for name in ("use_logit_bias", "use_penalty"):
        if hasattr(processor, name):
            return bool(getattr(processor, name)[slot])
    if hasattr(processor, "num_bad_words"):
        return bool(processor.num_bad_words.np[slot])
    return True  # somebody's own: it may do anything
