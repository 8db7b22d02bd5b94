"""Whole decode steps: of a tiny model in transformers here, and what is made of what vLLM's process tells."""

from __future__ import annotations

import json
import random
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from models import tiny
from vplug_logits.benchmark import decode, in_vllm, on_gpu, report, running, vllm_child
from vplug_logits.benchmark.timing import Plan
from vplug_logits.errors import BackendError, BuildError

PLAN = Plan(rounds=6)


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny(vocabulary=900, width=64, dtype=torch.float32)


def test_steps_with_three_heads_are_timed_and_the_model_is_left_as_it_was(model: Any, tmp_path: Path) -> None:
    forward, threads = model.lm_head.forward, torch.get_num_threads()
    found = decode.measure(model, "tiny", "tiny", PLAN, cache=str(tmp_path))
    assert found["fault"] == "" and found["misses"] == found["dense_rows"] == 0
    assert found["dtype"] == "float32" and found["steps"] == 6
    for clock in ("cpu", "wall"):
        assert set(found[clock]) == {"dense", "ours", "free"}
        assert all(0 < pair["min"] <= pair["median"] for pair in found[clock].values())
    assert found["ratio"]["min"] == pytest.approx(found["cpu"]["dense"]["min"] / found["cpu"]["ours"]["min"])
    assert found["ceiling"]["min"] == pytest.approx(found["cpu"]["dense"]["min"] / found["cpu"]["free"]["min"])
    assert model.lm_head.forward == forward and torch.get_num_threads() == threads
    text = report.markdown(running.document() | {"decode": json.loads(json.dumps([found]))})
    (row,) = (line for line in text.splitlines() if line.startswith("| tiny |"))
    assert f"{found['ratio']['median']:.2f} (" in row and row.endswith("| 0 of 6 |")
    assert "| 0 of 6, 5 dense |" in report.markdown(running.document() | {"decode": [found | {"dense_rows": 5}]})


def test_each_head_is_really_asked_and_caches_stay_in_step(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    real = decode._Steps._step

    def noted(steps: Any, kind: str, *, counts: bool) -> Any:
        found = real(steps, kind, counts=counts)
        asked.append((kind, steps._caches[kind].get_seq_length()))
        assert bool((found[0] == 0).all()) == (kind == "free")
        return found

    monkeypatch.setattr(decode._Steps, "_step", noted)
    decode.measure(model, "tiny", "tiny", PLAN, cache=str(tmp_path))
    for number in range(PLAN.rounds + 2):
        here = asked[3 * number : 3 * number + 3]
        assert {kind for kind, _ in here} == set(decode.KINDS)
        assert {length for _, length in here} == {16 + number + 1}
    assert len({tuple(kind for kind, _ in asked[at : at + 3]) for at in range(0, len(asked), 3)}) > 1


def test_other_tokens_than_dense_are_red_and_have_no_time(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = decode._Steps._step

    def wrong(steps: Any, kind: str, *, counts: bool) -> Any:
        logits, token = real(steps, kind, counts=counts)
        return (logits, (token + 1) % 900) if kind == "ours" else (logits, token)

    monkeypatch.setattr(decode._Steps, "_step", wrong)
    found = decode.measure(model, "tiny", "tiny", PLAN, cache=str(tmp_path))
    assert found["fault"] == "6 of 6 tokens are not dense's"
    assert not {"cpu", "wall", "ratio", "ceiling"} & found.keys()
    text = report.markdown(running.document() | {"decode": [found]})
    (row,) = (line for line in text.splitlines() if line.startswith("| tiny |"))
    assert row == "| tiny | float32 | - | - | - | - | - | - | RED: 6 of 6 tokens are not dense's |"


def test_the_random_model_has_the_shape_that_it_is_said_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.device("meta"):
        made = decode.gemma("bfloat16")
    assert tuple(made.lm_head.weight.shape) == (262_144, 640) and made.dtype == torch.bfloat16
    assert made.lm_head.weight is made.model.embed_tokens.weight
    assert len(made.model.layers) == 18
    assert sum(part.numel() for part in made.parameters()) == 268_098_176  # google/gemma-3-270m
    assert torch.get_default_dtype() == torch.float32


def test_in_vllm_each_round_has_one_step_with_each_head() -> None:
    def plain(_: Any, lm_head: torch.Tensor, states: torch.Tensor, bias: Any) -> torch.Tensor:
        return torch.mm(states, lm_head)

    @wraps(plain)
    def ours(*given: Any) -> torch.Tensor:
        return plain(*given) + 0.5

    switch = in_vllm.Switch(SimpleNamespace(_apply_head=ours))
    lm_head, states, answers = torch.eye(3), torch.arange(3.0)[None], []

    def step() -> None:
        answers.append((switch.kind, switch(None, lm_head, states, None).tolist()[0]))

    engine = SimpleNamespace(llm_engine=SimpleNamespace(step=step))
    found = in_vllm.measure(engine, switch, 9, random.Random(0))
    assert {kind: len(times) for kind, times in found["step"].items()} == dict.fromkeys(in_vllm.KINDS, 5)
    assert all(
        0 < one <= whole
        for kind in found["step"]
        for one, whole in zip(found["head"][kind], found["step"][kind], strict=True)
    )
    assert [kind for kind, _ in answers[:3]] == list(in_vllm.KINDS)
    said = {"dense": [0, 1, 2], "ours": [0.5, 1.5, 2.5], "free": [0, 1, 2]}
    assert all(logits == said[kind] for kind, logits in answers)


def test_in_vllm_the_step_of_the_dense_head_has_no_copy_for_the_free_one_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(*_: Any) -> torch.Tensor:
        return torch.zeros(1, 3)

    @wraps(answers)
    def ours(*given: Any) -> torch.Tensor:
        return answers(*given)

    switch = in_vllm.Switch(SimpleNamespace(_apply_head=ours))
    switch.kind = "dense"
    switch(None, None, None, None)
    monkeypatch.setattr(torch.Tensor, "clone", None)  # would raise
    switch(None, None, None, None)
    switch.kind = "free"
    assert switch(None, None, None, None).tolist() == [[0, 0, 0]]


def test_what_the_process_of_vllm_tells_becomes_shares_and_ratios() -> None:
    times = {"dense": [2.0, 3.0], "ours": [1.0, 1.0], "free": [0.5, 0.1]}
    steps = {kind: [10.0 + one for one in values] for kind, values in times.items()}
    told = {"head": times, "step": steps, "noisy": [True, True], "vllm": "9", "dense_rows": 3}
    found = vllm_child._figures(told)
    assert found["over"]["ours"]["median"] == pytest.approx((12 / 11 + 13 / 11) / 2)
    one = {"model": "m", "dtype": "float32", "mode": "safe", **found}
    text = report.markdown(running.document() | {"vllm": [one]})
    assert "| m | float32 | vLLM's own | 2,500.0 (2,000.0) | 12,500.0 (12,000.0) | 20 % | 1 |" in text
    assert "3 in float32" in text


def test_a_process_that_ends_badly_is_told_with_its_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(vllm_child, "find_spec", lambda _: object())
    monkeypatch.setattr(vllm_child, "PROGRAM", "vplug_logits.no_such_program")
    with pytest.raises(BuildError, match=r"m in bfloat16 ended with status 1: .*no_such_program"):
        vllm_child.run("m", PLAN)
    monkeypatch.setattr(vllm_child, "find_spec", lambda _: None)
    with pytest.raises(BuildError, match="not installed"):
        vllm_child.run("m", PLAN)


def test_without_a_gpu_the_reason_is_told_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def never() -> Any:
        raise AssertionError

    with pytest.raises(BackendError, match=r"^backend triton: "):
        on_gpu.run([never], PLAN)


def test_of_a_gpu_launches_step_and_dense_head_stand_side_by_side() -> None:
    one = {"gpu": "G", "vocabulary": 900, "width": 64, "mode": "safe", "batch": 4, "misses": 0, "dense": 1}
    one |= {"launches": {"transform": 1e-6, "scan": 2e-6, "rescore": 3e-6}, "step": 1e-5, "dense_head": 2.5e-5}
    text = report.markdown(running.document() | {"gpu": [one]})
    assert "## On a GPU: G" in text
    assert "| 900 x 64 | safe | 4 | 0 of 4, 1 dense | 1.0 | 2.0 | 3.0 | 10.0 | 25.0 | 2.50 |" in text
