"""Why vLLM does not know an architecture, or will not in its other processes, and the lines that mend it."""

from __future__ import annotations

import ast
import difflib
import os
import sys

from vplug_rs import groups
from vplug_rs.interfaces._models import engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from vplug_rs.interfaces._models.model import Model

REGISTERED, VLLM = "registered", "vllm"
SCRIPT_ONLY, NOT_HANDED_OVER, OVERWRITTEN, UNKNOWN = "script-only", "not-handed-over", "overwritten", "unknown"
_MOST_SOURCE = 4 << 20  # bytes of a script that is read


class Diagnosis:
    """What is to be said about an architecture in this process.

    Attributes:
        code: "registered" by a plugin; "vllm": known to vLLM by itself; "script-only": known here, but not in the
            processes that vLLM starts; "not-handed-over": vLLM's registry has not got it yet; "overwritten": vLLM's
            registry has another class by now; "unknown".
        message: The same, in words.
        hint: The next step, or None where all is well.
        snippet: The lines to add to a project, or None.
    """

    __slots__ = ("code", "hint", "message", "snippet")

    def __init__(self, code: str, message: str, hint: str | None = None, snippet: str | None = None) -> None:
        self.code, self.message, self.hint, self.snippet = code, message, hint, snippet

    @property
    def is_well(self) -> bool:
        """Whether every process of vLLM will know it."""
        return self.code in {REGISTERED, VLLM}

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}", self.hint and f"hint: {self.hint}", self.snippet]
        return "\n".join(filter(None, lines))

    def __repr__(self) -> str:
        return f"<Diagnosis {self.code}: {self.message}>"


def diagnose(arch: str, models: Mapping[str, Model]) -> Diagnosis:
    """What is to be said about an architecture; nothing is imported.

    Args:
        arch: Its name, as in the model's config.json.
        models: What is registered with us, by architecture.
    """
    model = models.get(arch)
    registry = engine.registry(wanted=False)
    theirs = None if registry is None else engine.target(registry, arch)
    if model is None:
        if theirs is not None:
            return Diagnosis(VLLM, f"vLLM has `{arch}` as `{theirs}`, and not by us")
        return _unknown(arch, {*models, *engine.architectures()})
    if model.handed_over and theirs != model.target:
        return Diagnosis(
            OVERWRITTEN,
            f"{model}; vLLM's registry has `{theirs}` in its place, from somebody who registered it there directly",
            "Let one of both go, or say `replace=True` in the registration that is meant.",
        )
    if not model.origin.is_everywhere:
        return Diagnosis(
            SCRIPT_ONLY,
            f"{model}; no plugin did so. vLLM loads models in processes of its own (engine core, workers), and only "
            f'plugins run in all of them: where that call does not, `{arch}` is "not supported for now"',
            _HINT,
            snippet(arch, model.target),
        )
    if not model.handed_over and engine.is_here():
        return Diagnosis(
            NOT_HANDED_OVER,
            f"{model}; vLLM was not imported then, and its registry has not got it yet",
            "Call `vplug_rs.interfaces.model_registry.forward()`.",
        )
    return Diagnosis(REGISTERED, str(model))


_HINT = (
    "Register it in a general plugin, which vLLM calls in each of its processes; then install that project into this "
    "environment."
)


def snippet(arch: str, target: str) -> str:
    """The lines that a project needs so that every process of vLLM knows a model."""
    package = target.partition(":")[0].partition(".")[0]
    return f"""\
# pyproject.toml
[project.entry-points."{groups.GENERAL}"]
{package} = "{package}_plugin:register"

# {package}_plugin.py
def register():
    from vplug_rs.interfaces.model_registry import register_model

    register_model({arch!r}, {target!r})
"""


def _unknown(arch: str, known: set[str]) -> Diagnosis:
    message = f"nobody has registered `{arch}` in this process ({os.getpid()})"
    call = _call_in_script(arch)
    if call is not None:
        where, target = call
        return Diagnosis(
            SCRIPT_ONLY,
            f"{message}; `{where}` has a call that does, but this process has not run it: only the one that runs the "
            "script does",
            _HINT,
            snippet(arch, target or "my_models.model:Model"),
        )
    near = difflib.get_close_matches(arch, known, 1)
    hint = f"Did you mean `{near[0]}`? " if near else ""
    for reason in _silent_plugins():
        message = f"{message}; {reason}"
    return Diagnosis(UNKNOWN, message, hint + _HINT, snippet(arch, "my_models.model:Model"))


def _silent_plugins() -> list[str]:
    """The general plugins that are installed and may not load, or failed."""
    from vplug_rs.loader import PluginLoader
    from vplug_rs.loading.plugin import FAILED, FILTERED
    from vplug_rs.policy import Policy

    reasons = []
    for plugin in PluginLoader(groups.GENERAL, policy=Policy.vllm(), kind="any").report().plugins:
        if plugin.state == FILTERED:
            reasons.append(f"{groups.whose(plugin)} may not load: {plugin.rule}")
        elif plugin.state == FAILED and plugin.failure is not None:
            reasons.append(str(plugin.failure))
    return reasons


def _call_in_script(arch: str) -> tuple[str, str | None] | None:
    """Where the user's script registers an architecture, and as what; None if it does not, or cannot be read.

    A spawned process has the script of its parent as `__mp_main__`.
    """
    script = getattr(sys.modules.get("__mp_main__") or sys.modules.get("__main__"), "__file__", None)
    if not isinstance(script, str):
        return None
    try:
        with open(script, "rb") as stream:
            tree = ast.parse(stream.read(_MOST_SOURCE))
    except (OSError, SyntaxError, ValueError, RecursionError):  # a look for more; without it the answer stays right
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _called(node.func) == "register_model":
            first, *more = node.args
            if isinstance(first, ast.Constant) and first.value == arch:
                target = more[0].value if more and isinstance(more[0], ast.Constant) else None
                return f"{script}:{node.lineno}", target if isinstance(target, str) else None
    return None


def _called(function: ast.expr) -> str:
    return getattr(function, "attr", "") or getattr(function, "id", "")
