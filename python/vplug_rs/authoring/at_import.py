"""The rules about what runs when a plugin's module is imported."""

from __future__ import annotations

import ast

from vplug_rs import groups
from vplug_rs.authoring.names import aliases, at_import, full_name, text_of
from vplug_rs.authoring.rules import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vplug_rs.authoring.points import Target
    from vplug_rs.authoring.sources import Module

HEAVY = frozenset({"flax", "jax", "tensorflow", "torch", "transformers", "triton", "vllm"})
FUNCTIONS = frozenset({groups.GENERAL, groups.PLATFORM, groups.IO_PROCESSOR, groups.ENDPOINT})
"""Groups whose value needs no class of vLLM's, so that nothing heavy is needed to import it."""

# of `torch.cuda`, what waits until CUDA is there, or only looks
_QUIET = frozenset({"is_initialized", "manual_seed", "manual_seed_all", "set_per_process_memory_fraction"})
_PROCESSES = frozenset(
    {f"subprocess.{name}" for name in ("Popen", "call", "check_call", "check_output", "getoutput", "run")}
    | {"subprocess.getstatusoutput", "os.fork", "os.forkpty", "os.popen", "os.system", "os.posix_spawn"}
)
_VERBS = ("delete", "get", "head", "options", "patch", "post", "put", "request")
_NETWORK = frozenset(
    {f"{package}.{verb}" for package in ("requests", "httpx") for verb in _VERBS}
    | {"urllib.request.urlopen", "urllib.request.urlretrieve", "socket.create_connection", "httpx.stream"}
    | {"huggingface_hub.hf_hub_download", "huggingface_hub.snapshot_download"}
)
_CHANGES = frozenset({"clear", "pop", "popitem", "setdefault", "update"})
EXITS = frozenset({"sys.exit", "os._exit", "os.abort"})


def check(target: Target, module: Module) -> Iterator[Finding]:
    """All rules, on one module that is imported with an entry point's."""
    known = aliases(module)
    for node in at_import(module.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and target.point.group in FUNCTIONS:
            yield from _import(target, module, node)
        elif isinstance(node, ast.Call):
            yield from _call(module, node, known)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
            places = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
            if any(
                isinstance(place, ast.Subscript) and full_name(place.value, known) == "os.environ" for place in places
            ):
                yield Finding("environment-at-import", module.path, node.lineno, "`os.environ` is changed at import")
        elif isinstance(node, ast.Raise) and is_exit(node):
            yield Finding("exit-in-plugin", module.path, node.lineno, "`SystemExit` is raised at import")


def is_exit(node: ast.Raise) -> bool:
    """Whether it raises `SystemExit`."""
    what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(what, ast.Name) and what.id == "SystemExit"


def exit_call(node: ast.Call, known: Mapping[str, str]) -> str:
    """The call that ends the process, or an empty text."""
    name = full_name(node.func, known)
    return name if name in EXITS else ""


def _import(target: Target, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [module.absolute(node)]
    tops = sorted({name.partition(".")[0] for name in names} & HEAVY - {module.name.partition(".")[0]})
    if not tops:
        return
    if target.point.group == groups.PLATFORM and "vllm" in tops:
        text = f"`{module.name}` imports vllm, and is imported with {target.point}"
        yield Finding("platform-imports-vllm", module.path, node.lineno, text)
        return
    text = f"`{module.name}` imports {' and '.join(tops)}, and is imported with {target.point}"
    yield Finding("heavy-import", module.path, node.lineno, text)


def _call(module: Module, node: ast.Call, known: Mapping[str, str]) -> Iterator[Finding]:
    name = full_name(node.func, known)
    if _touches_cuda(node, name):
        yield Finding("cuda-at-import", module.path, node.lineno, f"`{name}()` touches CUDA at import")
    elif name in _PROCESSES:
        yield Finding("process-at-import", module.path, node.lineno, f"`{name}()` starts a process at import")
    elif name in _NETWORK:
        yield Finding("network-at-import", module.path, node.lineno, f"`{name}()` asks the network at import")
    elif name in EXITS:
        yield Finding("exit-in-plugin", module.path, node.lineno, f"`{name}()` ends the process at import")
    elif name in {f"os.environ.{verb}" for verb in _CHANGES} | {"os.putenv", "os.unsetenv"}:
        yield Finding(
            "environment-at-import", module.path, node.lineno, f"`{name}()` changes the environment at import"
        )
    elif (
        isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and not any(each.arg == "file" for each in node.keywords)
    ):
        yield Finding("print-at-import", module.path, node.lineno, "`print()` writes to stdout at import")


def _touches_cuda(node: ast.Call, name: str) -> bool:
    if name.startswith("torch.cuda."):
        rest = name.removeprefix("torch.cuda.")
        return "." not in rest and rest not in _QUIET
    device = next((text_of(each.value) for each in node.keywords if each.arg == "device"), None)
    return name.startswith("torch.") and name != "torch.device" and bool(device and device.startswith("cuda"))
