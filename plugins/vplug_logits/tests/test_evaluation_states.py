from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from vplug_logits.errors import BuildError
from vplug_logits.evaluation.states import LENGTH, PROMPT, SOURCES, States, collect
from vplug_logits.evaluation.texts import Text

VOCABULARY = 200


class Letters:
    """A tokenizer of letters."""

    chat_template = None

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) % VOCABULARY for letter in text]}


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
        eos_token_id=None,
        bos_token_id=None,
    )
    kind: Any = LlamaForCausalLM
    return kind(config).eval()


TEXTS = [
    Text("many", "".join(chr(33 + (7 * at * at) % 90) for at in range(500))),
    Text("few", "".join(chr(33 + at) for at in range(60))),
]


@pytest.fixture(scope="module")
def gathered(model: Any) -> States:
    return collect(model, Letters(), TEXTS, count=600)


def test_all_states_are_distinct_and_as_many_as_were_asked_for(gathered: States) -> None:
    assert len(gathered) == 600
    assert len({row.numpy().tobytes() for row in gathered.states}) == 600
    assert gathered.domains == ("many", "few")


def test_each_domain_has_its_share_of_reading_and_the_rest_of_both_continuations(gathered: States) -> None:
    # Both texts begin with the same letter: one state of reading comes twice, and is made up for.
    counts = {domain: [gathered.count(domain, source) for source in SOURCES] for domain in gathered.domains}
    assert counts == {"many": [180, 60, 60], "few": [59, 120, 121]}


def test_states_of_one_domain_lie_together(gathered: States) -> None:
    assert torch.unique_consecutive(gathered.domain).tolist() == [0, 1]


def test_what_is_read_is_what_the_head_gets(model: Any, gathered: States) -> None:
    ids = torch.tensor(TEXTS[0].token_ids(Letters()))[:180]
    with torch.no_grad():
        (hidden,) = model.model(ids[None]).last_hidden_state
    assert torch.allclose(gathered.states[:180], hidden, atol=1e-5)


def test_greedy_continuations_are_those_of_generate(model: Any, gathered: States) -> None:
    ids = torch.tensor(TEXTS[0].token_ids(Letters()))
    start = int(torch.randint(len(ids) - PROMPT, (), generator=torch.Generator().manual_seed(0)))
    prompt = ids[None, start : start + PROMPT]
    written = model.generate(prompt, max_new_tokens=LENGTH, do_sample=False, pad_token_id=0)
    with torch.no_grad():
        (hidden,) = model.model(written).last_hidden_state
    greedy = gathered.states[(gathered.domain == 0) & (gathered.source == 1)]
    assert torch.allclose(greedy[:60], hidden[PROMPT : PROMPT + 60], atol=1e-4)


def test_the_same_seed_gives_the_same_states_and_another_one_others(model: Any, gathered: States) -> None:
    assert torch.equal(collect(model, Letters(), TEXTS, count=600).states, gathered.states)
    other = collect(model, Letters(), TEXTS, count=600, seed=1)
    sampled = gathered.source == 2
    assert not torch.equal(other.states[sampled], gathered.states[sampled])
    assert torch.equal(other.states[gathered.source == 0], gathered.states[gathered.source == 0])


def test_nothing_after_the_end_of_text_counts(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    every = list(range(VOCABULARY))
    monkeypatch.setattr(model, "generation_config", SimpleNamespace(eos_token_id=every))
    with pytest.raises(BuildError, match="bring no new states"):
        collect(model, Letters(), TEXTS, count=600)


def test_a_text_that_is_too_short_to_continue_is_refused_by_its_domain(model: Any) -> None:
    with pytest.raises(BuildError, match=r"the text of 'short' has 5 tokens; it must have over 32"):
        collect(model, Letters(), [Text("short", "Hello")], count=10)


def test_a_model_that_passes_its_head_by_is_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "get_output_embeddings", lambda: torch.nn.Linear(16, VOCABULARY))
    with pytest.raises(BuildError, match="does not call its output embeddings"):
        collect(model, Letters(), TEXTS, count=100)


def test_a_model_without_a_head_is_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "get_output_embeddings", lambda: None)
    with pytest.raises(BuildError, match="has no output embeddings"):
        collect(model, Letters(), TEXTS, count=100)


def test_the_hook_is_gone_afterwards(model: Any, gathered: States) -> None:
    assert not model.lm_head._forward_pre_hooks
