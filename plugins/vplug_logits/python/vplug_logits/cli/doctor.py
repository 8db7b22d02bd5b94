"""`vplug-logits doctor`: what computes on each device and why nothing better, what is set, and what is kept.

This process imports no torch and starts no driver: another one asks (`kernels.examination`).
"""

from __future__ import annotations

import difflib
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vplug_logits import cache
from vplug_logits.config import VARIABLES, Config, why_off
from vplug_logits.errors import ArtefactError, ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

HELP = "say which backend computes on each device and why no other does, what is set, and what is kept"

# it finds the modules that this process would
PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from vplug_logits.kernels import examination
examination.main()
"""
SECONDS = 120.0  # for a torch that comes from a slow disk
OURS = "VPLUG_LOGITS"
GROUP, NAME = "vllm.general_plugins", "vplug_logits"
OTHERS = {
    "OMP_NUM_THREADS": "threads of the kernels and of torch",
    "CUDA_VISIBLE_DEVICES": "the GPUs that are not hidden",
    "TRITON_INTERPRET": "1: Triton's kernels are interpreted, on a CPU too; for tests",
    "VLLM_PLUGINS": "the plugins that vLLM loads, all others are left out",
}
"""Variables of others that matter here, and what they say."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of this command."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Look, and say; 0 where a backend is active on the CPU, else 1."""
    found = look(os.environ)
    print(json.dumps(found, indent=2) if arguments.json else "\n".join(lines(found)))  # noqa: T201  # the result
    cpu = found["computing"].get("devices", {}).get("cpu", {})
    return 0 if cpu.get("active") else 1


def look(environment: Mapping[str, str]) -> dict[str, Any]:
    """All that is found out, as plain data.

    Args:
        environment: This process's.
    """
    return {
        "version": _version("vplug_logits"),
        "python": platform.python_version(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "computing": examined(),
        "settings": _settings(environment),
        "vllm": _vllm(environment),
        "cache": _cache(),
    }


def examined(seconds: float = SECONDS) -> dict[str, Any]:
    """What another process says of torch and of what can compute; else `error`, why it said nothing.

    Args:
        seconds: How long it may take.
    """
    try:
        asked = subprocess.run(  # noqa: S603  # this interpreter, and words of ours
            [sys.executable, "-c", PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"torch was not loaded, or its driver did not answer, within {seconds:g} s."}
    except OSError as error:
        return {"error": f"no process can be started to look: {error}."}
    if asked.returncode == 0:
        answer: dict[str, Any] = json.loads(asked.stdout)
        return answer
    said = asked.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    ended = f"signal {-asked.returncode}" if asked.returncode < 0 else f"status {asked.returncode}"
    return {"error": f"the process that loads torch ended with {ended}: {said or 'it said nothing'}"}


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The same for people.

    Args:
        found: What `look` gives.
    """
    computing = found["computing"]
    version = found["version"] or "(not installed as a distribution)"
    yield f"vplug_logits {version}, Python {found['python']}, {found['processors']} processors"
    yield ""
    yield from _of_computing(computing)
    yield ""
    yield from _of_settings(found["settings"])
    yield ""
    yield f"vLLM: {found['vllm']['told']}"
    yield from _of_cache(found["cache"])


def _of_computing(computing: Mapping[str, Any]) -> Iterator[str]:
    if "torch" not in computing:
        yield f"nothing computes: {computing['error']}"
        return
    torch = computing["torch"]
    yield f"torch {torch['version']}, {torch['threads']} threads; GPUs: {', '.join(torch['gpus']) or 'it sees none'}"
    yield f"Triton {computing['triton'] or 'is not installed'}"
    yield f"extension {_extension(computing['extension'])}"
    for device, state in computing["devices"].items():
        yield ""
        yield f"{device}: backend {state['active']} is active" if state["active"] else f"{device}: {state['error']}"
        for name, why in state["backends"].items():
            mark = "active" if name == state["active"] else "no" if why else "could"
            yield f"  {mark:<7}{name:<8}{why or ''}".rstrip()


def _extension(told: Mapping[str, Any]) -> str:
    if told["error"] is not None:
        return f"cannot be imported: {told['error']}"
    slow = "" if told["profile"] == "release" else ", which is slow"
    return f"{told['version']}, {told['profile']} build{slow}; {told['isa']} of {', '.join(told['available'])}"


def _of_settings(settings: Mapping[str, Any]) -> Iterator[str]:
    yield f"settings: {settings['told']}"
    for name, one in settings["variables"].items():
        yield f"  {name}={one['value']}   {one['meaning']}"


def _of_cache(kept: Mapping[str, Any]) -> Iterator[str]:
    many = len(kept["artefacts"])
    yield f"artefacts: {kept['error'] or f'{many} in ' + kept['folder']}"
    for name, size in kept["artefacts"].items():
        yield f"  {name}   {size / 1e6:.1f} MB"


def _settings(environment: Mapping[str, str]) -> dict[str, Any]:
    meanings = {variable.name: variable.meaning for variable in VARIABLES} | OTHERS
    found = {name: meaning for name, meaning in meanings.items() if name in environment}
    for name in sorted(set(environment) - set(meanings)):
        if name.startswith(OURS):
            near = difflib.get_close_matches(name, meanings, n=1)
            found[name] = "no such setting" + (f"; is {near[0]} meant?" if near else "")
    variables = {name: {"value": environment[name], "meaning": meaning} for name, meaning in found.items()}
    try:
        config = Config.from_environment(environment)
    except ConfigError as error:
        return {"told": f"error: {error}", "mode": None, "backend": None, "variables": variables}
    if config is None:
        return {"told": f"off, by {why_off(environment)}", "mode": None, "backend": None, "variables": variables}
    told = f"mode {config.mode}, backend {config.backend}"
    return {"told": told, "mode": str(config.mode), "backend": config.backend, "variables": variables}


def _vllm(environment: Mapping[str, str]) -> dict[str, Any]:
    """Whether vLLM is here, and would call the plugin."""
    here = find_spec("vllm") is not None
    points = list(metadata.entry_points(group=GROUP, name=NAME))
    chosen = "VLLM_PLUGINS" not in environment or NAME in environment["VLLM_PLUGINS"].split(",")
    if not points:
        told = f"no entry point {NAME} in {GROUP}: the distribution is not installed; vLLM would not find it"
    elif not chosen:
        told = f"VLLM_PLUGINS leaves {NAME} out; add it there"
    else:
        told = f"the entry point {NAME} = {points[0].value} is found" + ("" if here else "; vLLM is not installed")
    return {"installed": here, "finds_the_plugin": bool(points) and chosen, "told": told}


def _cache() -> dict[str, Any]:
    folder = cache.root()
    try:
        return {"folder": folder, "artefacts": dict(cache.kept()), "error": None}
    except ArtefactError as error:
        return {"folder": folder, "artefacts": {}, "error": str(error)}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
