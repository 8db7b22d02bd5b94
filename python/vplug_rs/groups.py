"""vLLM's six entry point groups as data: who loads each, when, which value it wants; and what is no such value.

A plugin's value, or what calling it gave, comes in; a typed error with the fix comes out. Knows nothing of loading.
"""

from __future__ import annotations

from vplug_rs.errors import PluginKindError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Plugin = Any  # that of `vplug_rs.loading.plugin`, which is no part of the ground floor

GENERAL = "vllm.general_plugins"
PLATFORM = "vllm.platform_plugins"
IO_PROCESSOR = "vllm.io_processor_plugins"
STAT_LOGGER = "vllm.stat_logger_plugins"
ENDPOINT = "vllm.endpoint_plugins"
LOGITS_PROCESSOR = "vllm.logits_processors"

# what a value has to be
ACTION, NAMER, FACTORY, CLASS = "action", "namer", "factory", "class"
_WANTED = {
    ACTION: "a function without arguments that does the work; what it returns is ignored",
    NAMER: "a function without arguments that returns a class's dotted name, or `None` where it does not apply",
    FACTORY: "a class or function without arguments that gives the plugin object",
    CLASS: "the class itself",
}
_MOST_TEXT = 80


class Group:
    """One group, as vLLM 0.33 treats it.

    Attributes:
        name: The entry point group.
        processes: Which processes load it.
        when: On what occasion.
        wants: "action", "namer", "factory" or "class"; `value` says it in words.
        called: Whether the loader calls the value.
        unset: Which plugins load where `VLLM_PLUGINS` is not set: "all" or "none".
        listed: Whether `VLLM_PLUGINS` applies at all.
        fatal: What of a plugin's failures stops vLLM.
        ours: What our own mode does differently.
        interface: The module with the interface of its plugins and a checker, or None.
    """

    __slots__ = ("called", "fatal", "interface", "listed", "name", "ours", "processes", "unset", "wants", "when")

    def __init__(  # noqa: PLR0913  # keywords of a table
        self,
        name: str,
        *,
        processes: str,
        when: str,
        wants: str,
        called: bool,
        fatal: str,
        ours: str,
        interface: str | None,
        unset: str = "all",
        listed: bool = True,
    ) -> None:
        self.name, self.processes, self.when, self.wants, self.called = name, processes, when, wants, called
        self.unset, self.listed, self.fatal, self.ours = unset, listed, fatal, ours
        self.interface = interface and f"vplug_rs.interfaces.{interface}"

    @property
    def value(self) -> str:
        """What an entry point has to name, in words."""
        return _WANTED[self.wants]

    @property
    def kind(self) -> str:
        """The same as `kind` of a `PluginLoader`."""
        return "class" if self.wants == CLASS else "callable"

    def __repr__(self) -> str:
        return f"<Group {self.name}>"


GROUPS = {
    group.name: group
    for group in (
        Group(
            GENERAL,
            processes="every process",
            when="the arguments of the engine are read, an engine core or a worker starts, a model is inspected",
            wants=ACTION,
            called=True,
            fatal="an error of the call",
            ours="each is called once in a process, and an error of the call is contained",
            interface=None,
        ),
        Group(
            PLATFORM,
            processes="every process",
            when="the first access of `vllm.platforms.current_platform`",
            wants=NAMER,
            called=True,
            fatal="two platforms that apply, an error of the winner's second call",
            ours="each is called once, and its answer is checked",
            interface="platform",
        ),
        Group(
            IO_PROCESSOR,
            processes="process 0",
            when="the caller or the model asks for one by name",
            wants=NAMER,
            called=True,
            fatal="the one that was asked for is not there",
            ours="only the one that was asked for is imported and called",
            interface="io_processor",
        ),
        Group(
            STAT_LOGGER,
            processes="process 0",
            when="an `AsyncLLM` is made",
            wants=CLASS,
            called=False,
            fatal="a value that is no stat logger class",
            ours="such a value is named with its distribution",
            interface="stat_logger",
        ),
        Group(
            ENDPOINT,
            processes="API server process",
            when="the app is built",
            wants=FACTORY,
            called=True,
            unset="none",
            fatal="an error of `required_tasks`, `attach_router` or `init_state`",
            ours="routes that replace others are reported",
            interface="endpoint",
        ),
        Group(
            LOGITS_PROCESSOR,
            processes="front end and workers",
            when="parameters are validated first, a worker makes its sampler",
            wants=CLASS,
            called=False,
            listed=False,
            fatal="any failure",
            ours="the policy applies, and what it keeps out is told, for vLLM itself would load it",
            interface="logits_processor",
        ),
    )
}


def owner(plugin: Plugin) -> str:
    """A plugin's distribution and version, for a message."""
    return " ".join(filter(None, (plugin.project, plugin.version))) or "an unnamed distribution"


def whose(plugin: Plugin) -> str:
    """A plugin with its distribution and version, for a message."""
    return f"plugin `{plugin.name}` of {owner(plugin)}"


def check(plugin: Plugin, found: Any = None) -> PluginKindError | None:
    """The refusal of a value that is not what the plugin's group wants, or None; nothing is called.

    Args:
        plugin: A plugin that is loaded. One of a group that is none of the six is never refused.
        found: The object, if it is not `plugin.object`.
    """
    group = GROUPS.get(plugin.group)
    found = plugin.object if found is None else found
    if group is None or not _is_wrong(group.wants, found):
        return None
    reason = f"it is {_told(found)}, and {group.name} wants {group.value}"
    return _refusal(plugin, reason, _fix(group.wants, plugin.value, found))


def check_answer(plugin: Plugin, answer: Any) -> PluginKindError | None:
    """The refusal of what calling a plugin gave, or None."""
    group = GROUPS.get(plugin.group)
    if group is None or not group.called or group.wants == ACTION:
        return None
    if group.wants == FACTORY:
        if answer is not None and not _is_class(answer):
            return None
        fix = f"Return an object of it: `return {answer.__name__}()`." if _is_class(answer) else _NO_RETURN
        return _refusal(plugin, f"its call gave {_told(answer)}, and a plugin object is wanted", fix)
    wrong = wrong_name(answer)
    return None if wrong is None else _refusal(plugin, *wrong)


def wrong_name(answer: Any) -> tuple[str, str] | None:
    """What is wrong with the answer of a function that has to name a class, and the fix; or None."""
    if answer is None or (type(answer) is str and is_dotted(answer)):
        return None
    wanted = "and a class's dotted name is wanted, as `package.module.Class`, or `None` where it does not apply"
    return f"its call gave {_told(answer)}, {wanted}", _answer_fix(answer)


_NO_RETURN = "It lacks a `return`."


def _refusal(plugin: Plugin, reason: str, fix: str) -> PluginKindError:
    text = f"{whose(plugin)} cannot be used (`{plugin.value}` in {plugin.group}): {reason}"
    return PluginKindError(
        text, reason=reason, plugin=plugin.name, distribution=plugin.project, version=plugin.version, hint=fix
    )


def _is_class(found: Any) -> bool:
    return issubclass(type(found), type)  # by the type itself: `__class__` is the object's own to answer


def _is_wrong(wants: str, found: Any) -> bool:
    if wants == CLASS:
        return not _is_class(found)
    # a class that is called gives an instance, never the name of a class
    return not callable(found) or (wants == NAMER and _is_class(found))


def _fix(wants: str, value: str, found: Any) -> str:
    module, colon, _ = value.partition("[")[0].partition(":")
    module, thing = module.strip(), "Class" if wants == CLASS else "function"
    if _is_module(found) and not colon:
        return f"Name {'the class' if wants == CLASS else 'an object'} in the module: `{module}:{thing}`."
    if wants == NAMER and _is_class(found):
        return f'Name a function that returns its name: `{module}:function`, with `return "{_dotted(found)}"` in it.'
    if wants in {CLASS, FACTORY} and not callable(found) and type(found).__module__ not in {"builtins", "types"}:
        return f"Name the class itself: `{type(found).__module__}:{type(found).__qualname__}`."
    if wants == CLASS:
        return f"Name the class itself, `{module}:Class`, and no function that gives it."
    return f"Name a function: `{module}:function`."


def _answer_fix(answer: Any) -> str:
    if _is_class(answer):
        return f'Return its name, not the class itself: `return "{_dotted(answer)}"`.'
    if type(answer) is str and is_dotted(answer.strip().replace(":", ".")):
        return f'vLLM splits at the last dot, and strips nothing: `return "{answer.strip().replace(":", ".")}"`.'
    if answer == "" or answer is False:
        return "Return `None` where the plugin does not apply."
    return 'Return the full name of the class, as `return "package.module.Class"`.'


def _dotted(found: type) -> str:
    """How vLLM finds a class again: in a module, so that none inside another class or function will do."""
    return f"{found.__module__}.{found.__qualname__ if found.__qualname__.isidentifier() else 'Class'}"


def is_dotted(text: str) -> bool:
    """Whether a text names something in a module: `package.module.Class`."""
    return "." in text and all(part.isidentifier() for part in text.split("."))


def _is_module(found: Any) -> bool:
    import types

    return issubclass(type(found), types.ModuleType)


def _told(found: Any) -> str:
    if found is None:
        return "`None`"
    if _is_class(found):
        return f"the class `{found.__qualname__}` itself"
    if _is_module(found):
        return f"the module `{found.__name__}`"
    if type(found) is str:
        return f"the text {found[:_MOST_TEXT]!r}"
    name = type(found).__name__
    return "a function" if name in {"function", "builtin_function_or_method"} else f"an object of type `{name}`"
