"""In a process of a running vLLM: the fast metadata, our loader behind vLLM's functions, our records in its metrics.

Modules are patched right after they were executed, or now if they were; what has bound a function by name is rebound.
Every patch checks the signature that it replaces. If ours fails in a way that is no verdict on a plugin or a policy,
vLLM's own function answers.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import perf_counter

from vplug_rs import env
from vplug_rs._strict._hook import Watcher
from vplug_rs.vllm import versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from vplug_rs.patching import Patch

OFF, INERT, ACTIVE = "off", "inert", "active"
_BY_GROUP = "load_plugins_by_group"


class State:
    """What became of us in this process.

    Attributes:
        state: "off" (by the variable), "inert" (see `reason`) or "active".
        reason: Why it is inert, in one sentence; else empty.
        door: What called `activate` first.
        version: The vLLM that was found, or None.
        patches: What was replaced, and what could not be.
        seconds: How long it took to take part; what is patched later is not in it.
    """

    def __init__(self) -> None:
        self.state, self.reason, self.door = OFF, "", ""
        self.version: str | None = None
        self.patches: list[Patch] = []
        self.seconds = 0.0
        self.by_group: Any = None  # what vLLM's modules have as `load_plugins_by_group`


_state = State()


def state() -> State:
    """What became of us in this process."""
    return _state


def activate(door: str) -> State:
    """Takes part in this process's vLLM, once; the later calls change nothing.

    Returns:
        What became of it.
    """
    if _state.door or env.switch(env.VLLM) is not True:
        if not _state.door and (word := env.unknown_word(env.VLLM)) is not None:
            _state.door = door
            _inert(f"{env.VLLM} is {word!r}, which is neither {', '.join(env.ON)} nor {', '.join(env.OFF)}")
        return _state
    began = perf_counter()
    _state.door = door
    try:
        return _take_part()
    finally:
        _state.seconds = perf_counter() - began


def _take_part() -> State:
    _state.version = versions.installed()
    if _state.version is None:
        if "vllm" in sys.modules:
            _inert("the vLLM that is being imported has no metadata that tells its version")
        else:  # some other program that imports torch
            _state.state, _state.reason = INERT, "no vLLM is installed"
        return _state
    if not versions.is_supported(_state.version):
        _inert(f"vLLM {_state.version} is none of those that it knows ({', '.join(versions.SUPPORTED)})")
        return _state
    _state.state = ACTIVE
    import vplug_rs

    vplug_rs.install()
    sys.meta_path.insert(0, Watcher(_executed, tuple(_PATCHES)))
    due = [name for name in _PATCHES if name in sys.modules]
    if not _patch_now(due):
        sys.meta_path.insert(0, _Later(due))
    return _state


def _patch_now(due: list[str]) -> bool:
    """Patches the modules that are whole, and takes them off the list; whether none is left."""
    for name in list(due):
        module = sys.modules.get(name)
        if module is None or not getattr(getattr(module, "__spec__", None), "_initializing", False):
            due.remove(name)
            if module is not None:
                _executed(module, name)
    return not due


class _Later:
    """Finds nothing: it looks, at each import from now on, whether modules are whole that were half imported."""

    def __init__(self, due: list[str]) -> None:
        self._due = due

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002  # a finder's
        if self._due and _patch_now(self._due) and self in sys.meta_path:
            sys.meta_path.remove(self)


def _inert(reason: str) -> None:
    _state.state, _state.reason = INERT, reason
    sys.stderr.write(f"vplug_rs takes no part in this vLLM: {reason}\n")


def _executed(module: ModuleType, name: str) -> None:
    try:
        _PATCHES[name](module)
    except Exception as error:  # noqa: BLE001  # inside an import of vLLM: it goes on without this patch
        from vplug_rs.notices import warn

        warn(f"{name} could not be patched: {type(error).__name__}: {error}")


def _replace(
    module: ModuleType, name: str, ours: Callable[..., Any], expects: Callable[..., Any], *, by_group: bool = False
) -> None:
    """Puts ours in the place of a function, and wherever a module of vLLM has bound it by name.

    With `by_group`, vLLM's own answers where somebody has replaced the `load_plugins_by_group` that it would call.
    """

    def make(theirs: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if by_group and _is_replaced(module):
                return theirs(*args, **kwargs)
            return _answered(name, ours, *args, **kwargs)

        return replacement

    _install(module, name, make, expects)


def _is_replaced(module: ModuleType) -> bool:
    """Whether somebody has put a function of its own in the place of the `load_plugins_by_group` in a module."""
    return vars(module).get(_BY_GROUP) is not _state.by_group


def _install(
    module: ModuleType, name: str, make: Callable[[Any], Callable[..., Any]], expects: Callable[..., Any]
) -> None:
    from vplug_rs import patching  # what it imports in turn, every vLLM has imported

    original = vars(module).get(name)
    label = f"vplug_rs.{name}"
    patch = patching.replace(module, name, make, expects=expects, switch=env.VLLM, label=label, contain=False)
    _state.patches.append(patch)
    if patch.state != patching.APPLIED:
        from vplug_rs.notices import warn

        warn(f"vLLM's {name} stays as it is: {patch.reason}")
        return
    installed = vars(module)[name]
    for other, found in list(sys.modules.items()):
        if other.startswith("vllm") and found is not module:
            space = getattr(found, "__dict__", {})  # None stands for a blocked import
            if space.get(name) is original:
                space[name] = installed


def _answered(name: str, ours: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What ours answers. Its own errors are verdicts: on a policy, on a plugin that has to be there, on platforms.

    Raises:
        VplugError: a verdict.
        StepAside: anything else is a fault of ours, and vLLM's own function is to answer.
    """
    from vplug_rs.errors import VplugError
    from vplug_rs.patching import StepAside
    from vplug_rs.vllm.selection import ForeignPointError, log

    try:
        return ours(*args, **kwargs)
    except ForeignPointError as error:
        raise StepAside from error
    except VplugError as error:
        if error.hint and error.hint not in getattr(error, "__notes__", ()):
            error.add_note(error.hint)  # vLLM shows a traceback, and that shows notes
        raise
    except Exception as error:
        log.exception("vplug_rs failed in place of %s, which answers itself", name)
        raise StepAside from error


def _takes_group(group: str) -> None:
    """The signature that is expected."""


def _takes_tasks(supported_tasks: Any = None) -> None:
    """The signature that is expected."""


def _takes_app(app: Any, supported_tasks: Any) -> None:
    """The signature that is expected."""


def _takes_config(vllm_config: Any, renderer: Any, plugin_from_init: Any = None) -> None:
    """The signature that is expected."""


def _plugins(module: ModuleType) -> None:
    from vplug_rs.groups import GENERAL
    from vplug_rs.vllm import endpoints, functions, selection

    def general() -> None:
        # vLLM asks up to four times in a process; whoever clears its flag wants it done again, and so do failures
        if vars(module).get("plugins_loaded") and selection.is_settled(GENERAL):
            return
        functions.load_general_plugins()
        with suppress(AttributeError):
            module.plugins_loaded = True  # type: ignore[attr-defined]  # others may ask

    _replace(module, _BY_GROUP, functions.load_plugins_by_group, _takes_group)
    _state.by_group = vars(module).get(_BY_GROUP)
    _replace(module, "load_general_plugins", general, lambda: None, by_group=True)
    _replace(module, "load_endpoint_plugins", endpoints.load_endpoint_plugins, _takes_tasks, by_group=True)


def _platforms(module: ModuleType) -> None:
    from vplug_rs.vllm import functions

    def resolve() -> str:
        probes, device = module.builtin_platform_plugins, module.envs.VLLM_TARGET_DEVICE
        return functions.resolve_platform(probes, device, "vllm.platforms.interface.UnspecifiedPlatform")

    _replace(module, "resolve_current_platform_cls_qualname", resolve, lambda: None, by_group=True)


def _logits_v1(module: ModuleType) -> None:
    from vplug_rs.vllm import functions

    def load() -> list[Any]:
        return functions.load_logits_processors(guard=module.guard_cuda_initialization)

    _replace(module, "_load_logitsprocs_plugins", load, lambda: None)


def _logits_v2(module: ModuleType) -> None:
    from vplug_rs.vllm import functions

    def load() -> list[Any]:
        from importlib import import_module

        guard = import_module("vllm.utils.torch_utils").guard_cuda_initialization
        return functions.load_logits_processors(module.LogitsProcessor, guard=guard)

    _replace(module, "_load_v2_logitsprocs_plugins", load, lambda: None)


def _io_processors(module: ModuleType) -> None:
    from vplug_rs.vllm import functions

    def make(theirs: Callable[..., Any]) -> Callable[..., Any]:
        def get(vllm_config: Any, renderer: Any, plugin_from_init: Any = None) -> Any:
            if _is_replaced(module):
                return theirs(vllm_config, renderer, plugin_from_init)
            asked = None if plugin_from_init else _asked_by_model(vllm_config)
            found = _answered("get_io_processor", functions.io_processor_class, plugin_from_init, asked)
            # the plugin's own code: its errors are its own
            return None if found is None else found(vllm_config, renderer)

        return get

    _install(module, "get_io_processor", make, _takes_config)


def _asked_by_model(vllm_config: Any) -> Any:
    return vllm_config.model_config.hf_config.to_dict().get("io_processor_plugin")


def _endpoints(module: ModuleType) -> None:
    from vplug_rs.vllm import endpoints

    def make(theirs: Callable[..., Any]) -> Callable[..., Any]:
        def attach(app: Any, supported_tasks: Any) -> Any:
            endpoints.watch(app)
            try:
                return theirs(app, supported_tasks)
            finally:
                endpoints.report(app)

        return attach

    _install(module, "attach_endpoint_plugins", make, _takes_app)


def _metrics(module: ModuleType) -> None:
    from vplug_rs import patching
    from vplug_rs.vllm import metrics

    def make(original: Callable[[], Any]) -> Callable[[], Any]:
        def registry() -> Any:
            found = original()
            metrics.add(found)
            return found

        return registry

    name, label = "get_prometheus_registry", "vplug_rs.metrics"
    _state.patches.append(patching.replace(module, name, make, expects=lambda: None, switch=env.VLLM, label=label))


def _ray(module: ModuleType) -> None:
    """Our variables travel to Ray's workers, by this module's own set.

    The variable that vLLM has for it would change the key of its compile cache.
    """
    prefixes = getattr(module, "DEFAULT_ENV_VAR_PREFIXES", None)
    if isinstance(prefixes, set):
        prefixes.add("VPLUG_")
        return
    name = "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY"
    words = [word for word in os.environ.get(name, "").split(",") if word]
    os.environ[name] = ",".join(dict.fromkeys([*words, "VPLUG_"]))


def _ray_workers(module: ModuleType) -> None:
    """Our variables are there before a worker imports vLLM: the others arrive when torch has been at our door."""
    name = "_RAY_WORKER_PRE_IMPORT_ENV_VARS"
    names = getattr(module, name, None)
    if isinstance(names, frozenset):
        setattr(module, name, names | env.VARIABLES.keys())


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "vllm.plugins": _plugins,
    "vllm.platforms": _platforms,
    "vllm.plugins.endpoint_plugins.interface": _endpoints,
    "vllm.plugins.io_processors": _io_processors,
    "vllm.v1.sample.logits_processor": _logits_v1,
    "vllm.v1.worker.gpu.sample.logits_processor.loader": _logits_v2,
    "vllm.v1.metrics.prometheus": _metrics,
    "vllm.ray.ray_env": _ray,
    "vllm.v1.executor.ray_env_utils": _ray_workers,
}
