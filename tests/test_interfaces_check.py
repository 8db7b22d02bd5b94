"""What all checkers share: presence, signatures and async-ness, told without running anything."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from typing import Any, Protocol

import pytest

from vplug_rs.groups import GROUPS
from vplug_rs.interfaces import ERROR, WARNING, Finding
from vplug_rs.interfaces._check import Check


class Wanted(Protocol):
    def __init__(self, config: Any, device: Any = None) -> None: ...

    def work(self, logits: Any, ctx: Any = None) -> Any: ...

    async def wait(self, state: Any) -> None: ...

    @classmethod
    def validate(cls, params: Any) -> None: ...


def told(found: Any, name: str, *calls: str) -> list[str]:
    it = Check(found)
    it.method(Wanted, name, *calls)
    return [finding.text for finding in it.findings]


def made(found: Any, call: str = "config, device") -> list[str]:
    it = Check(found)
    it.constructor(Wanted, call)
    return [finding.text for finding in it.findings]


def takes(parameters: str) -> Any:
    """Give a function with these parameters."""
    return eval(f"lambda {parameters}: None")


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Callable:
    def __call__(self, logits: Any, ctx: Any) -> Any: ...


class AsyncCallable:
    async def __call__(self, state: Any) -> None: ...


class Hostile(type):
    def __getattribute__(cls, name: str) -> Any:
        raise SystemExit(f"{name} was asked for")

    def __getattr__(cls, name: str) -> Any:
        raise SystemExit(f"{name} was asked for")


@pytest.mark.parametrize(
    "work",
    [
        takes("self, logits, ctx"),
        takes("self, logits, ctx=None, more=1"),
        takes("self, *args"),
        takes("self, *args, **kwargs"),
        takes("*args, **kwargs"),
        staticmethod(takes("logits, ctx")),
        classmethod(takes("cls, logits, ctx")),
        functools.partial(takes("extra, logits, ctx"), 1),
        functools.partialmethod(takes("self, extra, logits, ctx"), 1),
        Callable(),
        property(takes("self")),
        functools.cached_property(takes("self")),
        decorated(takes("self, logits, ctx")),
        max,  # a built-in without a signature
    ],
)
def test_what_can_be_called_with_two_arguments_passes(work: Any) -> None:
    assert told(type("Some", (), {"work": work}), "work", "logits, ctx") == []


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (
            takes("self, logits"),
            "`work(self, logits)` does not take what vLLM calls it with, (logits, ctx): too many positional arguments",
        ),
        (
            takes("self, logits, ctx, more"),
            (
                "`work(self, logits, ctx, more)` does not take what vLLM calls it with, (logits, ctx): missing a "
                "required "
                "argument: 'more'"
            ),
        ),
        (
            takes("self, logits, *, ctx"),
            (
                "`work(self, logits, *, ctx)` does not take what vLLM calls it with, (logits, ctx): too many "
                "positional "
                "arguments"
            ),
        ),
        (
            staticmethod(takes("self, logits, ctx")),
            (
                "`work(self, logits, ctx)` does not take what vLLM calls it with, (logits, ctx): missing a required "
                "argument: 'ctx'"
            ),
        ),
        (decorated(takes("self, logits")), "too many positional arguments"),
        (lambda: None, "too many positional arguments"),
        (5, "`work` is int, and a method is wanted"),
        (None, "`work` is NoneType, and a method is wanted"),
        (abstractmethod(takes("self, logits, ctx")), "`work` is abstract still, so no instance can be made"),
    ],
)
def test_what_cannot_be_called_so_is_told_with_the_call(work: Any, text: str) -> None:
    (said,) = told(type("Some", (), {"work": work}), "work", "logits, ctx")
    assert text in said


def test_keywords_count_by_name() -> None:
    class Some:
        def work(self, values: Any, ctx: Any = None) -> Any: ...

    assert told(Some, "work", "logits, ctx=") == []
    (said,) = told(Some, "work", "logits= ctx=")
    assert said.startswith(
        "`work(self, values, ctx=None)` does not take what vLLM calls it with, (logits=..., ctx=...): "
    )


def test_the_fix_is_the_declaration_of_the_protocol() -> None:
    it = Check(object())
    for name in ("work", "wait", "validate"):
        it.method(Wanted, name, "")
    assert [str(finding) for finding in it.findings] == [
        "error: `builtins.object`: there is no `work` (Declare `def work(self, logits, ctx=None)`.)",
        "error: `builtins.object`: there is no `wait` (Declare `async def wait(self, state)`.)",
        "error: `builtins.object`: there is no `validate` (Declare `@classmethod def validate(cls, params)`.)",
    ]


def test_a_coroutine_is_wanted_where_the_host_awaits() -> None:
    async def good(self: Any, state: Any) -> None: ...

    def bad(self: Any, state: Any) -> None: ...

    def promising(self: Any, state: Any) -> Awaitable[None]: ...  # type: ignore[name-defined]  # noqa: F821

    async def generator(self: Any, state: Any) -> Any:
        yield state

    async def bare(state: Any) -> None: ...

    no_async = "`wait` is no `async def`, and vLLM awaits what it gives"
    for wait, expected in (
        (good, []),
        (decorated(good), []),
        (functools.partial(good, None), []),
        (staticmethod(bare), []),
        (AsyncCallable(), []),
        (promising, []),
        (bad, [no_async]),
        (decorated(bad), [no_async]),
        (generator, ["`wait` is an async generator (it has a `yield`), and vLLM does not iterate over it"]),
    ):
        assert told(type("Some", (), {"wait": wait}), "wait", "state") == expected, wait


def test_a_coroutine_is_refused_where_the_host_does_not_await() -> None:
    async def work(self: Any, logits: Any) -> None: ...

    text = "`work` is `async def`, and vLLM does not await it: nothing in it would run"
    assert told(type("Some", (), {"work": work}), "work", "logits") == [text]
    assert told(type("Some", (), {"work": decorated(work)}), "work", "logits") == [text]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"__init__": takes("self, config, device")}, []),
        ({"__init__": takes("self, *args")}, []),
        ({"__new__": takes("cls, config, device")}, []),
        ({}, ["it takes no arguments, and vLLM makes it with (config, device)"]),
        (
            {"__init__": takes("self, config")},
            [
                (
                    "`__init__(self, config)` does not take what vLLM makes it with, (config, device): too many "
                    "positional "
                    "arguments"
                )
            ],
        ),
        (
            {"__new__": takes("cls")},
            ["it does not take what vLLM makes it with, (config, device): too many positional arguments"],
        ),
    ],
)
def test_the_constructor_is_told(body: dict[str, Any], expected: list[str]) -> None:
    assert made(type("Some", (), body)) == expected


def test_a_class_without_a_constructor_is_made_without_arguments() -> None:
    assert made(type("Some", (), {}), "") == []


def test_deriving_from_our_protocol_implements_nothing() -> None:
    class Lazy(Wanted): ...

    assert told(Lazy, "work", "logits, ctx") == []  # a protocol of this test's own, as any base

    from vplug_rs.interfaces import endpoint

    class Plugin(endpoint.EndpointPlugin): ...

    assert [finding.text for finding in endpoint.check(Plugin)] == [
        "there is no `attach_router`",
        "there is no `init_state`",
        "there is no `name`",
        "there is no `required_tasks`",
    ]


def test_nothing_of_the_object_runs() -> None:
    class Some(metaclass=Hostile):
        def __getattr__(self, name: str) -> Any:
            raise SystemExit(name)

        def __getattribute__(self, name: str) -> Any:
            raise SystemExit(name)

        @property
        def work(self) -> Any:
            raise SystemExit("work")

        __slots__ = ("wait",)

    assert told(Some, "work", "logits") == []
    assert told(Some(), "work", "logits") == []
    assert told(Some(), "wait", "state") == []
    assert told(Some(), "validate", "params") == ["there is no `validate`"]


def test_attributes_of_an_instance_count_and_are_not_bound() -> None:
    class Some:
        def __init__(self) -> None:
            self.work = takes("logits, ctx")

    assert told(Some(), "work", "logits, ctx") == []
    assert told(Some, "work", "logits, ctx") == ["there is no `work`"]


def test_a_callable_that_raises_when_it_is_asked_is_taken_to_be_right() -> None:
    class Odd:
        def __call__(self) -> None: ...

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        @property
        def __signature__(self) -> Any:
            raise RuntimeError("no")

    assert told(type("Some", (), {"work": Odd()}), "work", "logits, ctx") == []


def test_a_finding_says_all() -> None:
    finding = Finding(WARNING, "plugin `x` of acme-x 1.0", "it is odd", "Even it.")
    assert (finding.severity, finding.message, finding.text, finding.hint) == (
        "warning",
        "plugin `x` of acme-x 1.0: it is odd",
        "it is odd",
        "Even it.",
    )
    assert repr(finding) == "<Finding warning: plugin `x` of acme-x 1.0: it is odd (Even it.)>"
    assert ERROR == "error"


def test_every_group_with_an_interface_has_a_checker() -> None:
    for group in GROUPS.values():
        if group.interface is not None:
            checker = __import__(group.interface, fromlist=["check"]).check
            assert list(inspect.signature(checker).parameters)[:2] == ["found", "plugin"]
