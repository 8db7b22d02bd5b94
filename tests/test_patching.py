"""Patches of somebody else's functions: checked before, counted while, undone after, and never in the host's way."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import types
import warnings
from typing import Any

import pytest

from vplug_rs import patching
from vplug_rs.patching import StepAside, replace


class Host:
    def plain(self, x: int, *, y: int = 1) -> int:
        return x + y

    @classmethod
    def of_class(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x

    @staticmethod
    def static(x: int) -> int:
        return x

    attribute = 3


@pytest.fixture
def host() -> Any:
    return type("Host", (Host,), dict(vars(Host)))


def shape_of_two(self: Any, x: Any) -> None: ...
def shape_of_plain(self: Any, x: Any, *, y: Any = 0) -> None: ...


def doubled(original: Any) -> Any:
    return lambda *args, **kwargs: ("doubled", original(*args, **kwargs))


@pytest.mark.parametrize(
    ("name", "ask", "answer"),
    [
        ("plain", lambda kind: kind().plain(1, y=2), 3),
        ("of_class", lambda kind: kind.of_class(1), ("Host", 1)),
        ("static", lambda kind: kind().static(1), 1),
    ],
)
def test_methods_of_every_kind_are_replaced_and_put_back(host: Any, name: str, ask: Any, answer: Any) -> None:
    before = vars(host)[name]
    patch = replace(host, name, doubled)
    assert patch.state == patching.APPLIED
    assert ask(host) == ("doubled", answer)
    assert patch.calls == 1
    patch.undo()
    patch.undo()
    assert ask(host) == answer
    assert vars(host)[name] is before


def test_a_function_of_a_module_keeps_its_name_and_doc() -> None:
    module = types.ModuleType("a_module")
    exec("def f(x):\n    'doc'\n    return x\n", vars(module))
    replace(module, "f", doubled)
    assert (module.f(1), module.f.__name__, module.f.__doc__) == (("doubled", 1), "f", "doc")


def test_an_inherited_method_is_replaced_where_it_was_asked_for() -> None:
    child: Any = type("Child", (Host,), {})
    patch = replace(child, "plain", doubled)
    assert child().plain(1) == ("doubled", 2)
    assert Host().plain(1) == 2
    patch.undo()
    assert "plain" not in vars(child)


def test_another_signature_is_refused_and_nothing_changes(host: Any) -> None:
    before = vars(host)["plain"]
    patch = replace(host, "plain", doubled, expects=shape_of_two)
    assert patch.state == patching.REFUSED
    assert patch.reason.endswith("Host.plain takes (self, x, *, y=1), and (self, x) was expected")
    assert vars(host)["plain"] is before
    assert replace(host, "plain", doubled, expects=shape_of_plain).state == patching.APPLIED


@pytest.mark.parametrize(("name", "reason"), [("absent", "there is no "), ("attribute", "is no function")])
def test_what_cannot_be_replaced_is_said(host: Any, name: str, reason: str) -> None:
    patch = replace(host, name, doubled)
    assert patch.state == patching.REFUSED
    assert reason in patch.reason


def test_a_make_that_fails_leaves_the_host_alone(host: Any) -> None:
    def broken(original: Any) -> Any:
        raise OSError("no")

    patch = replace(host, "plain", broken)
    assert (patch.state, patch.reason) == (patching.REFUSED, "it could not be made: OSError: no")
    assert host().plain(1) == 2


@pytest.mark.parametrize("word", ["0", "off", " False ", "no"])
def test_the_switch_turns_it_off(host: Any, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PATCH", word)
    assert replace(host, "plain", doubled, switch="A_PATCH").state == patching.OFF
    assert host().plain(1) == 2
    monkeypatch.setenv("A_PATCH", "1")
    assert replace(host, "plain", doubled, switch="A_PATCH").state == patching.APPLIED


def test_the_same_patch_twice_is_one(host: Any) -> None:
    first = replace(host, "plain", doubled)
    assert replace(host, "plain", doubled) is first
    assert host().plain(1) == ("doubled", 2)
    other = replace(host, "plain", doubled, label="another")
    assert other is not first
    assert host().plain(1) == ("doubled", ("doubled", 2))


def test_a_replacement_may_step_aside(host: Any) -> None:
    def picky(original: Any) -> Any:
        def replacement(self: Any, x: int, *, y: int = 1) -> int:
            if x < 0:
                raise StepAside
            return 7

        return replacement

    patch = replace(host, "plain", picky)
    assert (host().plain(1), host().plain(-1)) == (7, 0)
    assert (patch.calls, patch.stepped_aside, patch.failures) == (2, 1, 0)


def test_a_replacement_that_fails_is_told_once_and_the_original_answers(host: Any) -> None:
    def failing(original: Any) -> Any:
        def replacement(*args: Any, **kwargs: Any) -> int:
            raise OSError("odd")

        return replacement

    patch = replace(host, "plain", failing)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert [host().plain(1), host().plain(2)] == [2, 3]
    assert (patch.failures, patch.last_failure) == (2, "OSError: odd")
    assert [str(one.message).count("OSError: odd") for one in told] == [1]
    patch.undo()
    strict = replace(host, "plain", failing, contain=False)
    with pytest.raises(OSError, match="odd"):
        host().plain(1)
    assert strict.failures == 0


def test_undone_below_somebody_elses_wrapper_it_passes_calls_on(host: Any) -> None:
    patch = replace(host, "plain", doubled)
    ours = vars(host)["plain"]
    host.plain = lambda self, x: ("theirs", ours(self, x))
    assert host().plain(1) == ("theirs", ("doubled", 2))
    patch.undo()
    assert host().plain(1) == ("theirs", 2)


def test_counters_count_over_threads(host: Any) -> None:
    patch = replace(host, "plain", doubled)
    threads = [threading.Thread(target=lambda: [host().plain(1) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert patch.calls == 4000


def test_the_same_patch_below_another_one_is_found(host: Any) -> None:
    def added(original: Any) -> Any:
        return lambda *args, **kwargs: original(*args, **kwargs) + 10

    first = replace(host, "plain", added, label="first")
    other = replace(host, "plain", added, label="other")
    assert replace(host, "plain", added, label="first") is first
    assert host().plain(1) == 22
    assert other.original is not first.original


def test_a_coroutine_function_stays_one_and_is_contained_while_it_is_awaited() -> None:
    class Later:
        async def ask(self, x: int) -> int:
            return x

    def failing(original: Any) -> Any:
        async def replacement(self: Any, x: int) -> int:
            await asyncio.sleep(0)
            if x == 1:
                raise OSError("mine")
            if x == 2:
                raise StepAside
            return int(await original(self, x)) + 10

        return replacement

    patch = replace(Later, "ask", failing)
    assert inspect.iscoroutinefunction(Later.ask)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert [asyncio.run(Later().ask(x)) for x in (0, 1, 2)] == [10, 1, 2]
    assert (patch.calls, patch.failures, patch.stepped_aside) == (3, 1, 1)
    patch.undo()
    assert asyncio.run(Later().ask(0)) == 0


def test_odd_arguments_are_a_reason_and_no_error(host: Any) -> None:
    assert replace(host, "plain", functools.partial(doubled)).state == patching.APPLIED
    refused = replace(host, "of_class", doubled, expects=3)  # type: ignore[arg-type]
    assert (refused.state, "no function with a signature" in refused.reason) == (patching.REFUSED, True)
