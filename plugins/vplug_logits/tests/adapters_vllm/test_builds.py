"""Without an artefact: dense while a child builds, looked at once a second, switched; or waited for; or left dense.

The child itself is that of `server_build`, which has tests of its own and runs in the tests of a real server; here a
stand-in answers when it is told to.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import layers
import pytest
import torch
from layers import made, states, written

from heads import head
from vplug_logits.adapters.vllm import serving, sources
from vplug_logits.server_build import Building, Failed, Ready

pytestmark = [
    pytest.mark.usefixtures("vllm_rank"),
    pytest.mark.filterwarnings("ignore"),  # vLLM's and its packages'
]


class Child:
    """Stands for `BackgroundBuild`.

    Attributes:
        started: Model, dtype and revision of each one that was started.
        outcome: What the next look finds.
        looks: How often it was looked at.
    """

    started: list[tuple[str, str, str | None]]
    outcome: Any
    looks: int

    def __init__(self, model: str, config: Any, dtype: str, *, revision: str | None = None) -> None:
        self.started.append((model, dtype, revision))

    def poll(self) -> Any:
        type(self).looks += 1
        return self.outcome


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> type[Child]:
    """A stand-in that builds for ever."""

    class One(Child):
        started, outcome, looks = [], Building(), 0

    monkeypatch.setattr(sources, "BackgroundBuild", One)
    return One


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock that stands still until it is moved; sleeping moves it."""
    now = SimpleNamespace(seconds=1000.0)

    def sleep(seconds: float) -> None:
        now.seconds += seconds

    time = SimpleNamespace(monotonic=lambda: now.seconds, sleep=sleep)
    monkeypatch.setattr(serving, "time", time)
    monkeypatch.setattr(sources, "time", time)
    return now


def the_head() -> dict[str, Any]:
    from vplug_logits import plugin

    (head,) = plugin.state().heads
    return head


def test_dense_answers_while_a_child_builds_and_then_two_stages_do(
    installed: Any, child: type[Child], clock: Any, tmp_path: Path
) -> None:
    installed()
    processor, head, weight = made(revision="r1")
    asked = states()
    dense = asked @ weight.T
    layers.assert_close(processor(head, asked), dense)
    assert child.started == [(layers.MODEL, "float32", "r1")]
    assert the_head()["state"] == "building"
    for _ in range(5):
        processor(head, asked)
    assert child.looks == 0  # no second has passed
    clock.seconds += 1.5
    processor(head, asked)
    processor(head, asked)
    assert child.looks == 1
    assert the_head()["counters"]["fallbacks"] == {"building": 40}
    child.outcome = Ready(written(tmp_path / "a", weight))
    clock.seconds += 1.5
    assert torch.equal(processor(head, asked).argmax(1), dense.argmax(1))
    assert the_head()["state"] == "active", the_head()
    assert the_head()["counters"]["rows"] == 45
    assert the_head()["counters"]["rescored_rows"] > 0


def test_a_build_that_fails_leaves_it_dense_with_its_reason(installed: Any, child: type[Child], clock: Any) -> None:
    installed()
    processor, head, _ = made()
    processor(head, states())
    child.outcome = Failed("a-model: no such model")
    clock.seconds += 1.5
    processor(head, states())
    assert the_head()["state"] == "dense"
    assert the_head()["reason"] == "no sketch could be built: a-model: no such model"
    clock.seconds += 99
    processor(head, states())
    assert child.looks == 1
    assert len(child.started) == 1


def test_weights_that_changed_since_are_built_anew(
    installed: Any, child: type[Child], clock: Any, tmp_path: Path
) -> None:
    from vplug_logits import cache
    from vplug_logits.config import Config

    installed()
    processor, head, weight = made()
    written(Path(cache.place(layers.MODEL, Config.of("safe"), dtype="float32")), weight + 1)
    processor(head, states())
    assert the_head()["state"] == "building"
    assert "10000 of 10000 rows differ" in the_head()["reason"]
    child.outcome = Ready(written(tmp_path / "new", weight))
    clock.seconds += 1.5
    processor(head, states())
    assert the_head()["state"] == "active"


def test_but_not_for_a_drafter_whose_head_is_another_one(installed: Any, child: type[Child], clock: Any) -> None:
    from vplug_logits import cache
    from vplug_logits.config import Config

    installed()
    processor, head, weight = made(speculative_config=object())
    written(Path(cache.place(layers.MODEL, Config.of("safe"), dtype="float32")), weight + 1)
    processor(head, states())
    assert the_head()["state"] == "dense"
    assert not child.started


def test_a_server_that_waits_is_active_from_its_first_step(
    installed: Any, child: type[Child], clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vplug_logits import cache
    from vplug_logits.config import Config

    installed(VPLUG_LOGITS_BUILD="wait")
    weight = head(layers.V, layers.D)
    place = cache.place(layers.MODEL, Config.of("safe"), dtype="float32")

    def poll(self: Any) -> Any:
        child.looks += 1
        return Ready(written(Path(place), weight)) if child.looks == 30 else Building()

    monkeypatch.setattr(child, "poll", poll)
    began = clock.seconds
    processor, lm_head, _ = made()  # as the model is made
    assert child.looks == 30
    assert 5 < clock.seconds - began < 10
    processor(lm_head, states())
    assert the_head()["state"] == "active", the_head()
    assert the_head()["counters"]["fallback_rows"] == 0


def test_it_does_not_wait_for_ever(installed: Any, child: type[Child], clock: Any) -> None:
    installed(VPLUG_LOGITS_BUILD="wait")
    began = clock.seconds
    processor, head, _ = made()
    assert clock.seconds - began == pytest.approx(sources.WAIT_SECONDS, abs=1)
    processor(head, states())
    assert the_head()["state"] == "building"


def test_a_model_that_makes_no_tokens_is_not_waited_for(installed: Any, child: type[Child], clock: Any) -> None:
    installed(VPLUG_LOGITS_BUILD="wait")
    made(runner_type="pooling")
    assert not child.started


def test_a_file_that_is_named_is_not_built(installed: Any, child: type[Child], clock: Any, tmp_path: Path) -> None:
    installed(VPLUG_LOGITS_BUILD="wait", VPLUG_LOGITS_ARTEFACT=str(tmp_path / "missing"))
    processor, head, _ = made()
    processor(head, states())
    assert the_head()["state"] == "dense"
    assert "is no file" in the_head()["reason"]
    assert not child.started


def test_a_model_whose_note_fails_is_made_all_the_same(
    installed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from vplug_logits.adapters.vllm import origin

    def fails() -> None:
        raise RuntimeError("no such configuration")

    monkeypatch.setattr(origin, "_current", fails)
    installed()
    processor, head, weight = made()
    layers.assert_close(processor(head, states()), states() @ weight.T)
    assert "vLLM did not tell which model this is" in the_head()["reason"]
