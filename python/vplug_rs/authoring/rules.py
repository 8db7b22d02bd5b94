"""The rules for vLLM's plugins as data: a code, how bad, what, why, what to do.

A code keeps its meaning between releases; the wording may change. `python -m vplug_rs.authoring.rules` writes them as
Markdown, which is the end of docs/authoring.md.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ERROR, WARNING, NOTE = "error", "warning", "note"
SEVERITIES = (ERROR, WARNING, NOTE)


class Rule:
    """One rule.

    Attributes:
        code: Its name in output.
        severity: "error": vLLM refuses the plugin, or it does not do its work; "warning": it does harm in some process
            or some day; "note": good to know.
        title: What is wrong, in a few words.
        why: What happens then.
        fix: What to do.
    """

    __slots__ = ("code", "fix", "severity", "title", "why")

    def __init__(self, code: str, severity: str, title: str, why: str, fix: str) -> None:
        self.code, self.severity, self.title, self.why, self.fix = code, severity, title, why, fix


def _table(*rows: tuple[str, str, str, str, str]) -> dict[str, Rule]:
    return {row[0]: Rule(*row) for row in rows}


RULES = _table(
    # what the metadata says
    (
        "group-unknown",
        ERROR,
        "vLLM reads no group of this name",
        "The entry point is never looked at, and no line in any log says so.",
        "Write one of the six names: `vplug list` and docs/vllm-groups.md have them.",
    ),
    (
        "value-malformed",
        ERROR,
        "the value of an entry point is not `module:attribute`",
        "A module alone is loaded and then called, and a malformed reference fails at load.",
        "Name the object: `package.module:function`.",
    ),
    (
        "target-module-missing",
        ERROR,
        "the module of an entry point does not exist",
        "vLLM logs the failure once and goes on without the plugin.",
        "Correct the module's name, or add the file to the distribution.",
    ),
    (
        "target-attribute-missing",
        ERROR,
        "the module of an entry point does not define the attribute",
        "vLLM logs the failure once and goes on without the plugin.",
        "Correct the attribute's name, or define it in the module.",
    ),
    (
        "target-wrong-kind",
        ERROR,
        "the entry point names a function where its group wants a class, or the other way round",
        (
            "vLLM stops at a function among stat loggers and logits processors, and takes the instance of a class that "
            "it called for the name of a platform."
        ),
        "docs/vllm-groups.md says what each group wants.",
    ),
    (
        "base-class-missing",
        ERROR,
        "a stat logger or logits processor derives from nothing",
        "vLLM tests with `issubclass`, and does not start.",
        "Derive from `vllm.v1.metrics.loggers.StatLoggerBase`, or from the `LogitsProcessor` of the runner.",
    ),
    (
        "vllm-required",
        WARNING,
        "the distribution requires vLLM",
        "Installing the plugin may replace the user's own build of vLLM, and fails beside a build of another name.",
        "Leave it out, or put it into an extra; compare the version at the call.",
    ),
    # what happens when a module is imported
    (
        "heavy-import",
        WARNING,
        "the plugin's import pulls in a framework",
        (
            "The module is imported in every process of vLLM, before any switch of the plugin's own can stop it; an "
            "error of the framework then loses the plugin."
        ),
        "Move the import into the function that needs it.",
    ),
    (
        "platform-imports-vllm",
        ERROR,
        "importing a platform plugin imports vLLM",
        (
            "Platform plugins are loaded while vLLM's own modules are half imported: names are missing then, or the "
            "resolution of the platform enters itself."
        ),
        "Import vLLM in the module of the platform class alone, which the plugin names by its dotted name.",
    ),
    (
        "cuda-at-import",
        ERROR,
        "CUDA is touched when the plugin is imported",
        "Processes that vLLM forks later cannot use CUDA, and `CUDA_VISIBLE_DEVICES` no longer has any effect.",
        "Ask in the worker, when the device is needed.",
    ),
    (
        "process-at-import",
        ERROR,
        "a process is started when the plugin is imported",
        "It is started once in every process of vLLM, and a program that hangs or is missing stops the plugin.",
        "Start it in the function that needs it, with a time limit.",
    ),
    (
        "network-at-import",
        ERROR,
        "the network is asked when the plugin is imported",
        "Every process of vLLM waits for it, and without a network the plugin is lost.",
        "Ask in the function that needs it, with a time limit.",
    ),
    (
        "print-at-import",
        WARNING,
        "the plugin prints to stdout when it is imported",
        "It is printed in every process, into output that programs read.",
        "Use `logging`.",
    ),
    (
        "environment-at-import",
        WARNING,
        "the plugin changes the host's environment when it is imported",
        "All later plugins and child processes inherit it, also where the plugin then does nothing.",
        "Change it in the function that vLLM calls, after the plugin's switch has been asked.",
    ),
    # what the function does that vLLM calls
    (
        "required-parameters",
        ERROR,
        "the function that vLLM calls has parameters without a default",
        "vLLM calls it without arguments; of a general plugin the `TypeError` stops the process.",
        "Take no arguments.",
    ),
    (
        "async-mismatch",
        ERROR,
        "a function is `async` where vLLM does not wait for it, or plain where it does",
        "A coroutine that nobody awaits never runs; awaiting `None` is a `TypeError`.",
        "Write `def` for entry points and `attach_router`, and `async def` for `init_state` and `resolve_lora`.",
    ),
    (
        "exit-in-plugin",
        ERROR,
        "the plugin ends the process",
        "`SystemExit` passes every `except Exception` of vLLM, so one plugin takes the server down.",
        "Log what is wrong, and return.",
    ),
    (
        "failure-hidden",
        WARNING,
        "an `except` for all errors does nothing",
        "The plugin is off, and nothing says why; of a platform plugin it reads as `not my hardware`.",
        "Log the error with the plugin's name, or catch the one type that is expected.",
    ),
    (
        "interrupt-swallowed",
        WARNING,
        "`except:` or `except BaseException` without a `raise`",
        "Ctrl-C and the end of the process are swallowed too.",
        "Catch `Exception`.",
    ),
    (
        "mark-before-work",
        ERROR,
        "the plugin is marked as done before its work is done",
        "When the work fails, every further call returns at once, as if all were well.",
        "Set the mark in the last line, after the work.",
    ),
    (
        "guard-missing",
        WARNING,
        "what must happen once has no guard against a second call",
        "vLLM may call it again: a layer registered twice is an assertion, a handler added twice doubles each line.",
        "Return at once when a mark is set, and set the mark after the work.",
    ),
    (
        "failure-uncontained",
        WARNING,
        "a general plugin imports an inner module of vLLM outside any `try`",
        "Inner modules move between releases, and vLLM does not catch an error of the call: the process stops.",
        "Put the work into `try`, and log what went wrong.",
    ),
    (
        "switch-missing",
        WARNING,
        "there is no way to switch the plugin off",
        "Taking it out of `VLLM_PLUGINS` means listing all others, of every group.",
        "Return at once when an environment variable of the plugin's own says so.",
    ),
    (
        "patch-without-version-check",
        WARNING,
        "something of vLLM's is replaced, and no version or signature is compared",
        "The next release calls it in another way, and fails at the first request and not at the start.",
        "Compare `vllm.__version__` or `inspect.signature` first, or use `vplug_rs.patching`.",
    ),
    # platforms and other functions that name a class
    (
        "platform-raises",
        ERROR,
        "a platform function raises",
        "vLLM logs a warning and takes a built-in platform, or stops, if it is the second call.",
        "Return `None` where the platform does not apply, and log why.",
    ),
    (
        "answer-wrong",
        ERROR,
        "a function that has to name a class returns something else",
        "vLLM splits the answer at its last dot; anything but `package.module.Class` or `None` fails far from here.",
        'Return the full name as a text: `return "package.module.Class"`.',
    ),
    (
        "answer-missing",
        ERROR,
        "a function names a class that does not exist",
        "vLLM imports it after the choice is made, and stops.",
        "Correct the dotted name.",
    ),
    # models
    (
        "model-class",
        WARNING,
        "a model is registered by its class",
        "Importing it pulls in torch, and may touch CUDA, in every process and before vLLM is ready.",
        'Register a text: `register_model("Name", "package.module:Class")`.',
    ),
    (
        "model-reference-malformed",
        ERROR,
        "the reference of a model is not `module:Class`",
        "vLLM splits it at the colon, and wants two parts.",
        'Write `"package.module:Class"`.',
    ),
    (
        "model-reference-missing",
        ERROR,
        "the reference of a model names a module or class that does not exist",
        "vLLM checks nothing when it is registered; the model fails to be inspected later.",
        "Correct the module's or the class's name.",
    ),
    # endpoints
    (
        "endpoint-core-path",
        WARNING,
        "a route takes the place of one of vLLM's own",
        "The last plugin wins: vLLM's own route no longer answers.",
        "Choose a path of the plugin's own below `/v1`.",
    ),
    (
        "endpoint-unguarded",
        NOTE,
        "a route is not covered by `--api-key`",
        "Everybody may call it, whatever key the server asks for.",
        "Let its path begin with `/v1`, `/v2`, `/inference` or `/cohere`, unless it is meant for everybody.",
    ),
    # what `vplug check --load` saw
    (
        "import-fails",
        ERROR,
        "the module of an entry point cannot be imported",
        "vLLM logs the failure once and goes on without the plugin; `SystemExit` stops the process.",
        "Correct what the message names, or install what is missing.",
    ),
    (
        "import-not-tried",
        NOTE,
        "the module of an entry point imports a framework that is not installed here",
        "Whether it can be imported where the framework is was not seen.",
        "Run the check in an environment that has the framework.",
    ),
    (
        "source-not-read",
        NOTE,
        "a source could not be read, so it was not checked",
        "It is written for another Python, is damaged, or is too large.",
        "Run the check with the Python that the plugin is for.",
    ),
)


class Finding:
    """A rule that is broken at one place.

    Attributes:
        rule: The rule.
        path: The file.
        line: The line in it, from 1; None where it is the file as a whole.
        message: What is wrong here.
    """

    __slots__ = ("line", "message", "path", "rule")

    def __init__(self, code: str, path: str, line: int | None, message: str) -> None:
        self.rule, self.path, self.line, self.message = RULES[code], path, line, message

    @property
    def code(self) -> str:
        """The rule's code."""
        return self.rule.code

    def __repr__(self) -> str:
        return f"<Finding {self.code} {self.path}:{self.line}>"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then by place; what is said twice of one place is kept once."""
    unique = {(found.code, found.path, found.line): found for found in reversed(list(findings))}
    return sorted(
        unique.values(),
        key=lambda found: (SEVERITIES.index(found.rule.severity), found.path, found.line or 0, found.code),
    )


def render() -> str:
    """The rules as Markdown, one heading for each."""
    return "".join(
        f"\n### `{rule.code}` ({rule.severity})\n\n{rule.title[:1].upper()}{rule.title[1:]}.\n\n{rule.why}\n\n"
        f"{rule.fix}\n"
        for rule in RULES.values()
    )


if __name__ == "__main__":
    from vplug_rs import report

    report.emit(render().strip("\n"))
