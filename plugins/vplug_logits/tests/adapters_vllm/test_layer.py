"""The patched layer in this process: vLLM's own `LogitsProcessor` and heads, one rank, no engine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import layers
import pytest
import torch
from layers import made, states, written

pytestmark = [
    pytest.mark.usefixtures("vllm_rank"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's and its packages'
]

MODES = ["exact", "safe", "fast"]


def head_of(installed: Any, artefact: str, mode: str = "safe", **more: str) -> None:
    state = installed(VPLUG_LOGITS=mode, VPLUG_LOGITS_ARTEFACT=artefact, **more)
    assert state.state == "patched", state


def the_head() -> dict[str, Any]:
    """What is told about the one head that made logits."""
    from vplug_logits import plugin

    (head,) = plugin.state().heads
    return head


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_layer_gives_the_same_greedy_token_and_exact_top_logits(
    installed: Any, tmp_path: Path, mode: str, tied: bool, dtype: torch.dtype
) -> None:
    bits = {"exact": 8, "safe": 2, "fast": 1}[mode]
    processor, head, weight = made(dtype=dtype, tied=tied)
    asked = states(40, dtype=dtype)
    dense = processor(head, asked).clone()
    head_of(installed, written(tmp_path / "a", weight, bits=bits), mode)
    answer = processor(head, asked)
    assert the_head()["state"] == "active", the_head()
    assert answer.shape == (40, layers.V)
    assert answer.dtype == dense.dtype
    assert torch.equal(answer.argmax(1), dense.argmax(1))
    best = dense.argmax(1, keepdim=True)
    layers.assert_close(answer.gather(1, best), dense.gather(1, best))
    assert f"by backend {the_head()['backend']}" in the_head()["reason"] and the_head()["backend"]
    counters = the_head()["counters"]
    assert counters["rows"] == 40
    assert set(counters["fallbacks"]) <= {"window"}
    assert counters["fallback_rows"] <= 6
    assert counters["errors"] == 0
    # not dense under another name: most rows of the vocabulary are estimates
    assert 40 <= counters["rescored_rows"] < 40 * layers.V / 16
    assert not torch.equal(answer, dense)


def test_every_entry_of_the_layer_is_served(installed: Any, tmp_path: Path) -> None:
    processor, head, weight = made()
    asked = states(6)
    whole, local = processor(head, asked), processor(head, asked, skip_gather=True)
    top = processor.get_top_tokens(head, asked)
    ids, values = processor.get_top_k_tokens(head, asked, 4)
    head_of(installed, written(tmp_path / "a", weight, bits=8), "exact")
    assert torch.equal(processor(head, asked).argmax(1), whole.argmax(1))
    shard = processor(head, asked, skip_gather=True)
    assert shard.shape == local.shape == (6, 10_048)  # with the padding, which dense makes zero
    assert torch.equal(shard[:, layers.V :], local[:, layers.V :])
    assert torch.equal(processor.get_top_tokens(head, asked), top)
    found, of_them = processor.get_top_k_tokens(head, asked, 4)
    assert torch.equal(found[:, 0], ids[:, 0])
    layers.assert_close(of_them[:, 0], values[:, 0])
    assert the_head()["counters"]["rows"] == 24


@pytest.mark.parametrize("layer", [{"soft_cap": 200.0}, {"scale": 0.25}, {"soft_cap": 300.0, "scale": 2.0}])
def test_soft_cap_and_scale_stay_with_the_host(installed: Any, tmp_path: Path, layer: dict[str, Any]) -> None:
    processor, head, weight = made(layer=layer)
    asked = states(20)
    dense = processor(head, asked)
    head_of(installed, written(tmp_path / "a", weight), "safe")
    answer = processor(head, asked)
    assert the_head()["state"] == "active", the_head()
    assert torch.equal(answer.argmax(1), dense.argmax(1))
    layers.assert_close(answer.amax(1), dense.amax(1))


def test_the_host_may_write_into_the_answer(installed: Any, tmp_path: Path) -> None:
    processor, head, weight = made()
    asked = states(3)
    head_of(installed, written(tmp_path / "a", weight))
    first = processor(head, asked)
    kept = first.clone()
    first.fill_(-1e9)
    layers.assert_close(processor(head, asked), kept)


def test_installed_after_the_model_was_made_a_named_file_still_serves(installed: Any, tmp_path: Path) -> None:
    processor, head, weight = made()  # before the patch: its model is not known
    head_of(installed, written(tmp_path / "a", weight))
    processor(head, states())
    assert the_head()["state"] == "active"


@pytest.mark.parametrize(
    ("build", "told"), [("never", "VPLUG_LOGITS_BUILD is never"), ("auto", "vLLM did not tell which model this is")]
)
def test_without_a_sketch_and_without_a_way_to_one_it_is_dense_and_says_so(
    installed: Any, build: str, told: str
) -> None:
    processor, head, _ = made()
    asked = states()
    dense = processor(head, asked)
    installed(VPLUG_LOGITS_BUILD=build)
    assert torch.equal(processor(head, asked), dense)
    assert the_head()["state"] == "dense"
    assert told in the_head()["reason"]
    assert the_head()["counters"]["fallbacks"] == {"inactive": 5}


def test_it_is_found_beside_or_in_the_cache_by_the_model_that_vllm_was_told(installed: Any, tmp_path: Path) -> None:
    from vplug_logits import cache
    from vplug_logits.config import Config

    installed()
    processor, head, weight = made(revision="r1")
    place = cache.place(layers.MODEL, Config.of("safe"), dtype="float32", revision="r1")
    written(Path(place), weight)
    processor(head, states())
    assert the_head()["state"] == "active", the_head()
    assert place in the_head()["reason"]


def test_the_mode_dense_counts_and_changes_nothing(installed: Any) -> None:
    processor, head, _ = made()
    asked = states()
    dense = processor(head, asked)
    installed(VPLUG_LOGITS="dense")
    assert torch.equal(processor(head, asked), dense)
    assert the_head()["reason"] == "the mode is dense"
    assert the_head()["counters"]["rows"] == 5


def test_an_embedding_bias_makes_a_call_dense(installed: Any, tmp_path: Path) -> None:
    processor, head, weight = made()
    asked, bias = states(), torch.linspace(-3, 3, 10_048)
    dense = processor(head, asked, bias)
    head_of(installed, written(tmp_path / "a", weight))
    processor(head, asked)
    assert torch.equal(processor(head, asked, bias), dense)
    assert the_head()["counters"]["fallbacks"] == {"bias": 5}


class TestLeftDense:
    """Heads that are left as they are, with the reason."""

    def check(self, processor: Any, head: Any, told: str, dtype: torch.dtype = torch.float32) -> None:
        processor(head, states(dtype=dtype))
        assert the_head()["state"] == "dense"
        assert told in the_head()["reason"], the_head()
        assert the_head()["counters"]["fallbacks"] == {"inactive": 5}

    def test_a_quantised_one(self, installed: Any, tmp_path: Path) -> None:
        from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

        class Quantised(UnquantizedEmbeddingMethod):
            pass

        processor, head, weight = made()
        head.quant_method = Quantised()
        head_of(installed, written(tmp_path / "a", weight))
        self.check(processor, head, "it is quantised, or multiplied in an unknown way")

    def test_one_of_an_unknown_class(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made()
        head.__class__ = type("OtherHead", (type(head),), {})
        head_of(installed, written(tmp_path / "a", weight))
        self.check(processor, head, "OtherHead is not known")

    def test_one_whose_logits_are_wanted_in_another_dtype(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made(dtype=torch.bfloat16, head_dtype=torch.float32)
        head_of(installed, written(tmp_path / "a", weight))
        self.check(processor, head, "its logits are asked for in torch.float32", torch.bfloat16)

    def test_one_with_an_added_vocabulary(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made()
        head.num_added_embeddings = 8
        head_of(installed, written(tmp_path / "a", weight))
        self.check(processor, head, "added to the vocabulary")

    def test_one_that_the_host_keeps_in_another_form(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made()
        head.weight = torch.nn.Parameter(torch.empty(0, layers.D), requires_grad=False)
        head.cpu_linear = lambda x, *_: torch.zeros(len(x), 10_048)
        head_of(installed, written(tmp_path / "a", weight))
        self.check(processor, head, "the host keeps it in another form")

    def test_one_whose_logits_are_turned_around(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made(layer={"scale": -1.0})
        head_of(installed, written(tmp_path / "a", weight))
        self.check(processor, head, "turns their order around")

    def test_one_that_lora_may_change(self, installed: Any, tmp_path: Path) -> None:
        from types import SimpleNamespace

        processor, head, weight = made()
        head_of(installed, written(tmp_path / "a", weight))
        processor, head, weight = made(lora_config=SimpleNamespace(target_modules=None))
        self.check(processor, head, "LoRA is on")

    def test_but_not_one_that_lora_leaves_alone(self, installed: Any, tmp_path: Path) -> None:
        from types import SimpleNamespace

        _, _, weight = made()
        head_of(installed, written(tmp_path / "a", weight))
        processor, head, weight = made(lora_config=SimpleNamespace(target_modules=["q_proj"]))
        processor(head, states())
        assert the_head()["state"] == "active"

    def test_one_whose_artefact_is_of_other_weights(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made()
        head_of(installed, written(tmp_path / "a", weight))
        head.weight.data[7, 3] += 1
        self.check(processor, head, "1 of 10000 rows differ")

    def test_one_whose_artefact_is_damaged_or_missing(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made()
        path = Path(written(tmp_path / "a", weight))
        path.write_bytes(path.read_bytes()[:-9])
        head_of(installed, str(path))
        self.check(processor, head, str(path))

    def test_one_whose_artefact_has_other_bits(self, installed: Any, tmp_path: Path) -> None:
        processor, head, weight = made()
        head_of(installed, written(tmp_path / "a", weight, bits=4))
        self.check(processor, head, "has 4 bits")

    def test_one_whose_backend_is_named_and_cannot_serve(
        self, installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        processor, head, weight = made()
        monkeypatch.delenv("TRITON_INTERPRET", raising=False)
        head_of(installed, written(tmp_path / "a", weight), VPLUG_LOGITS_BACKEND="triton")
        self.check(processor, head, "backend triton: it serves no device of type cpu")
        assert the_head()["backend"] == ""

    def test_one_that_fails_the_self_test(
        self, installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from vplug_logits.kernels import plain

        processor, head, weight = made()
        path = written(tmp_path / "a", weight)
        head_of(installed, path, VPLUG_LOGITS_BACKEND="torch")
        # a backend that computes something else
        genuine = plain.PlainBackend.rescore
        monkeypatch.setattr(plain.PlainBackend, "rescore", lambda *words: genuine(*words) + 1)
        self.check(processor, head, "the self-test failed")


class TestFaults:
    """A fault of ours is counted, told once and answered by vLLM."""

    def active(self, installed: Any, tmp_path: Path) -> tuple[Any, Any, torch.Tensor, torch.Tensor]:
        processor, head, weight = made()
        asked = states()
        dense = processor(head, asked)
        head_of(installed, written(tmp_path / "a", weight), VPLUG_LOGITS_BACKEND="torch")
        processor(head, asked)
        assert the_head()["state"] == "active", the_head()
        return processor, head, asked, dense

    @pytest.mark.parametrize(("owner", "name"), [("head.Head", "logits"), ("kernels.plain.PlainBackend", "scan")])
    def test_an_exception_of_the_head(
        self,
        installed: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        owner: str,
        name: str,
    ) -> None:

        processor, head, asked, dense = self.active(installed, tmp_path)

        def fails(*_: Any) -> torch.Tensor:
            raise RuntimeError("no such kernel")

        monkeypatch.setattr(f"vplug_logits.{owner}.{name}", fails)
        logging.getLogger("vllm").propagate = True
        with caplog.at_level("WARNING"):
            for _ in range(3):
                assert torch.equal(processor(head, asked), dense)
        assert the_head()["counters"]["errors"] == 3
        assert the_head()["counters"]["fallbacks"] == {"error": 15}
        assert the_head()["state"] == "active"
        assert len([line for line in caplog.messages if "no such kernel" in line]) == 1
        for _ in range(5):
            processor(head, asked)
        assert the_head()["state"] == "dense"
        assert "8 times in a row" in the_head()["reason"]

    def test_an_exception_of_the_patch_itself(
        self, installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from vplug_logits import plugin
        from vplug_logits.adapters.vllm.serving import Serving

        processor, head, asked, dense = self.active(installed, tmp_path)

        def fails(self: Any, *more: Any) -> None:
            raise RuntimeError("no such thing")

        monkeypatch.setattr(Serving, "logits", fails)
        assert torch.equal(processor(head, asked), dense)
        assert plugin.state().failures == 1

    def test_weights_that_were_loaded_anew_in_their_place(self, installed: Any, tmp_path: Path) -> None:
        processor, head, asked, _ = self.active(installed, tmp_path)
        weight = head.weight[: layers.V].detach().clone()
        head.weight_loader(head.weight, weight + torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        head.quant_method.process_weights_after_loading(head)
        for _ in range(2):
            layers.assert_close(processor(head, asked), asked @ head.weight[: layers.V].T)
        assert the_head()["counters"]["fallbacks"] == {"drift": 5, "inactive": 5}
        assert the_head()["state"] == "dense"
        assert "weights were changed" in the_head()["reason"]

    def test_a_weight_that_was_replaced(self, installed: Any, tmp_path: Path) -> None:
        processor, head, asked, _ = self.active(installed, tmp_path)
        head.weight = torch.nn.Parameter(head.weight.detach().clone() * 2, requires_grad=False)
        head.quant_method.process_weights_after_loading(head)
        answer = processor(head, asked)
        layers.assert_close(answer, asked @ head.weight[: layers.V].T)
        assert the_head()["counters"]["fallbacks"] == {"weight": 5}

    def test_nan_states_are_answered_as_dense_answers_them(self, installed: Any, tmp_path: Path) -> None:
        processor, head, asked, dense = self.active(installed, tmp_path)
        broken = asked.clone()
        broken[2, 4] = torch.nan
        answer = processor(head, broken)
        assert bool(answer[2].isnan().all())
        assert torch.equal(answer.argmax(1)[[0, 1, 3, 4]], dense.argmax(1)[[0, 1, 3, 4]])
        assert the_head()["counters"]["fallbacks"] == {"states": 1}

    def test_figures_that_cannot_be_written_cost_the_figures_alone(
        self, installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from vplug_logits.adapters.vllm import figures

        processor, head, asked, dense = self.active(installed, tmp_path)

        def full(self: Any, found: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(figures.Writer, "write", full)
        assert torch.equal(processor(head, asked).argmax(1), dense.argmax(1))
        assert the_head()["counters"]["fallback_rows"] == 0


def test_the_figures_of_this_process_are_what_the_state_says(installed: Any, tmp_path: Path) -> None:
    import os

    from vplug_logits.adapters.vllm import figures

    processor, head, weight = made()
    head_of(installed, written(tmp_path / "a", weight))
    processor(head, states())
    processor(head, states())
    found = figures.read(os.environ[figures.FOLDER])[os.getpid()]
    assert found["heads"] == [the_head()]
    assert found["heads"][0]["counters"]["steps"] == 2


def test_registering_again_changes_nothing(installed: Any, tmp_path: Path) -> None:
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    installed()
    before = LogitsProcessor._apply_head, LogitsProcessor.__init__
    installed()
    assert (LogitsProcessor._apply_head, LogitsProcessor.__init__) == before


def test_undone_vllm_has_its_own_functions_back(installed: Any) -> None:
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    from vplug_logits.adapters.vllm.install import installation

    before = LogitsProcessor._apply_head, LogitsProcessor.__init__
    installed()
    assert LogitsProcessor._apply_head is not before[0]
    made = installation()
    assert made is not None
    made.undo()
    assert (LogitsProcessor._apply_head, LogitsProcessor.__init__) == before


def test_a_second_layer_with_the_same_head_has_counters_of_its_own(installed: Any, tmp_path: Path) -> None:
    from vllm.model_executor.layers.logits_processor import LogitsProcessor

    from vplug_logits import plugin

    processor, head, weight = made()
    with layers.engine():
        drafter = LogitsProcessor(layers.V, scale=2.0)  # as a drafter that shares the head of its target
    dense = drafter(head, states())
    head_of(installed, written(tmp_path / "a", weight))
    processor(head, states())
    assert torch.equal(drafter(head, states()).argmax(1), dense.argmax(1))
    drafter(head, states())
    assert [one["counters"]["steps"] for one in plugin.state().heads] == [1, 2]
    assert {one["state"] for one in plugin.state().heads} == {"active"}


def test_a_head_and_its_layer_are_not_kept_alive(installed: Any, tmp_path: Path) -> None:
    import gc

    from vplug_logits import plugin

    processor, head, weight = made()
    head_of(installed, written(tmp_path / "a", weight))
    processor(head, states())
    assert the_head()["state"] == "active"
    del processor, head, weight
    gc.collect()
    assert plugin.state().heads == ()


def test_rows_that_a_reload_changed_are_told_on_request(installed: Any, tmp_path: Path) -> None:
    from vplug_logits import plugin

    assert plugin.changed_rows() == {}
    processor, head, weight = made()
    head_of(installed, written(tmp_path / "a", weight))
    processor(head, states(3))
    (name,) = (head["name"] for head in plugin.state().heads)
    assert plugin.changed_rows() == {name: 0}
    head.weight.data[5] *= 1.001

    assert plugin.changed_rows() == {name: 1}
    processor(head, states(3))
    assert the_head()["state"] == "dense"


def test_a_caller_that_is_no_known_runner_is_answered_densely_and_told_once(
    installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from vplug_logits.adapters.vllm import requests

    processor, head, weight = made()
    dense = processor(head, states(4)).clone()
    head_of(installed, written(tmp_path / "a", weight))
    monkeypatch.setattr(requests, "asked", lambda _: requests.Asked(known=False))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert torch.equal(processor(head, states(4)), dense)

    assert the_head()["counters"]["fallbacks"] == {"caller": 8}
    assert len([one for one in caplog.records if "no model runner that is known" in one.message]) == 1
