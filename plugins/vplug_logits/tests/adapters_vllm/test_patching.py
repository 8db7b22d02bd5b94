"""One function replaced, by vplug_rs's means where it is there and by our own where it is not: the same in both."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from vplug_logits.adapters.vllm import patching


@pytest.fixture(params=["vplug_rs", "vplug_logits"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whose means are used; without ours in the environment the first is not tested."""
    if request.param == "vplug_rs":
        pytest.importorskip("vplug_rs")
    else:
        monkeypatch.setitem(sys.modules, "vplug_rs", None)
    return str(request.param)


class Base:
    def answer(self, question: str) -> str:
        return f"theirs to {question}"


def made() -> type[Base]:
    class Layer(Base):
        def answer(self, question: str) -> str:
            return super().answer(question)

    return Layer


def expects(self: Any, question: Any) -> None:
    """What the original takes."""


def expects_more(self: Any, question: Any, more: Any) -> None:
    """It takes less."""


def expects_query(self: Any, query: Any) -> None:
    """It has another name."""


def ours(original: Any) -> Any:
    def answer(self: Any, question: str) -> str:
        return f"ours, not {original(self, question)}"

    return answer


def test_it_answers_in_its_place_and_can_be_undone(means: str) -> None:
    layer = made()
    applied = patching.replace(layer, "answer", ours, expects)
    assert applied.by == means
    assert layer().answer("x") == "ours, not theirs to x"
    applied.undo()
    assert layer().answer("x") == "theirs to x"


def test_the_second_time_changes_nothing(means: str) -> None:
    layer = made()
    patching.replace(layer, "answer", ours, expects)
    before = layer.answer
    patching.replace(layer, "answer", ours, expects)
    assert layer.answer is before
    assert layer().answer("x") == "ours, not theirs to x"


def test_an_inherited_method_is_replaced_for_this_class_alone(means: str) -> None:
    layer = type("Layer", (Base,), {})
    applied = patching.replace(layer, "answer", ours, expects)
    assert layer().answer("x") == "ours, not theirs to x"
    assert Base().answer("x") == "theirs to x"
    applied.undo()
    assert "answer" not in vars(layer)


def test_undone_below_a_wrapper_of_somebody_else_it_only_passes_on(means: str) -> None:
    layer = made()
    applied = patching.replace(layer, "answer", ours, expects)
    inner = layer.answer
    layer.answer = lambda self, question: f"around {inner(self, question)}"  # type: ignore[method-assign]
    applied.undo()
    assert layer().answer("x") == "around theirs to x"


@pytest.mark.parametrize(
    ("name", "wanted", "told"),
    [
        ("answers", expects, "there is no"),
        (
            "answer",
            expects_more,
            "takes (self, question), and (self, question, more) was expected",
        ),
        ("answer", expects_query, "(self, query) was expected"),
    ],
)
def test_what_is_missing_or_takes_something_else_is_refused_and_left_as_it_is(
    means: str, name: str, wanted: Any, told: str
) -> None:
    layer = made()
    with pytest.raises(patching.PatchRefusedError) as caught:
        patching.replace(layer, name, ours, wanted)
    assert told in str(caught.value)
    assert layer().answer("x") == "theirs to x"


def test_what_the_replacement_raises_reaches_the_caller(means: str) -> None:
    def failing(original: Any) -> Any:
        def answer(self: Any, question: str) -> str:
            raise ValueError(question)

        return answer

    layer = made()
    patching.replace(layer, "answer", failing, expects)
    with pytest.raises(ValueError, match="x"):
        layer().answer("x")
