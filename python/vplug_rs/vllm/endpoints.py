"""vLLM's endpoint plugins over our loader: named in a list, made by factories, their routes watched for collisions."""

from __future__ import annotations

from vplug_rs.groups import ENDPOINT
from vplug_rs.interfaces import endpoint
from vplug_rs.vllm.selection import VllmLoader, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from vplug_rs.loading.plugin import Plugin

    Routes = list[tuple[Plugin, endpoint.Route]]

_watching: list[Routes] = []  # while an app is being built


def load_endpoint_plugins(supported_tasks: Iterable[str] | None = None) -> list[Any]:
    """The endpoint plugins that a list names, made by their factories, if the server has a task that they ask for.

    Without a list none is loaded. Each factory is called once for each call of this function, as in vLLM.

    Args:
        supported_tasks: The tasks of the server; None has none of those that a plugin may ask for.
    """
    loader = VllmLoader(ENDPOINT)
    if loader.names_none():
        plugins = loader.report().plugins
        if plugins:
            names = ", ".join(plugin.name for plugin in plugins)
            text = "Endpoint plugins are installed (%s), but %s names none; they add routes, so they have to be named"
            log.warning(text, names, loader.policy.origin, extra={"vplug": ("unlisted", None)})
        return []
    tasks = set(supported_tasks or ())
    out = []
    for name, plugin in loader.select().items():
        try:
            made = plugin.object()
            required = made.required_tasks
            wanted = None if required is None else set(required)
        except (Exception, SystemExit):  # noqa: BLE001  # contained: told with its traceback
            log.exception("Endpoint plugin %s cannot be made", name, extra={"vplug": ("failed", name)})
            continue
        if wanted is not None and not wanted & tasks:
            text = "Endpoint plugin %s is left out: it asks for one of %s, and the server has %s"
            log.info(text, name, required, supported_tasks, extra={"vplug": ("gated", name)})
            continue
        log.info("Endpoint plugin %s is loaded", name, extra={"vplug": ("attached", name)})
        for finding in endpoint.check(made, plugin):
            log.warning("%s", finding, extra={"vplug": ("warning", name)})
        if _watching:
            _watch(made, plugin, _watching[-1])
        out.append(made)
    return out


def attach_endpoint_plugins(attach: Callable[[Any, Any], Any], app: Any, supported_tasks: Any) -> Any:
    """The function of that name in vLLM, with a report of routes that take another one's place, or never answer.

    Args:
        attach: vLLM's function, which asks `load_endpoint_plugins`.
        app: The application.
        supported_tasks: The tasks of the server.
    """
    core, found = endpoint.routes(app.routes), []  # type: ignore[var-annotated]  # Routes
    _watching.append(found)
    try:
        answer = attach(app, supported_tasks)
    finally:
        _watching.pop()
    for finding in endpoint.collisions(core, found):
        log.warning("%s", finding, extra={"vplug": ("warning", None)})
    return answer


def _watch(made: Any, plugin: Plugin, found: Routes) -> None:
    """Has the routes noted that a plugin object attaches."""
    genuine = made.attach_router

    def attach_router(app: Any) -> Any:
        before = list(app.routes)
        answer = genuine(app)
        found.extend((plugin, route) for route in endpoint.added(before, app.routes))
        return answer

    try:
        made.attach_router = attach_router
    except AttributeError:  # slots, or frozen: its routes go unreported
        return
