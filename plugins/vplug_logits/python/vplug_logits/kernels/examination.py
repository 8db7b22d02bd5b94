"""What serves each device here, as JSON on stdout.

To ask for a GPU is to start its driver in the process that asks, and a torch that is broken may end it: so it is a
process of its own that does.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

from vplug_logits.config import Config
from vplug_logits.errors import BackendError, ConfigError

if TYPE_CHECKING:
    import torch

DEVICES = ("cpu", "cuda")


def examine() -> dict[str, Any]:
    """All that is found out.

    Returns:
        `torch`: its version, threads, and the GPUs that it sees; `triton`: its version, or None where it is not
        installed; `extension`: what it was built of, or why it cannot be imported; `devices`: for each that is here
        the name of the active backend, or None and the error of the settings, and why each of the others does not
        serve (None: it can).
    """
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    here = [name for name in DEVICES if name == "cpu" or gpus]
    return {
        "torch": {"version": torch.__version__, "threads": torch.get_num_threads(), "gpus": gpus},
        "triton": _version("triton"),
        "extension": _extension(),
        "devices": {name: _device(torch.device(name)) for name in here},
    }


def _device(device: torch.device) -> dict[str, Any]:
    from vplug_logits.kernels import registry

    why = {name: _why_not(name, device) for name in registry.NAMES}
    try:
        config = Config.from_environment()
        wanted = "auto" if config is None else config.backend
        return {"active": registry.chosen(device, wanted).backend.name, "error": None, "backends": why}
    except (BackendError, ConfigError) as error:
        return {"active": None, "error": str(error), "backends": why}


def _why_not(name: str, device: torch.device) -> str | None:
    from vplug_logits.kernels import registry

    try:
        registry.made(name, device)
    except BackendError as error:
        return f"{error.reason} {error.next_step}".strip()
    return None


def _extension() -> dict[str, Any]:
    try:
        from vplug_logits import _kernels
    except ImportError as error:
        return {"error": " ".join(str(error).split())}
    return {"error": None, **_kernels.build_info()}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def main() -> None:
    """Write it; what libraries print as they load goes to stderr, for it is no part of the answer."""
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with answer:
        json.dump(examine(), answer)
