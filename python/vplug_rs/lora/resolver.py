"""Resolvers in a stable order: the first that has the adapter answers, and each of the others has said why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vplug_rs.errors import UsageError
from vplug_rs.lora import names
from vplug_rs.lora.refusal import Refusal, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vplug_rs.lora.adapter import Adapter


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted.

    Attributes:
        name: The adapter's name, as a client wrote it.
        base: The served base model, as the host names it.
    """

    name: str
    base: str


class Resolver(Protocol):
    """One place where adapters come from.

    Attributes:
        name: What to call it in messages; unique within a registry.
    """

    name: str

    async def resolve(self, request: Request) -> Adapter:
        """The adapter, ready to be loaded.

        Raises:
            Refusal: it is not served from here, and why.
        """
        ...


@dataclass(frozen=True, slots=True)
class Resolution:
    """What came of a request.

    Attributes:
        request: What was wanted.
        adapter: What was found, or None.
        refusals: Who said no, in the order they were asked: the resolver's name ("names" for the name itself), and why.
    """

    request: Request
    adapter: Adapter | None
    refusals: tuple[tuple[str, Refusal], ...]

    def __str__(self) -> str:
        said = "; ".join(f"{who}: {refusal.code}: {refusal} ({refusal.hint})" for who, refusal in self.refusals)
        name = shown(self.request.name)
        if self.adapter is not None:
            return f"adapter {name} comes from {self.adapter.resolver}" + (f"; before it, {said}" if said else "")
        return f"adapter {name} is not served: {said or 'there is no resolver'}"


class Registry:
    """Resolvers, asked in the order in which they were added."""

    def __init__(self, resolvers: Iterable[Resolver] = ()) -> None:
        self._resolvers: dict[str, Resolver] = {}
        for resolver in resolvers:
            self.add(resolver)

    @property
    def resolvers(self) -> tuple[Resolver, ...]:
        """Those that are asked, in order."""
        return tuple(self._resolvers.values())

    def add(self, resolver: Resolver) -> None:
        """Adds a resolver after the others.

        Raises:
            UsageError: there is another one of that name.
        """
        there = self._resolvers.setdefault(resolver.name, resolver)
        if there is not resolver:
            raise UsageError(
                f"there is another resolver named `{resolver.name}`: `{type(there).__qualname__}`",
                hint="Give one of them another `name`.",
            )

    async def resolve(self, request: Request) -> Resolution:
        """Asks one after the other until one has the adapter. Hostile names reach none of them.

        An error of a resolver that is no refusal counts as one, `resolver-failed`, with the error as its cause.
        """
        try:
            names.parts(request.name)
        except Refusal as refusal:
            return Resolution(request, None, (("names", refusal),))
        refusals: list[tuple[str, Refusal]] = []
        for resolver in self.resolvers:
            try:
                adapter = await resolver.resolve(request)
            except Refusal as refusal:
                refusals.append((resolver.name, refusal))
            except Exception as error:  # noqa: BLE001  # one resolver's fault must not hide what the next one has
                refusals.append((resolver.name, _failed(resolver, error)))
            else:
                return Resolution(request, adapter, tuple(refusals))
        return Resolution(request, None, tuple(refusals))


def _failed(resolver: Resolver, error: Exception) -> Refusal:
    refusal = Refusal(
        "resolver-failed",
        f"`{type(resolver).__qualname__}` failed: {type(error).__name__}: {shown(str(error))}",
        hint="This is a fault of the resolver: see the traceback in the log, and report it to its author.",
    )
    refusal.__cause__ = error
    return refusal
