"""vLLM's IO processors: what one has to offer, and which one is meant, imported alone.

vLLM imports and calls all plugins of the group to find one. `select` imports and calls the one that is asked for.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from vplug_rs import groups
from vplug_rs.errors import PluginLoadError, PluginNotFoundError, PluginRefusedError
from vplug_rs.interfaces._check import MISSING, WARNING, Check
from vplug_rs.loader import PluginLoader
from vplug_rs.loading import wanted
from vplug_rs.loading.plugin import FILTERED, LOADED, Failure
from vplug_rs.policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.interfaces._check import Finding
    from vplug_rs.loading.plugin import Plugin

_BASE = "IOProcessor"  # vLLM's, in `vllm.plugins.io_processors.interface`
_OLD_NAMES = (("parse_request", "parse_data"), ("validate_or_generate_params", "merge_pooling_params"))


class IOProcessor(Protocol):
    """An IO processor as vLLM 0.33 uses it: what a request holds to prompts, and the model's answers back."""

    def __init__(self, vllm_config: Any, renderer: Any) -> None: ...

    def parse_data(self, data: Any) -> Any:
        """The request's `data`, checked."""

    def merge_sampling_params(self, params: Any = None) -> Any:
        """`SamplingParams`: these, or fresh ones."""

    def merge_pooling_params(self, params: Any = None) -> Any:
        """`PoolingParams`: these, or fresh ones."""

    def pre_process(self, prompt: Any, request_id: str | None = None, **kwargs: Any) -> Any:
        """The prompts for the model."""

    async def pre_process_async(self, prompt: Any, request_id: str | None = None, **kwargs: Any) -> Any:
        """The same."""

    def post_process(self, model_output: Any, request_id: str | None = None, **kwargs: Any) -> Any:
        """The answer, made of the model's outputs in order."""

    async def post_process_async(self, model_output: Any, request_id: str | None = None, **kwargs: Any) -> Any:
        """The same, of an async generator of (number, output) in any order."""


class IOProcessorNotFoundError(PluginNotFoundError, ValueError):
    """The IO processor that is asked for is not installed. A ValueError, as vLLM's own."""


class IOProcessorRefusedError(PluginRefusedError, ValueError):
    """The IO processor that is asked for is kept out by the policy."""


class IOProcessorLoadError(PluginLoadError, ValueError):
    """The IO processor that is asked for is installed and allowed, and could not be loaded."""


class Selection:
    """The IO processor that is meant; make it with `cls(vllm_config, renderer)`.

    Attributes:
        cls: Its class.
        plugin: The plugin that names it.
        origin: Who asked for it.
        findings: What `check` has to say about the class.
    """

    __slots__ = ("cls", "findings", "origin", "plugin")

    def __init__(self, cls: Any, plugin: Plugin, origin: str) -> None:
        self.cls, self.plugin, self.origin = cls, plugin, origin
        self.findings = check(cls, plugin)


def check(found: Any, plugin: Plugin | None = None) -> list[Finding]:
    """What is missing in an IO processor class, or cannot be called as vLLM calls it."""
    it = Check(found, plugin)
    if not it.wants_class("Let the plugin's function return the dotted name of the class."):
        return it.findings
    for old, new in _OLD_NAMES:
        if it.attribute(old) is not MISSING and (it.attribute(new) is MISSING or it.inherits(new, _BASE)):
            it.error(f"`{old}` is the name of older versions, and vLLM calls `{new}`", f"Rename it to `{new}`.")
    if it.inherits("parse_data", _BASE) and it.attribute("parse_request") is MISSING:
        it.error("`parse_data` is vLLM's own, which raises NotImplementedError", "Write `def parse_data(self, data)`.")
    it.method(IOProcessor, "parse_data", "data")
    it.method(IOProcessor, "merge_pooling_params", "", "params")
    it.method(IOProcessor, "merge_sampling_params", "", "params", severity=WARNING)
    for name, first in (("pre_process", "prompt"), ("post_process", "model_output")):
        # from the host by keyword, from the base's own async methods by position
        calls = (f"{first}= request_id=", f"{first}=") if name == "pre_process" else (f"{first}, request_id=", first)
        it.method(IOProcessor, name, *calls, f"{first}, request_id")
        it.method(IOProcessor, f"{name}_async", f"{first}, request_id=", severity=WARNING)
    it.constructor(IOProcessor, "vllm_config, renderer")
    return it.findings


def select(
    explicit: str | None, from_model: Any = None, *, policy: Policy | None = None, loader: PluginLoader | None = None
) -> Selection | None:
    """The IO processor that is asked for; None, and no look at what is installed, if none is.

    The plugin is imported, and called once in a process; then its class is imported. Nothing of any other plugin is.

    Args:
        explicit: The name that the caller gave (`--io-processor-plugin`). It wins.
        from_model: `io_processor_plugin` in the model's `config.json`.
        policy: By default `VLLM_PLUGINS`, as vLLM reads it.
        loader: The loader of the group that is asked, with a policy of its own.

    Raises:
        IOProcessorNotFoundError: none of that name is installed; the text says which are.
        IOProcessorRefusedError: the policy keeps it out.
        IOProcessorLoadError: it is installed and allowed, but failed, does not apply here, or gives no class.
        LoadCycleError, LoadTimeoutError: another thread is at it and cannot be waited for.
        PolicyError: the policy is broken by what is installed.
    """
    name = explicit or from_model
    origin = "the caller" if explicit else "the model's configuration"
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        text = f"`io_processor_plugin` in the model's configuration is {name!r}, and the name of a plugin is wanted"
        raise IOProcessorNotFoundError(text, hint="Name one with `--io-processor-plugin`.")
    if loader is None:
        loader = PluginLoader(groups.IO_PROCESSOR, policy=Policy.vllm() if policy is None else policy, kind="any")
    try:
        plugin = loader.get(name)
    except PluginRefusedError as error:
        _refused(loader, name, origin, error)
    except PluginNotFoundError as error:
        _missing(loader, name, origin, error)
    except PluginLoadError as error:
        raise IOProcessorLoadError(f"{error}; {origin} asks for it", error.failures, hint=error.hint) from error
    return Selection(_class_of(loader, plugin, origin), plugin, origin)


def _refused(loader: PluginLoader, name: str, origin: str, error: PluginRefusedError) -> NoReturn:
    rows = [row for row in loader.report().plugins if row.name == name and row.state == FILTERED]
    who = groups.whose(rows[0]) if rows else f"plugin `{name}`"
    text = f"{who} is asked for by {origin} as the IO processor, but may not load: {error.verdict}"
    denied = bool(rows) and rows[0].reason == "denied"
    hint = f"Take the denial out of {loader.policy.origin}." if denied else f"Allow `{name}` in {loader.policy.origin}."
    raise IOProcessorRefusedError(text, verdict=error.verdict, hint=hint) from None


def _missing(loader: PluginLoader, name: str, origin: str, error: PluginNotFoundError) -> NoReturn:
    rows = loader.report().plugins
    if not rows:
        text = f"no IO processor plugin is installed, and {origin} asks for `{name}`"
        raise IOProcessorNotFoundError(text, hint=f"Install the distribution that has it in {loader.group}.") from None
    offers = (f"{groups.whose(row)}" + (" (filtered)" if row.state == FILTERED else "") for row in rows)
    text = f"{error}; {origin} asks for it, and installed are: {', '.join(offers)}"
    raise IOProcessorNotFoundError(text, hint=error.hint) from None


def _class_of(loader: PluginLoader, plugin: Plugin, origin: str) -> Any:
    """Calls the plugin and imports the class that it names."""
    failure, answer = wanted.check(plugin), None
    if plugin.state != LOADED or plugin.found is None:
        failure = Failure(plugin, "wait", RuntimeError("it asks for itself while it is being loaded"))
    elif failure is None:
        end = loader._call(plugin, plugin.found, raising=True)
        if isinstance(end, Failure):
            failure = end
        elif end is None:
            failure = Failure(plugin, "wait", RuntimeError("it asks for itself while it is being called"))
        else:
            answer, failure = end.value, wanted.check(plugin)
    if failure is None and answer is None:
        text = f"{groups.whose(plugin)} says that it does not apply here (its function returned `None`)"
        raise IOProcessorLoadError(f"{text}; {origin} asks for it", (), hint="Its documentation may say what it needs.")
    if failure is None:
        failure, answer = _imported(plugin, answer)
    if failure is not None:
        raise IOProcessorLoadError(f"{failure}; {origin} asks for it", [failure], hint=failure.hint) from (
            failure.exception
        )
    return answer


def _imported(plugin: Plugin, dotted: Any) -> tuple[Failure | None, Any]:
    module, _, name = dotted.rpartition(".")
    phase = "import"
    try:
        imported = __import__(module, fromlist=[name])
        phase = "resolve"
        found = getattr(imported, name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # contained: it becomes a record
        return Failure(
            plugin, phase, error, hint=f"Its function names `{dotted}`; correct that, or reinstall it."
        ), None
    if not callable(found):  # vLLM takes a function that makes one; `check` has something to say on that
        wrong = TypeError(f"`{dotted}`, which its function names, is {type(found).__name__} and no class")
        return Failure(plugin, "resolve", wrong, hint="Return the dotted name of the class."), None
    return None, found
