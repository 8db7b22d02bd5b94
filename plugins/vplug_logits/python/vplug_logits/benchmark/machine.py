"""What figures were seen on, and what makes them worthless: kernels that were compiled without optimisation."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import platform
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.errors import ConfigError

if TYPE_CHECKING:
    from types import ModuleType

KERNELS = "vplug_logits._kernels"
_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_int8", "asimddp", "i8mm")
_CACHE = "/sys/devices/system/cpu/cpu0/cache"
_USUAL_CACHE = 32 << 20  # where the system does not say


def kernels() -> ModuleType | None:
    """The compiled kernels, or None where they are not built."""
    try:
        return importlib.import_module(KERNELS)
    except ImportError:
        return None


def require_release() -> None:
    """Refuse kernels of a debug build.

    Raises:
        ConfigError: They are.
    """
    module = kernels()
    if module is not None and module.build_info().get("profile") == "debug":
        raise ConfigError("bench: the kernels are a debug build, whose times say nothing; build them with `--release`.")


def cache_bytes() -> int:
    """The size of the largest cache."""
    sizes = [_USUAL_CACHE]
    for index in range(8):
        try:
            with open(f"{_CACHE}/index{index}/size", encoding="ascii") as file:
                text = file.read().strip()
        except OSError:
            continue
        factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        digits = text.rstrip("KMG")
        if digits.isdigit():
            sizes.append(int(digits) * factor)
    return max(sizes)


def described() -> dict[str, Any]:
    """The machine, the versions and the day."""
    model, flags = _processor()
    module = kernels()
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": model,
        "processors": os.cpu_count(),
        "cache": cache_bytes(),
        "flags": flags,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_uses": torch.backends.cpu.get_cpu_capability(),
        "kernels": None if module is None else dict(module.build_info()),
    }


def _processor() -> tuple[str, list[str]]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return platform.processor() or "unknown", []
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    there = set(said.get("flags", said.get("Features", "")).split())
    return said.get("model name", platform.machine()), [flag for flag in _FLAGS if flag in there]
