"""What the requests of a step ask of their logits, read from the callers as vLLM's two runners are made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vplug_logits.adapters.vllm.requests import Asked, asked

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's and its packages'


class FirstRunner:
    """What the first runner has, and how it calls."""

    def __init__(self, *parameters: Any, processors: Any = ()) -> None:
        names = [f"request {number}" for number in range(len(parameters))]
        self.input_batch = SimpleNamespace(
            req_ids=names, logitsprocs=SimpleNamespace(non_argmax_invariant=list(processors))
        )
        self.requests = {
            name: SimpleNamespace(sampling_params=one) for name, one in zip(names, parameters, strict=True)
        }

    def execute_model(self, rows: int) -> Asked:
        return self._compute_logits(rows)

    def _compute_logits(self, rows: int) -> Asked:
        return asked(rows)

    def sample_tokens(self, rows: int) -> Asked:
        return self._get_prompt_logprobs_dict(rows)

    def _get_prompt_logprobs_dict(self, rows: int) -> Asked:
        return asked(rows)


class Worker:
    """Calls the runner by a function of the same name, as vLLM's does."""

    def __init__(self, runner: FirstRunner) -> None:
        self.runner = runner

    def execute_model(self, rows: int) -> Asked:
        return self.runner.execute_model(rows)


@pytest.fixture(scope="module")
def params() -> Any:
    """VLLM's own `SamplingParams`, greedy where nothing is said."""
    pytest.importorskip("vllm")
    from vllm import SamplingParams

    return lambda **more: SamplingParams(**({"temperature": 0} | more))


ALTERING = [
    {"allowed_token_ids": [1, 2]},
    {"logit_bias": {5: 1.0}},
    {"bad_words": ["no"]},
    {"presence_penalty": 0.1},
    {"frequency_penalty": -0.1},
    {"repetition_penalty": 1.05},
    {"min_tokens": 2},
]


@pytest.mark.parametrize("more", ALTERING, ids=lambda more: next(iter(more)))
def test_a_request_that_changes_logits_is_seen_in_its_row_alone(params: Any, more: dict[str, Any]) -> None:
    found = Worker(FirstRunner(params(), params(**more), params())).execute_model(3)
    assert found == Asked(altered={1})


def test_a_grammar_is_seen(params: Any) -> None:
    from vllm.sampling_params import StructuredOutputsParams

    runner = FirstRunner(params(structured_outputs=StructuredOutputsParams(choice=["a", "b"])), params())
    assert runner.execute_model(2).altered == {0}


def test_greedy_requests_and_those_of_pooling_ask_nothing(params: Any) -> None:
    assert FirstRunner(params(), None, params(logprobs=20)).execute_model(3) == Asked()


def test_draws_are_seen_with_their_temperature_unless_few_tokens_are_drawn_from(params: Any) -> None:
    runner = FirstRunner(
        params(temperature=0.7),
        params(temperature=1.5, top_k=20),
        params(temperature=1.0, top_k=21),
        params(temperature=1.0, top_p=0.5),
    )
    assert runner.execute_model(4).drawn == {0: 0.7, 2: 1.0, 3: 1.0}


def test_with_drafts_every_row_may_be_anybodys(params: Any) -> None:
    runner = FirstRunner(params(temperature=0.9), params(temperature=0.5), params(logit_bias={1: 2.0}))
    found = runner.execute_model(5)
    assert found.altered == set(range(5))
    assert found.drawn == dict.fromkeys(range(5), 0.5)


def test_a_processor_of_somebody_else_may_do_anything(params: Any) -> None:
    assert FirstRunner(params(), params(), processors=[object()]).execute_model(2).altered == {0, 1}


def test_rows_of_a_prompt_are_seen(params: Any) -> None:
    assert FirstRunner(params()).sample_tokens(7) == Asked(prompt=True)


class SecondRunner:
    """What the second runner has (`vllm.v1.worker.gpu`): arrays by slot; `test_release_next` looks at the names."""

    def __init__(self, temperatures: list[float], *, top_k: int = 0, sharder: Any = None) -> None:
        many = len(temperatures)
        self.req_states, self.batch_sharder = object(), sharder
        self.bias = SimpleNamespace(use_logit_bias=np.zeros(many, dtype=bool))
        self.penalty = SimpleNamespace(use_penalty=np.zeros(many, dtype=bool))
        self.words = SimpleNamespace(num_bad_words=SimpleNamespace(np=np.zeros(many, dtype=np.int32)))
        states = SimpleNamespace(
            temperature=SimpleNamespace(np=np.array(temperatures, dtype=np.float32)),
            top_k=SimpleNamespace(np=np.full(many, top_k or 1000, dtype=np.int32)),
        )
        self.sampler = SimpleNamespace(sampling_states=states, logits_processors=[self.bias, self.penalty, self.words])

    def batch(self, slots: list[int], rows: list[int]) -> Any:
        return SimpleNamespace(
            req_ids=[f"request {slot}" for slot in slots],
            num_reqs=len(slots),
            idx_mapping_np=np.array(slots),
            cu_num_logits_np=np.cumsum([0, *rows]),
        )

    def sample(self, hidden_states: Any, input_batch: Any, grammar_output: Any) -> Asked:
        return asked(len(hidden_states))


def test_the_second_runner_tells_by_slot_and_rows_of_drafts_are_known() -> None:
    runner = SecondRunner([0.0, 0.0, 0.8, 0.0])
    runner.penalty.use_penalty[3] = True
    found = runner.sample(range(6), runner.batch([3, 1, 2], [1, 3, 2]), None)
    assert found.altered == {0}
    assert found.drawn == {4: pytest.approx(0.8), 5: pytest.approx(0.8)}


@pytest.mark.parametrize("what", ["bias", "words", "grammar", "foreign"])
def test_the_second_runner_tells_what_changes_logits(what: str) -> None:
    runner, grammar = SecondRunner([0.0, 0.0]), None
    if what == "bias":
        runner.bias.use_logit_bias[1] = True
    elif what == "words":
        runner.words.num_bad_words.np[1] = 2
    elif what == "grammar":
        grammar = SimpleNamespace(structured_output_request_ids=["request 1"])
    else:
        runner.sampler.logits_processors.append(object())
    found = runner.sample(range(2), runner.batch([0, 1], [1, 1]), grammar)
    assert found.altered == ({0, 1} if what == "foreign" else {1})


def test_ranks_that_share_out_the_batch_are_asked_for_all_rows() -> None:
    runner = SecondRunner([0.0, 0.0], sharder=object())
    runner.bias.use_logit_bias[1] = True
    assert runner.sample(range(2), runner.batch([0, 1], [1, 1]), None).altered == {0, 1}


def test_warming_up_and_drafts_ask_nothing(params: Any) -> None:
    class Drafter:
        def propose(self, rows: int) -> Asked:
            return asked(rows)

    class Runner(FirstRunner):
        def execute_model(self, rows: int) -> Asked:
            return Drafter().propose(rows)

        def _dummy_sampler_run(self, rows: int) -> Asked:
            return asked(rows)

    runner = Runner(params(logit_bias={1: 1.0}))
    assert runner.execute_model(1) == runner._dummy_sampler_run(1) == Asked()


def test_without_a_runner_among_the_callers_nothing_is_known() -> None:
    assert asked(3) == Asked(known=False)


def test_every_reason_has_its_sentence() -> None:
    from pathlib import Path

    from vplug_logits import counters
    from vplug_logits.adapters.vllm import serving

    text = Path(serving.__file__).read_text("utf-8")
    for reason in (
        "altered",
        "bias",
        "building",
        "capture",
        "error",
        "inactive",
        "prompt",
        "shape",
        "spread",
        "weight",
    ):
        assert f'"{reason}"' in text
        assert counters.REASONS[reason]
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert {reason for reason in counters.REASONS if f"`{reason}`" not in readme} <= {
        "grad",
        "training",
        "autocast",
        "peer",
    }
