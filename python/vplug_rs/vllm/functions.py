"""vLLM's loading functions over our loader: found, chosen and ordered as vLLM 0.33 does it.

Different, on purpose, is only what docs/compatibility.md lists: each plugin runs once and is finished before anybody
goes on, failures are contained and tried again, and a package with damaged metadata takes nobody down.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext

from vplug_rs.errors import PluginLoadError, VplugError
from vplug_rs.groups import GENERAL, IO_PROCESSOR, LOGITS_PROCESSOR, PLATFORM, owner, whose
from vplug_rs.loading import attempt
from vplug_rs.loading.plugin import Failure
from vplug_rs.platforms.answers import Answer, PlatformError, ask, choose
from vplug_rs.vllm import platform
from vplug_rs.vllm.selection import VllmLoader, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from vplug_rs.loading.plugin import Plugin

_OTHER_RUNNER = "Uninstall it, or choose the other runner (VLLM_USE_V2_MODEL_RUNNER)."


class LogitsProcessorError(PluginLoadError, RuntimeError):
    """A logits processor cannot be loaded; the start ends."""


class WrongInterfaceError(VplugError, ValueError):
    """A logits processor has not the interface of the model runner; the start ends."""

    exit_status = 1


def load_plugins_by_group(group: str) -> dict[str, Any]:
    """The plugins of a group as `{name: object}`; each is imported once in a process, one that fails is left out.

    Raises:
        VplugError: only under `VPLUG_STRICT` or `VPLUG_REQUIRE`, or for a policy file that cannot be read.
    """
    return {name: plugin.object for name, plugin in VllmLoader(group).select().items()}


def load_general_plugins() -> None:
    """Loads and calls the plugins in `vllm.general_plugins`, each once in a process, failures contained.

    Whoever comes second waits until the first is done; a plugin that failed is tried again by the next call.

    Raises:
        VplugError: as `load_plugins_by_group`; what was called before has been called.
    """
    loader = VllmLoader(GENERAL)
    chosen = loader.select()
    for plugin in chosen.values():
        loader.call_once(plugin)
    loader.demand(chosen)


def io_processor_class(explicit: str | None, from_model: Any) -> Any:
    """The class of the IO processor that is asked for, or None if none is; no other plugin is imported.

    Raises:
        ValueError: it is not there; `vplug_rs.interfaces.io_processor` has the kinds of that.
    """
    from vplug_rs.interfaces import io_processor

    found = io_processor.select(explicit or None, from_model, loader=VllmLoader(IO_PROCESSOR, collision="last"))
    if found is None:
        return None
    for finding in found.findings:
        log.warning("%s", finding, extra={"vplug": ("warning", found.plugin.name)})
    log.info("The IO processor is %s", found.plugin.name, extra={"vplug": ("processor", found.plugin.name)})
    return found.cls


def load_logits_processors(
    base: type | None = None, *, guard: Callable[[], AbstractContextManager[Any]] | None = None
) -> list[Any]:
    """The classes in `vllm.logits_processors`, all of them: here the first failure stops the start.

    Args:
        base: What they have to be subclasses of; None asks for nothing, as vLLM's V1 runner.
        guard: A context in which they are imported; vLLM has one that keeps CUDA out.

    Raises:
        LogitsProcessorError: one cannot be loaded; a RuntimeError, as in vLLM.
        WrongInterfaceError: one is no subclass of `base`; a ValueError, as in vLLM.
        VplugError: as `load_plugins_by_group`.
    """
    loader = VllmLoader(LOGITS_PROCESSOR)
    out = []
    plugins = loader._judged()
    loader.tell_kept_out()
    for plugin in plugins:
        with (guard or nullcontext)():
            loader._object(plugin)
        if plugin.failure is not None:
            failure = plugin.failure
            raise LogitsProcessorError(str(failure), [failure], hint=failure.hint) from failure.exception
        found = plugin.object
        if base is not None and not (isinstance(found, type) and issubclass(found, base)):
            text = f"{whose(plugin)} in {LOGITS_PROCESSOR} is no subclass of {base.__module__}.{base.__qualname__}"
            raise WrongInterfaceError(f"{text}: this runner takes no other interface", hint=_OTHER_RUNNER)
        out.append(found)
    loader.demand({plugin.name: plugin for plugin in plugins})
    if out:
        log.debug("%d logits processors are loaded", len(out), extra={"vplug": ("loaded", None)})
    return out


def resolve_platform(probes: Mapping[str, Callable[[], Any]], target_device: str | None, unspecified: str) -> str:
    """The dotted name of the platform class that counts, as `resolve_current_platform_cls_qualname` decides.

    What `VPLUG_PLATFORM` orders, or `vplug run` has found, counts before anybody is asked.

    Args:
        probes: vLLM's built-in probes, by name.
        target_device: What `VLLM_TARGET_DEVICE` says; "cpu" is an order, and nothing else is asked then.
        unspecified: What counts where no platform is active.

    Raises:
        PlatformError: several are active.
        VplugError: as `load_plugins_by_group`.
    """
    if target_device == "cpu":
        found = probes["cpu"]()
        if found is None:
            raise PlatformError("The platform cpu is ordered, and its own probe says that there is none")
        log.debug("The platform cpu is ordered", extra={"vplug": ("ordered", "cpu")})
        return str(found)
    settled = platform.settled(unspecified)
    if settled is not None:
        return settled
    loader = VllmLoader(PLATFORM)
    plugins = loader.select()
    answers = ask(probes)
    for answer in answers:
        if answer.error is not None:
            log.debug("Probe %s failed", answer.name, exc_info=answer.error, extra={"vplug": ("probe", answer.name)})
    answers += _plugins_asked(loader, plugins)
    loader.demand(plugins)
    chosen = choose(answers)
    if chosen is None:
        log.debug("No platform is active", extra={"vplug": ("platform", None)})
        platform.tell_why_none()
        return unspecified
    level = logging.DEBUG if chosen.builtin else logging.INFO
    log.log(level, "The platform is %s", chosen.name, extra={"vplug": ("platform", chosen.name)})
    return str(chosen.qualname)


def _plugins_asked(loader: VllmLoader, plugins: Mapping[str, Plugin]) -> list[Answer]:
    """What platform plugins say; what one raises is its answer, and told."""
    answers = []
    for name, plugin in plugins.items():
        end = attempt.call(plugin, plugin.object)
        failure: Failure | None = None
        if isinstance(end, Failure):
            answer, failure = Answer(name, builtin=False, error=end.exception, whose=owner(plugin)), end
        else:
            answer = Answer(name, end.value, builtin=False, whose=owner(plugin))
            if answer.error is not None:
                failure = Failure(plugin, "call", answer.error, hint=answer.fix)
        if failure is not None:
            log.warning("%s\n%s", failure, failure.traceback.rstrip(), extra={"vplug": ("probe", name)})
            loader.fail(plugin, failure)
        else:
            loader.succeed(plugin)
        answers.append(answer)
    return answers
