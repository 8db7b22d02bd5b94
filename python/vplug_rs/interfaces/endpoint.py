"""vLLM's endpoint plugins: what one has to offer, whether a server may use it, and which routes it takes over.

In vLLM a plugin's route replaces an earlier one of the same path and method; the last plugin wins, and a line in the
log says so. Here that is a list of findings, made of routes that the host hands over.
"""

from __future__ import annotations

from typing import Any, Protocol

from vplug_rs.groups import whose
from vplug_rs.interfaces._check import MISSING, WARNING, Check, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vplug_rs.loading.plugin import Plugin

# `--api-key` covers these alone
_GUARDED = ("/v1", "/v2", "/inference", "/cohere")
_CORE = "vLLM itself"


class EndpointPlugin(Protocol):
    """An endpoint plugin as vLLM 0.33 uses it: routes on the API server's app, and their state."""

    name: str
    required_tasks: tuple[str, ...] | None

    def attach_router(self, app: Any) -> None:
        """Adds the routes to the FastAPI app."""

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Makes what the routes need; `engine_client` is None on a server without an engine."""


def check(found: Any, plugin: Plugin | None = None) -> list[Finding]:
    """What is missing in a plugin object or its class, or cannot be called as vLLM calls it.

    What `__init__` sets can be seen in an object alone.
    """
    it = Check(found, plugin)
    it.method(EndpointPlugin, "attach_router", "app")
    it.method(EndpointPlugin, "init_state", "engine_client, state, args")
    if it.is_class:
        it.constructor(EndpointPlugin, "")
    unseen = it.is_class and it.has_constructor()
    name, tasks = it.attribute("name"), it.attribute("required_tasks")
    if name is MISSING and not unseen:
        it.error("there is no `name`", 'Set `name = "..."`, the same as the entry point\'s.')
    elif isinstance(name, str) and plugin is not None and name != plugin.name:
        it.warn(
            f"its `name` is `{name}`, but `VLLM_PLUGINS` has to list the entry point's name `{plugin.name}`",
            "Give both the same name.",
        )
    if tasks is MISSING:
        if not unseen:
            it.error("there is no `required_tasks`", "Set `required_tasks = None`, or a tuple of tasks.")
    elif isinstance(tasks, str):
        it.error("`required_tasks` is a text, of which vLLM takes each letter for a task", f"Set `({tasks!r},)`.")
    elif isinstance(tasks, (tuple, list, set, frozenset)) and not tasks:
        it.warn("`required_tasks` is empty, so no server ever has one of them", "Set `required_tasks = None`.")
    elif isinstance(tasks, (bool, int, float)):
        it.error(f"`required_tasks` is {tasks!r}", "Set `required_tasks = None`, or a tuple of tasks.")
    return it.findings


def gate(found: Any, supported_tasks: Sequence[str] | None, plugin: Plugin | None = None) -> Finding | None:
    """Why a server with these tasks leaves a plugin object out, or None if it uses it.

    Reads the object's `required_tasks`, which may run code of the plugin's; an error in it is an error finding.
    """
    it = Check(found, plugin)
    try:
        tasks = found.required_tasks
        if tasks is None or (supported_tasks is not None and set(tasks) & set(supported_tasks)):
            return None
        asked = "one of " + ", ".join(f"`{task}`" for task in tasks) if tasks else "one of none"
    except Exception as error:  # noqa: BLE001  # in vLLM it stops the server
        it.error(f"`required_tasks` cannot be read ({type(error).__name__})", "Set a plain attribute.")
        return it.findings[0]
    has = "has " + (", ".join(f"`{task}`" for task in supported_tasks or ()) or "no task")
    it.warn(f"it is left out: it requires {asked}, and the server {has}", "Serve a model with such a task.")
    return it.findings[0]


class Route:
    """What a route of an app answers.

    Attributes:
        path: Its template.
        methods: Its methods.
        plain: Whether it is none of FastAPI's own routes; vLLM neither replaces such a one, nor anything by it.
    """

    __slots__ = ("methods", "path", "plain")

    def __init__(self, path: str, methods: Iterable[str], *, plain: bool = False) -> None:
        self.path, self.methods, self.plain = path, tuple(sorted(methods)), plain


def routes(listed: Iterable[Any]) -> list[Route]:
    """The routes of an app; of what has no methods, such as a mounted app, nothing."""
    out = []
    for one in listed:
        path, methods = getattr(one, "path", None), getattr(one, "methods", None)
        if isinstance(path, str) and methods:
            out.append(Route(path, methods, plain=not Check(one).descends("APIRoute", "fastapi")))
    return out


def added(before: Iterable[Any], after: Iterable[Any]) -> list[Route]:
    """What an app's routes have gained, told by identity, as vLLM tells it."""
    known = {id(one) for one in before}
    return routes(one for one in after if id(one) not in known)


def collisions(core: Iterable[Route], plugins: Iterable[tuple[Plugin, Route]]) -> list[Finding]:
    """Which routes of plugins take the place of which, never answer, or are open to everybody.

    Args:
        core: The routes that are there before the plugins.
        plugins: The plugins' own, each with its plugin, in the order in which they are attached.
    """
    owners: dict[tuple[str, str], tuple[Route, str]] = {}
    for route in core:
        for method in route.methods:
            owners.setdefault((_shape(route.path), method), (route, _CORE))
    out = []
    for plugin, route in plugins:
        who = whose(plugin)
        met: dict[int, tuple[Route, str, list[str]]] = {}
        for method in route.methods:
            key = (_shape(route.path), method)
            earlier, owner = owners.setdefault(key, (route, who))
            if earlier is not route and owner != who:
                met.setdefault(id(earlier), (earlier, owner, []))[2].append(method)
            if _replaces(route, earlier):
                owners[key] = (route, who)
        out += [_collision(who, route, *rest) for rest in met.values()]
        if not route.path.startswith(_GUARDED):
            text = f"`{route.path}` is not covered by `--api-key`, so everybody may call it"
            out.append(Finding(WARNING, who, text, f"Let it begin with one of {', '.join(_GUARDED)}."))
    return out


def _replaces(route: Route, earlier: Route) -> bool:
    return route.path == earlier.path and not route.plain and not earlier.plain


def _collision(who: str, route: Route, earlier: Route, owner: str, methods: list[str]) -> Finding:
    which = ", ".join(f"`{method} {route.path}`" for method in methods)
    if _replaces(route, earlier):
        return Finding(WARNING, who, f"its {which} takes the place of that of {owner}", "Choose a path of its own.")
    if route.path == earlier.path:
        text = (
            f"its {which} never answers, since that of {owner} comes first, and only FastAPI's own routes are replaced"
        )
        return Finding(WARNING, who, text, "Choose a path of its own.")
    text = f"its {which} never answers, since `{earlier.path}` of {owner} comes first and matches the same"
    return Finding(WARNING, who, text, "Spell the path as there to replace it, or choose one of its own.")


def _shape(path: str) -> str:
    """A path template without the names of its parameters, which make no difference to what it matches."""
    head, *rest = path.split("{")
    for part in rest:
        inside, _, after = part.partition("}")
        head += "{:" + (inside.partition(":")[2] or "str") + "}" + after
    return head
