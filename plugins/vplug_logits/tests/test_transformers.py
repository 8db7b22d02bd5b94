"""`patch()` on tiny random models of transformers: `generate()` must write the same tokens as without it."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch

from heads import head
from vplug_logits import Patched, Sampling, artefact, digest, patch
from vplug_logits.build import build
from vplug_logits.calibrate import calibrate
from vplug_logits.config import Config
from vplug_logits.errors import ArtefactForeignError, BackendError, BadInputError, ConfigError, UnsupportedHeadError

VOCABULARY = 2051
EXACT, SAFE = Config.of("exact", rows=16), Config.of("safe", bits=4, rows=32)

SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
EXTRA: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Llama tied": {"tie_word_embeddings": True},
    "Gemma2": {"final_logit_softcapping": 20.0, "sliding_window": 32},
    "Cohere": {"logit_scale": 0.3},
    "Granite": {"logits_scaling": 13.0},
}


def model_of(name: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **more: Any) -> Any:
    """A random model; its head is spread out so that logits are not all alike."""
    import transformers

    kind = name.split(maxsplit=1)[0]
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**(SHAPE | EXTRA[name] | more))
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.copy_(head(VOCABULARY, 32, seed=seed))
    return model.to(dtype)


def ids_of(batch: int, length: int = 7) -> torch.Tensor:
    return torch.randint(2, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(batch))


def written(model: Any, batch: int, tokens: int = 24, **more: Any) -> torch.Tensor:
    ids = ids_of(batch)
    answer: torch.Tensor = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, **{"do_sample": False, **more}
    )
    return answer


@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("config", [EXACT, SAFE], ids=["exact", "safe"])
def test_generate_writes_the_tokens_of_dense(name: str, config: Config) -> None:
    model = model_of(name)
    wanted = [written(model, batch) for batch in (1, 8)]

    with patch(model, config=config) as patched:
        found = [written(model, batch) for batch in (1, 8)]
        counters = patched.counters.snapshot()

    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found, wanted, strict=True))
    assert counters["rows"] == 9 * 24
    assert counters["fallback_rows"] <= 20
    assert len(torch.unique(wanted[1])) > 20


def test_beam_search_gives_the_beams_of_dense() -> None:
    model = model_of("Llama")
    more: dict[str, Any] = {"num_beams": 4, "num_return_sequences": 2, "tokens": 12}
    wanted = written(model, 2, **more)

    with patch(model, config=Config.of("exact", rows=64)) as patched:
        assert torch.equal(written(model, 2, **more), wanted)
        assert patched.counters.snapshot()["rows"] > 50


def test_sampling_by_the_host_draws_from_real_logits() -> None:
    model = model_of("Llama")
    torch.manual_seed(1)
    wanted = written(model, 8, do_sample=True, top_k=20)
    with patch(model, config=Config.of("exact", rows=64)):
        torch.manual_seed(1)
        found = written(model, 8, do_sample=True, top_k=20)

    assert torch.equal(found, wanted)


def test_processors_that_change_logits_see_the_ones_of_dense() -> None:
    model = model_of("Llama")
    more: dict[str, Any] = {
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 2,
        "bad_words_ids": [[5], [9]],
        "min_new_tokens": 4,
    }
    wanted = written(model, 8, **more)

    with patch(model, config=SAFE) as patched:
        assert torch.equal(written(model, 8, **more), wanted)
        assert patched.counters.snapshot()["fallbacks"] == {"altered": 8 * 24}


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("mode", ["exact", "safe", "fast"])
def test_a_token_is_chosen_among_few_as_dense_does(mode: str, beams: int) -> None:
    # Most of those that are allowed are far from the best, so they would be estimates.
    model = model_of("Llama")
    allowed = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(3))[:12].sort().values.tolist()
    more: dict[str, Any] = {"prefix_allowed_tokens_fn": lambda *_: allowed, "num_beams": beams}
    wanted = written(model, 8, **more)

    with patch(model, mode):
        assert torch.equal(written(model, 8, **more), wanted)


def test_what_narrows_a_draw_leaves_two_stages() -> None:
    model = model_of("Llama")
    narrow: dict[str, Any] = {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.9}
    with patch(model, config=Config.of("exact", rows=64)) as patched:
        written(model, 8, do_sample=True, renormalize_logits=True, **narrow)
        assert "altered" not in patched.counters.snapshot()["fallbacks"]


@pytest.mark.parametrize("name", ["Llama", "Gemma2"])
def test_a_bfloat16_model_is_served_in_bfloat16(name: str) -> None:
    model, ids = model_of(name, dtype=torch.bfloat16), ids_of(8)
    with torch.no_grad():
        wanted = model(ids).logits
        with patch(model, config=EXACT) as patched:
            found = model(ids).logits
            assert patched.counters.snapshot()["fallback_rows"] == 0

    assert found.dtype is wanted.dtype
    assert found.shape == wanted.shape
    assert int((found.argmax(-1) != wanted.argmax(-1)).sum()) <= 1


def test_undo_leaves_the_model_as_it_was_and_may_be_called_twice() -> None:
    model = model_of("Llama")
    module = model.get_output_embeddings()
    before = dict(module.__dict__)
    patched = patch(model, config=EXACT)

    assert isinstance(patched, Patched)
    assert "forward" in module.__dict__
    patched()
    patched.undo()

    assert module.__dict__ == before


def test_an_earlier_forward_of_the_instance_is_put_back() -> None:
    model = model_of("Llama")
    module = model.get_output_embeddings()
    calls: list[int] = []

    def hooked(states: torch.Tensor) -> torch.Tensor:  # as accelerate does it
        calls.append(states.shape[0])
        return torch.nn.functional.linear(states, module.weight)

    module.forward = hooked
    patch(model, config=EXACT).undo()

    assert module.__dict__["forward"] is hooked
    assert calls


def test_under_a_later_patch_undo_lets_everything_through() -> None:
    model = model_of("Llama")
    module = model.get_output_embeddings()
    patched = patch(model, config=EXACT)
    ours = module.forward
    module.forward = lambda states: ours(1 * states)
    patched.undo()
    steps = patched.counters.snapshot()["steps"]

    assert torch.equal(written(model, 1), written(model_of("Llama"), 1))
    assert patched.counters.snapshot()["steps"] == steps


def test_a_second_patch_of_the_same_model_is_refused_until_the_first_is_undone() -> None:
    model = model_of("Llama")
    with patch(model, config=EXACT), pytest.raises(UnsupportedHeadError, match="patched already"):
        patch(model, config=EXACT)
    patch(model, config=EXACT).undo()


def test_training_and_gradients_are_dense() -> None:
    model, ids = model_of("Llama tied"), ids_of(2)
    with patch(model, config=EXACT) as patched:
        model.train()
        model(ids, labels=ids).loss.backward()
        assert patched.counters.snapshot()["fallbacks"] == {"training": 14}
        assert model.get_output_embeddings().weight.grad is not None
        model.eval()
        model(ids)
        assert patched.counters.snapshot()["fallbacks"] == {"training": 14, "grad": 14}
        with torch.no_grad():
            model(ids)
        assert patched.counters.snapshot()["fallback_rows"] == 28


def test_a_weight_that_is_replaced_is_answered_densely() -> None:
    model = model_of("Llama")
    with patch(model, config=EXACT) as patched, torch.no_grad():
        model.get_output_embeddings().weight = torch.nn.Parameter(head(VOCABULARY, 32, seed=3))
        model(ids_of(1))
        assert patched.counters.snapshot()["fallbacks"] == {"weight": 7}


def test_a_copy_of_the_model_is_not_patched_and_uses_its_own_weight() -> None:
    model = model_of("Llama")
    with patch(model, config=EXACT) as patched, torch.no_grad():
        other = copy.deepcopy(model)
        other.get_output_embeddings().weight.zero_()
        patched.counters.reset()

        assert bool((other(ids_of(1)).logits == 0).all())
        assert patched.counters.snapshot()["steps"] == 0
        with pytest.raises(TypeError, match="undo the patch"):
            torch.save(model, io.BytesIO())
    other.get_output_embeddings().forward(torch.zeros(1, 32))


def test_draws_inside_the_head_are_those_of_the_models_softmax() -> None:
    from vplug_logits.noise import gumbel

    for name in ("Llama", "Gemma2", "Granite"):
        model = model_of(name)
        with torch.no_grad():
            wanted = model(ids_of(4)).logits.flatten(0, 1).double()
            with patch(model, config=EXACT, sampling=Sampling(temperature=0.7, seed=5)):
                drawn = model(ids_of(4)).logits.flatten(0, 1).argmax(1)
        noise = gumbel(5, torch.arange(28), range(VOCABULARY))

        assert torch.equal(drawn, (wanted / 0.7 + noise).argmax(1))


def test_generate_with_sampling_repeats_itself_with_a_seed_and_not_with_another() -> None:
    model = model_of("Llama")
    texts = []
    for seed in (5, 5, 6):
        with patch(model, config=SAFE, sampling=Sampling(seed=seed)):
            texts.append(written(model, 2))

    assert torch.equal(texts[0], texts[1])
    assert not torch.equal(texts[0], texts[2])


def test_a_compiled_model_draws_the_same() -> None:
    model, states = model_of("Llama"), torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    module = model.get_output_embeddings()
    drawn = []
    for compiled in (False, True):
        with patch(model, config=EXACT, sampling=Sampling(seed=5)), torch.no_grad():
            call = torch.compile(module, backend="eager") if compiled else module
            drawn.append(call(states).argmax(1))

    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], module(states).argmax(1))


def _artefact(model: Any, path: str, bits: int) -> str:
    weight, calibration = model.get_output_embeddings().weight.detach(), calibrate(model)
    artefact.write(
        path,
        build(weight, calibration.moment, bits),
        digests=digest.of_rows(weight),
        seed=0,
        dtype="float32",
        source="tiny",
        positions=calibration.positions,
        states=calibration.states,
    )
    return path


def test_an_artefact_is_used_and_must_be_of_this_head(tmp_path: Any) -> None:
    model = model_of("Llama")
    wanted = written(model, 8)
    path = _artefact(model, str(tmp_path / "head.safetensors"), 4)

    with patch(model, config=SAFE, artefact=path):
        assert torch.equal(written(model, 8), wanted)
    with patch(model, config=SAFE, artefact=artefact.read(path)) as patched:
        written(model, 1)
        assert patched.counters.snapshot()["fallback_rows"] <= 3
    with patch(model, config=Config.of("safe", bits=4, rows=32, artefact=path)):
        assert torch.equal(written(model, 8), wanted)
    with pytest.raises(BadInputError, match="4 bits"):
        patch(model, "exact", artefact=path)
    with pytest.raises(ArtefactForeignError, match="2051 of 2051"):
        patch(model_of("Llama", seed=1), config=SAFE, artefact=path)
    assert "forward" not in model.get_output_embeddings().__dict__


def test_an_artefact_of_fewer_rows_is_refused(tmp_path: Any) -> None:
    # Tokens were added to the model since: rows that the sketch does not know would never be drawn.
    model = model_of("Llama")
    path = _artefact(model, str(tmp_path / "head.safetensors"), 4)
    model.resize_token_embeddings(VOCABULARY + 5, mean_resizing=False)

    with pytest.raises(ArtefactForeignError, match=f"has .{VOCABULARY + 5}, 32"):
        patch(model, config=SAFE, artefact=path)


@pytest.mark.parametrize(("name", "more"), [("Cohere", {"logit_scale": 0.98}), ("Granite", {"logits_scaling": 1.03})])
def test_a_factor_near_one_is_seen_in_sixteen_bits(name: str, more: dict[str, Any]) -> None:
    model = model_of(name, dtype=torch.bfloat16, **more)
    factor = more.get("logit_scale") or 1 / more["logits_scaling"]

    with patch(model, config=EXACT) as patched:
        assert patched.head._after.scale == pytest.approx(factor)


@pytest.mark.parametrize("mode", ["fast", "clusters", "dense"])
def test_every_mode_generates(mode: str) -> None:
    model = model_of("Llama")
    # As many rows as make few misses on so small a head.
    config = Config.of(mode, bits=4 if mode == "fast" else None, rows=1024)
    wanted = written(model, 8)
    with patch(model, config=config) as patched:
        found = written(model, 8)
        assert patched.counters.snapshot()["rows"] == 8 * 24
        assert patched.counters.snapshot()["fallback_rows"] == 0
    assert float((found[:, 7] == wanted[:, 7]).float().mean()) > 0.8
    if mode != "clusters":
        assert torch.equal(found, wanted)


def _with_bias(model: Any) -> None:
    model.lm_head.bias = torch.nn.Parameter(torch.zeros(VOCABULARY))


def _of_another_class(model: Any) -> None:
    class Odd(torch.nn.Linear):
        pass

    odd = Odd(32, VOCABULARY, bias=False)
    model.set_output_embeddings(odd)


def _quantised(model: Any) -> None:
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().to(torch.int8), requires_grad=False)


def _doubled(model: Any) -> None:
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().double())


def _squared(model: Any) -> None:
    usual = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        answer = usual(*args, **kwargs)
        answer.logits = answer.logits**2
        return answer

    model.forward = forward


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_with_bias, "bias"),
        (_of_another_class, "Odd and no plain torch.nn.Linear"),
        (_quantised, "int8"),
        (_doubled, "float64"),
        (_squared, "after its head is not understood"),
    ],
)
def test_heads_that_are_not_understood_are_refused(spoil: Any, text: str) -> None:
    model = model_of("Llama")
    spoil(model)

    with pytest.raises(UnsupportedHeadError, match=text):
        patch(model, config=EXACT)
    assert "forward" not in model.get_output_embeddings().__dict__


def test_what_is_no_causal_language_model_is_refused() -> None:
    with pytest.raises(UnsupportedHeadError, match="no output embeddings"):
        patch(torch.nn.Linear(3, 4))


def test_a_head_that_fails_its_self_test_is_not_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("Llama")
    # One bit and one row: it misses far too often.
    with pytest.raises(UnsupportedHeadError, match="self-test"):
        patch(model, config=Config.of("fast", bits=1, rows=1))
    assert "forward" not in model.get_output_embeddings().__dict__


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"mode": "exact", "config": EXACT}, "both given"),
        ({"mode": "exakt"}, "exact"),
        ({"sampling": Sampling(temperature=0.0)}, "temperature"),
        ({"sampling": Sampling(temperature=float("nan"))}, "temperature"),
    ],
    ids=["both", "word", "zero", "nan"],
)
def test_settings_that_mean_nothing_are_refused(more: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        patch(model_of("Llama"), **more)


def test_a_backend_that_is_named_and_cannot_serve_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    model = model_of("Llama")
    before = model.lm_head.forward
    with pytest.raises(BackendError, match="backend triton: it serves no device of type cpu"):
        patch(model, config=Config.of("safe", bits=4, rows=32, backend="triton"))
    assert model.lm_head.forward == before
