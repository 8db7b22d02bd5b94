"""Answers one question about a platform: by vLLM's own probes and resolver, or by ours. One process for each question.

    platform_serve.py theirs FOLDER     with vLLM's `plugins.py` and `platforms.py` in FOLDER
    platform_serve.py ours

One JSON job on stdin, one JSON answer as the last line of stdout: ["ok", class or None] or ["raises", class, text].
"""

from __future__ import annotations

import builtins
import importlib
import json
import logging
import os
import sys
import types
from typing import Any

sys.dont_write_bytecode = True
UNSPECIFIED = "vllm.platforms.interface.UnspecifiedPlatform"
ROOTED = ("/etc/nv_tegra_release", "/sys/class/tegra-firmware", "/proc/cpuinfo")
Job = dict[str, Any]


def below(root: str) -> None:
    """The absolute paths that vLLM's probes look at lead below a root."""

    def rooted(path: Any) -> Any:
        return root + path if isinstance(path, str) and path.startswith(ROOTED) else path

    for module, name in ((os.path, "isfile"), (os.path, "exists"), (builtins, "open")):
        original = getattr(module, name)
        setattr(module, name, lambda path, *rest, _call=original: _call(rooted(path), *rest))


def theirs(folder: str, job: Job) -> Any:
    """By vLLM's files over stubs of what they import; its probes are its own."""

    def module(name: str, **values: Any) -> types.ModuleType:
        made = sys.modules[name] = types.ModuleType(name)
        vars(made).update(values)
        return made

    listed = os.environ.get("VLLM_PLUGINS")
    envs = module(
        "vllm.envs",
        VLLM_PLUGINS=None if listed is None else listed.split(","),
        VLLM_TARGET_DEVICE=os.environ.get("VLLM_TARGET_DEVICE", "cuda").lower(),
        VLLM_TPU_USING_PATHWAYS="proxy" in os.environ.get("JAX_PLATFORMS", "").lower(),
    )
    module("vllm", envs=envs)
    names = dict.fromkeys(("CpuArchEnum", "Platform", "PlatformEnum"))
    module("vllm.platforms.interface", in_wsl=lambda: bool(job.get("wsl")), **names)
    module("vllm.platforms.xpu", XPUPlatform=type("XPUPlatform", (), {}))
    module("vllm.utils")
    module(
        "vllm.utils.import_utils",
        resolve_obj_by_qualname=None,
        import_pynvml=lambda: importlib.import_module("pynvml"),
    )
    for name in ("plugins", "platforms"):
        made = module(f"vllm.{name}", __path__=[])
        made.__package__ = f"vllm.{name}"
        with open(os.path.join(folder, f"{name}.py"), encoding="utf-8") as stream:
            source = stream.read()
        exec(compile(source, f"vllm/{name}.py", "exec"), vars(made))
    below(job["root"])
    platforms = sys.modules["vllm.platforms"]
    if job["question"] == "resolve":
        return platforms.resolve_current_platform_cls_qualname()
    return getattr(platforms, f"{job['question']}_platform_plugin")()


def ours(job: Job) -> Any:
    """By our own."""
    from vplug_rs.platforms.probing import probe
    from vplug_rs.platforms.resolution import resolve

    root = "/" if job.get("system") else job["root"]
    if job["question"] == "resolve":
        found = resolve(root=root, active=True, timeout=job.get("seconds"), strict=job.get("strict", False))
        return found.qualname or UNSPECIFIED
    for one in probe(root, active=True, timeout=job.get("seconds")):
        if one.platform == job["question"]:
            return one.qualname if one.status in {"present", "masked"} else None
    raise LookupError(job["question"])


def main() -> None:
    """Answer."""
    job = json.load(sys.stdin)
    logging.disable()
    sys.path[:0] = job["path"]
    if job.get("system"):
        sys.platform = job["system"]
    try:
        answer = ["ok", theirs(sys.argv[2], job) if sys.argv[1] == "theirs" else ours(job)]
    except Exception as error:  # the type and text are the answer
        answer = ["raises", [kind.__name__ for kind in type(error).__mro__], str(error)]
    print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
