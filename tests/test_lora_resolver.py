"""The registry of resolvers: a stable order, a reason for every no; a fault of one hides no answer of another."""

from __future__ import annotations

import asyncio

import pytest

from vplug_rs.errors import UsageError
from vplug_rs.lora.adapter import Adapter, Config
from vplug_rs.lora.refusal import CODES, Refusal
from vplug_rs.lora.resolver import Registry, Request, Resolution

BASE = "acme/base"


class Place:
    """A resolver that has some adapters, and raises for others."""

    def __init__(self, name: str, *has: str, fault: BaseException | None = None) -> None:
        self.name, self.has, self.fault = name, has, fault
        self.asked: list[str] = []

    async def resolve(self, request: Request) -> Adapter:
        self.asked.append(request.name)
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        if request.name not in self.has:
            raise Refusal("not-found", f"there is no `{request.name}` at {self.name}", hint="Look.")
        return Adapter(request.name, f"/{self.name}", Config(request.base, 4), "exact", self.name)


def asked(registry: Registry, name: str = "a") -> Resolution:
    return asyncio.run(registry.resolve(Request(name, BASE)))


def test_the_first_that_has_it_answers_and_those_before_have_said_why_not() -> None:
    places = Place("one"), Place("two", "a"), Place("three", "a")
    found = asked(Registry(places))
    assert found.adapter is not None
    assert found.adapter.resolver == "two"
    assert [(who, refusal.code) for who, refusal in found.refusals] == [("one", "not-found")]
    assert [place.asked for place in places] == [["a"], ["a"], []]
    assert str(found).startswith("adapter `a` comes from two; before it, one: not-found: there is no `a` at one")


def test_they_are_asked_in_the_order_in_which_they_were_added() -> None:
    names = ["m", "b", "z", "a", "k"]
    registry = Registry(Place(name) for name in names[:2])
    for name in names[2:]:
        registry.add(Place(name))
    for _ in range(3):
        assert [who for who, _ in asked(registry).refusals] == names
    assert [one.name for one in registry.resolvers] == names


def test_two_of_one_name_are_refused_and_the_same_one_again_is_not() -> None:
    first = Place("one")
    registry = Registry([first])
    registry.add(first)
    assert registry.resolvers == (first,)
    with pytest.raises(UsageError, match="another resolver named `one`: `Place`"):
        registry.add(Place("one"))


@pytest.mark.parametrize(
    "fault", [OSError("disk"), KeyError("x"), ZeroDivisionError(), TimeoutError("slow\n")], ids=repr
)
def test_a_resolver_that_fails_is_told_and_the_next_one_is_asked(fault: Exception) -> None:
    found = asked(Registry([Place("bad", fault=fault), Place("good", "a")]))
    assert found.adapter is not None
    ((who, refusal),) = found.refusals
    assert (who, refusal.code, refusal.__cause__) == ("bad", "resolver-failed", fault)
    assert f"`Place` failed: {type(fault).__name__}" in str(refusal)
    assert str(refusal).isprintable()


@pytest.mark.parametrize("fault", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_what_ends_a_task_or_a_process_passes(fault: BaseException) -> None:
    async def ask() -> BaseException | None:
        try:
            await Registry([Place("bad", fault=fault), Place("good", "a")]).resolve(Request("a", BASE))
        except BaseException as error:
            return error
        return None

    assert asyncio.run(ask()) is fault


@pytest.mark.parametrize("name", ["../a", "/a", "a\0", "", "a/..", None])
def test_a_hostile_name_reaches_no_resolver(name: str) -> None:
    place = Place("one", name)
    found = asked(Registry([place]), name)
    assert found.adapter is None
    assert [who for who, _ in found.refusals] == ["names"]
    assert place.asked == []


def test_no_resolver_at_all_is_told() -> None:
    assert str(asked(Registry())) == "adapter `a` is not served: there is no resolver"


def test_a_refusal_has_a_code_of_the_table() -> None:
    with pytest.raises(ValueError, match="`nonsense` is no code"):
        Refusal("nonsense", "x", hint="y")
    assert all(code == code.lower() and meaning and not meaning.endswith(".") for code, meaning in CODES.items())
