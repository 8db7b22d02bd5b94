"""vLLM's endpoint plugins over our loader: named in a list, made by factories, their routes watched for collisions."""

from __future__ import annotations

from vplug_rs.groups import ENDPOINT
from vplug_rs.interfaces import endpoint
from vplug_rs.loading import attempt
from vplug_rs.loading.plugin import Failure
from vplug_rs.vllm.selection import VllmLoader, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from vplug_rs.loading.plugin import Plugin

_watching: list[_Watch] = []  # while an app is being built


def load_endpoint_plugins(supported_tasks: Iterable[str] | None = None) -> list[Any]:
    """The endpoint plugins that a list names, made by their factories, if the server has a task that they ask for.

    Without a list none is loaded. Each factory is called once for each call of this function, as in vLLM.

    Args:
        supported_tasks: The tasks of the server; None has none of those that a plugin may ask for.

    Raises:
        VplugError: only under `VPLUG_STRICT` or `VPLUG_REQUIRE`, or for a policy file that cannot be read.
    """
    loader = VllmLoader(ENDPOINT)
    if loader.names_none():
        _tell_unlisted(loader)
        return []
    tasks = set(supported_tasks or ())
    made: dict[str, Plugin] = {}
    out = []
    for name, plugin in loader.select().items():
        end = attempt.call(plugin, plugin.object)
        try:
            required = None if isinstance(end, Failure) else end.value.required_tasks
            wanted = None if required is None else set(required)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
            end = Failure(plugin, "call", error, hint="`required_tasks` has to be None or a tuple of tasks.")
            wanted = required = None
        if isinstance(end, Failure):
            loader.tell(end)
            loader.fail(plugin, end)
            continue
        loader.succeed(plugin)
        if wanted is not None and not wanted & tasks:
            rule = f"it asks for one of {required}, and the server has {supported_tasks}"
            log.info("Endpoint plugin %s is left out: %s", name, rule, extra={"vplug": ("gated", name)})
            loader.leave_out(plugin, rule)
            continue
        log.info("Endpoint plugin %s is loaded", name, extra={"vplug": ("attached", name)})
        for finding in endpoint.check(end.value, plugin):
            log.warning("%s", finding, extra={"vplug": ("warning", name)})
        if _watching:
            _watching[-1].watch(end.value, plugin)
        made[name] = plugin
        out.append(end.value)
    loader.demand(made)
    return out


def _tell_unlisted(loader: VllmLoader) -> None:
    plugins = loader.report().plugins
    if not plugins:
        return
    names, origin = ", ".join(plugin.name for plugin in plugins), loader.policy.origin
    text = "Endpoint plugins are installed (%s), but %s names none; they add routes, so they have to be named"
    log.warning(text, names, origin, extra={"vplug": ("unlisted", None)})
    for plugin in plugins:
        loader.leave_out(plugin, f"endpoint plugins have to be named, and {origin} names none")
    loader.demand({})


def watch(app: Any) -> None:
    """From now on until `report` the routes of plugins are noted; a fault of ours leaves them unnoted."""
    try:
        _watching.append(_Watch(app))
    except Exception as error:  # noqa: BLE001  # an app with ideas of its own
        log.debug("Routes are not watched", exc_info=error, extra={"vplug": ("loaded", None)})


def report(app: Any) -> None:
    """Tells of routes that take another one's place, or never answer; the plugins are as they were."""
    if not _watching or _watching[-1].app is not app:
        return
    watched = _watching.pop()
    watched.undo()
    for finding in endpoint.collisions(watched.core, watched.found):
        log.warning("%s", finding, extra={"vplug": ("warning", None)})


class _Watch:
    """The routes of one app while plugins attach theirs."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.core = endpoint.routes(app.routes)
        self.found: list[tuple[Plugin, endpoint.Route]] = []
        self.touched: list[tuple[Any, Any]] = []

    def watch(self, made: Any, plugin: Plugin) -> None:
        """Notes what a plugin object attaches; one that cannot be touched goes unnoted."""
        genuine = getattr(made, "attach_router", None)
        if genuine is None:
            return

        def attach_router(app: Any) -> Any:
            before = list(app.routes)
            answer = genuine(app)
            self.found.extend((plugin, route) for route in endpoint.added(before, app.routes))
            return answer

        own = getattr(made, "__dict__", {}).get("attach_router")
        try:
            # past a `__setattr__` of its own, as of a model that knows its fields
            object.__setattr__(made, "attach_router", attach_router)
        except (AttributeError, TypeError):  # slots, a class
            return
        self.touched.append((made, own))

    def undo(self) -> None:
        """Leaves the objects as they were."""
        for made, own in self.touched:
            if own is None:
                object.__delattr__(made, "attach_router")
            else:
                object.__setattr__(made, "attach_router", own)
