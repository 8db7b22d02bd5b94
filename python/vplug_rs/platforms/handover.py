"""A resolution for child processes: one environment variable, with a fingerprint of what it was found by.

In: a resolution, or a mapping that may hold one. Out: a mapping of one variable, or a resolution, or None. What a child
is handed counts only where it would look at the same things: the same boot, devices, variables, prefix, torch, vLLM and
platform plugins. Nothing unknown is ever handed on. Of an out-of-tree platform only the name is, for its plugin has to
be loaded in each process: `current` asks that one alone.
"""

from __future__ import annotations

import os
import sys

from vplug_rs import env
from vplug_rs.platforms.classes import platform_of
from vplug_rs.platforms.model import (
    BUILTIN,
    INFO,
    MASKED,
    OOT,
    OVERRIDE,
    PRESENT,
    TIE_BREAK,
    Evidence,
    Probe,
    Resolution,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
MOST = 2000
"""Characters that such a text may have."""

CHOOSING = (
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR",
    "TPU_VISIBLE_CHIPS", "JAX_PLATFORMS", "VLLM_TPU_USING_PATHWAYS", "VLLM_TARGET_DEVICE", "VLLM_PLUGINS",
    env.PLATFORM, env.PLATFORM_FORCE, env.PROBE_TIMEOUT, env.ON_UNKNOWN,
)  # fmt: skip
"""The variables that hide devices or choose a platform, as far as an outcome can depend on them."""

RELEVANT = (*CHOOSING, "LD_LIBRARY_PATH", env.POLICY)
"""The variables that an outcome can depend on."""

_TEXTS = ("platform", "qualname", "rule", "source", "status", "print")
_RULES = {OVERRIDE, OOT, BUILTIN, TIE_BREAK}


def to_environment(resolution: Resolution, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The one variable that hands it on; empty where it is not certain, or where no platform counts.

    Args:
        resolution: What was found in this process.
        environment: The variables that the child will get, if not this process's.
    """
    from vplug_rs.platforms.resolution import is_certain

    platform, qualname = resolution.platform, resolution.qualname
    if platform is None or qualname is None or not is_certain(resolution):
        return {}
    probe = resolution.probe(platform)
    if resolution.rule == OOT:
        probe = next((one for one in resolution.probes if one.platform == platform and one.source != "builtin"), probe)
    import json

    held = {
        "schema": SCHEMA,
        "platform": platform,
        "qualname": qualname,
        "rule": resolution.rule,
        "source": probe.source if probe else "builtin",
        "status": probe.status if probe and probe.status == MASKED else PRESENT,
        "print": fingerprint(environment),
    }
    text = json.dumps(held, separators=(",", ":"))
    return {env.PLATFORM_RESULT: text} if len(text) <= MOST else {}


def from_environment(environment: Mapping[str, str] | None = None) -> Resolution | None:
    """What was handed on, if it counts here; never raises.

    Args:
        environment: Where the variable stands, if not in this process's environment.
    """
    variables = os.environ if environment is None else environment
    text = variables.get(env.PLATFORM_RESULT, "")
    if not text or len(text) > MOST:
        return None
    held = _read(text)
    if held is None:
        return None
    from vplug_rs.platforms import ordered

    # who claims to follow an order that nobody gives, or passes over one, is not to be believed
    if (held["rule"] == OVERRIDE) != ordered.is_given(variables):
        return None
    try:
        same = held["print"] == fingerprint(environment)
    except Exception:  # noqa: BLE001  # whatever cannot be looked at here is not known to be the same
        return None
    if not same:
        return None
    name = held["platform"]
    told = "an outer process found it, and everything that it depends on is the same here"
    row = Evidence(f"{name}.handed-over", "env", env.PLATFORM_RESULT, held["qualname"], INFO, told)
    probe = Probe(
        name, held["status"], source=held["source"], qualname=held["qualname"], reason=told, evidence=[row]
    )  # fmt: skip
    return Resolution(held["rule"], qualname=held["qualname"], platform=name, probes=[probe])


def _read(text: str) -> dict[str, str] | None:
    """The fields, if they are all there and nothing that we would not have written."""
    import json

    from vplug_rs.groups import is_dotted

    try:
        held: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(held, dict) or type(held.get("schema")) is not int or held["schema"] != SCHEMA:
        return None
    if not all(isinstance(held.get(name), str) and held[name] for name in _TEXTS):
        return None
    if held["rule"] not in _RULES or held["status"] not in {PRESENT, MASKED} or not is_dotted(held["qualname"]):
        return None
    if held["source"] == "builtin" and held["rule"] != OVERRIDE and platform_of(held["qualname"]) != held["platform"]:
        return None
    return held


def fingerprint(environment: Mapping[str, str] | None = None) -> str:
    """What an outcome depends on, as a short text.

    Args:
        environment: Whose variables count, if not this process's.
    """
    from hashlib import blake2b

    from vplug_rs import _core
    from vplug_rs.platforms import modules, outside

    variables = os.environ if environment is None else environment
    evidence, _, facts = _core.probe_passive("/", dict(variables))
    torch, vllm = modules.torch_build(sys.path, sys.meta_path), modules.vllm_build(sys.path)
    plugins = sorted(repr((row.label, row.name, row.value, row.version)) for row in outside.PlatformLoader()._found())
    parts = (
        facts.get("boot_id"),
        facts.get("kernel_release"),
        [row[:6] for row in evidence],
        [(name, variables.get(name)) for name in RELEVANT],
        sys.prefix,
        sys.platform,
        _stamp(torch.file if torch else None),
        repr(vllm),
        plugins,
        _stamp(variables.get(env.POLICY)),
    )
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def _stamp(path: str | None) -> tuple[object, ...] | None:
    """What tells a file from what it was before."""
    if not path:
        return None
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return (path, None)
    return (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
