"""Answers jobs about vLLM's plugin groups, each in a forked child: by vLLM's own modules, or by ours.

    vllm_serve.py theirs FOLDER     with vLLM's `plugins.py`, `platforms.py`, `logits.py` in FOLDER
    vllm_serve.py ours

One JSON job a line in, one JSON list of answers a line out: for each operation [outcome, events, log].
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import json
import logging
import os
import sys
import types
from typing import Any

sys.dont_write_bytecode = True
UNSPECIFIED = "vllm.platforms.interface.UnspecifiedPlatform"
LOGGER = "vllm"
Job = dict[str, Any]


def named(found: Any) -> Any:
    """An object, by where it comes from."""
    if isinstance(found, (str, int, type(None))):
        return found
    if isinstance(found, types.ModuleType):
        return f"module {found.__name__}"
    kind = found if isinstance(found, (type, types.FunctionType)) else type(found)
    return f"{kind.__module__}:{kind.__qualname__}" + ("" if kind is found else " instance")


def probes(job: Job) -> dict[str, Any]:
    """Stubs of the built-in probes."""

    def ordered(name: str, kind: str) -> bool:
        return name == "cpu" and job["device"] == "cpu" and kind != "none"

    def made(name: str, kind: str) -> Any:
        def probe() -> str | None:
            sys.oracle_events.append(["probe", name])  # type: ignore[attr-defined]
            if kind == "raises":
                raise OSError(f"{name} cannot be probed")
            return f"builtin.{name}.Platform" if kind == "here" or ordered(name, kind) else None

        return probe

    return {name: made(name, kind) for name, kind in job["builtin"].items()}


class Theirs:
    """vLLM's own modules over stubs of what they import."""

    def __init__(self, folder: str) -> None:
        self.code = {}
        for name in ("plugins", "platforms", "logits"):
            with open(os.path.join(folder, f"{name}.py"), encoding="utf-8") as stream:
                tree = ast.parse(stream.read())
            if name == "logits":  # its module needs torch; the function does not
                tree.body = [
                    node
                    for node in tree.body
                    if isinstance(node, ast.FunctionDef) and node.name == "_load_logitsprocs_plugins"
                ]
            self.code[name] = compile(tree, f"vllm/{name}.py", "exec")

    def ready(self, job: Job) -> None:
        """Executed anew for each job, since they keep state."""

        def module(name: str, **values: Any) -> types.ModuleType:
            made = sys.modules[name] = types.ModuleType(name)
            vars(made).update(values)
            return made

        allowed = None if job["plugins"] is None else job["plugins"].split(",")
        envs = module("vllm.envs", VLLM_PLUGINS=allowed, VLLM_TARGET_DEVICE=job["device"])
        module("vllm", envs=envs)
        names = dict.fromkeys(("CpuArchEnum", "Platform", "PlatformEnum", "in_wsl"))
        module("vllm.platforms.interface", **names)
        module("vllm.utils")
        module("vllm.utils.import_utils", resolve_obj_by_qualname=None, import_pynvml=None)
        self.plugins = module("vllm.plugins")
        exec(self.code["plugins"], vars(self.plugins))
        self.platforms = module("vllm.platforms", __path__=[])
        self.platforms.__package__ = "vllm.platforms"
        exec(self.code["platforms"], vars(self.platforms))
        self.platforms.builtin_platform_plugins = probes(job)  # type: ignore[attr-defined]
        self.platforms.cpu_platform_plugin = self.platforms.builtin_platform_plugins["cpu"]  # type: ignore[attr-defined]
        self.logits: dict[str, Any] = {
            "logger": logging.getLogger("vllm.logits"),
            "LOGITSPROCS_GROUP": "vllm.logits_processors",
            "guard_cuda_initialization": contextlib.nullcontext,
        }
        exec("LogitsProcessor = object\n", self.logits)
        exec(self.code["logits"], self.logits)

    def ask(self, operation: str, *words: Any) -> Any:
        """One operation."""
        if operation == "group":
            return list(self.plugins.load_plugins_by_group(words[0]).items())
        if operation == "general":
            return self.plugins.load_general_plugins()
        if operation == "endpoint":
            return self.plugins.load_endpoint_plugins(*words)
        if operation == "platform":
            return self.platforms.resolve_current_platform_cls_qualname()
        return self.logits["_load_logitsprocs_plugins"]()

    @staticmethod
    def kind(record: logging.LogRecord) -> list[Any] | None:
        """What a record of theirs means: (kind, name)."""
        text, words = str(record.msg), record.args if isinstance(record.args, tuple) else ()
        for start, kind in (
            ("No plugins for group", "none"),
            ("Available plugins", "heading"),
            ("- %s", "available"),
            ("All plugins in this group", "all"),
            ("Loading plugin", "loading"),
            ("Failed to load plugin", "failed"),
            ("Failed to instantiate endpoint", "failed"),
            ("Skipping endpoint", "gated"),
            ("Loaded endpoint", "attached"),
            ("Found endpoint plugin", "unlisted"),
            ("Platform plugin %s failed", "probe"),
            ("Platform plugin %s is activated", "platform"),
            ("Automatically detected", "platform"),
            ("No platform detected", "platform"),
            ("Explicitly selected CPU", "ordered"),
        ):
            if text.startswith(start):
                named_kinds = {"available", "loading", "failed", "gated", "attached", "probe", "platform"}
                name = words[0] if words and kind in named_kinds else "cpu" if kind == "ordered" else None
                return [kind, name]
        return None


class Ours:
    """The functions under test."""

    def __init__(self) -> None:
        from vplug_rs.vllm import endpoints, functions

        self.functions, self.endpoints = functions, endpoints

    def ready(self, job: Job) -> None:
        """Set the variables that ours read themselves."""
        self.job, self.probes = job, probes(job)
        if job["plugins"] is not None:
            os.environ["VLLM_PLUGINS"] = job["plugins"]

    def ask(self, operation: str, *words: Any) -> Any:
        """One operation."""
        if operation == "group":
            return list(self.functions.load_plugins_by_group(words[0]).items())
        if operation == "general":
            return self.functions.load_general_plugins()
        if operation == "endpoint":
            return self.endpoints.load_endpoint_plugins(*words)
        if operation == "platform":
            return self.functions.resolve_platform(self.probes, self.job["device"], UNSPECIFIED)
        return self.functions.load_logits_processors()

    @staticmethod
    def kind(record: logging.LogRecord) -> list[Any] | None:
        """What a record of ours means."""
        return list(getattr(record, "vplug", ("unmarked", None)))


def answers(side: Theirs | Ours, job: Job) -> list[Any]:
    """Every operation's outcome, what plugins noted meanwhile, and what was logged."""
    log: list[Any] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            meaning = side.kind(record)
            if meaning is not None:
                log.append([record.levelname, *meaning])

    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.handlers = [Keep()]
    sys.path[:0] = job["path"]
    events: list[Any] = []
    sys.oracle_events = events  # type: ignore[attr-defined]
    side.ready(job)
    out = []
    for operation in job["operations"]:
        try:
            found = side.ask(*operation)
            if isinstance(found, list):
                found = [[row[0], named(row[1])] if isinstance(row, tuple) else named(row) for row in found]
            outcome = ["ok", named(found) if not isinstance(found, list) else found]
        except BaseException as error:  # the type and text are the answer
            outcome = ["raises", [kind.__name__ for kind in type(error).__mro__], str(error)]
        out.append([outcome, list(events), list(log)])
        events.clear()
        log.clear()
    return out


def main() -> None:
    """Serve until the input ends."""
    side = Theirs(sys.argv[2]) if sys.argv[1] == "theirs" else Ours()
    importlib.metadata.entry_points(group="none.such")  # what it imports late is there before the forks
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w") as stream:
                json.dump(answers(side, json.loads(line)), stream)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            print(stream.read(), flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
