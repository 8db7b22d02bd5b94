"""Which backends there are, which one serves a device, and why not those that come before it.

A backend is imported when it is asked for, and no other is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vplug_logits.config import AUTO, backend_named
from vplug_logits.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from vplug_logits.kernels import Backend


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend, and what was found out on the way to it.

    Attributes:
        backend: What computes.
        passed_over: Name -> why not, of those that come before it and cannot serve.
    """

    backend: Backend
    passed_over: Mapping[str, str]


def served_by(device: torch.device) -> tuple[str, ...]:
    """The names of what may serve a device, the best first.

    Args:
        device: Where weight and sketch are.
    """
    return _ORDER.get(device.type, ("torch",))


def chosen(device: torch.device, wanted: str = AUTO) -> Choice:
    """The best backend for a device, or the one that is named.

    Args:
        device: Where weight and sketch are.
        wanted: `auto`, or a name.

    Raises:
        ConfigError: A name that is unknown.
        BackendError: The one that is named cannot serve.
    """
    name = backend_named(wanted)
    if name != AUTO:
        return Choice(made(name, device), {})
    passed_over: dict[str, str] = {}
    *better, last = served_by(device)
    for one in better:
        try:
            return Choice(made(one, device), passed_over)
        except BackendError as error:
            passed_over[one] = error.reason
    return Choice(made(last, device), passed_over)


def made(name: str, device: torch.device) -> Backend:
    """The backend of this name, for this device.

    Args:
        name: `cpu`, `triton` or `torch`.
        device: Where weight and sketch are.

    Raises:
        BackendError: It cannot serve.
    """
    return _MAKERS[name](device)


def _cpu(device: torch.device) -> Backend:
    if device.type != "cpu":
        raise BackendError("cpu", f"it serves no device of type {device.type}.")
    try:
        from vplug_logits.kernels.cpu import CpuBackend
    except ImportError as error:
        next_step = "Install the distribution from its wheel, or build it here (`make logits-extension`)."
        raise BackendError("cpu", f"its extension cannot be imported: {_cause(error)}.", next_step=next_step) from error
    return CpuBackend()


def _triton(device: torch.device) -> Backend:
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise BackendError("triton", f"it serves no device of type {device.type} but in its interpreter.")
    try:
        from vplug_logits.kernels.triton_backend import TritonBackend, available
    except ImportError as error:
        raise BackendError("triton", f"it cannot be imported: {_cause(error)}.", next_step="Install triton.") from error
    reason = available() if device.type == "cuda" else None
    if reason is not None:
        raise BackendError("triton", reason)
    return TritonBackend()


def _torch(device: torch.device) -> Backend:
    from vplug_logits.kernels.plain import PlainBackend

    del device  # any
    return PlainBackend()


def _cause(error: ImportError) -> str:
    return " ".join(str(error).split()).rstrip(".")


_MAKERS: Mapping[str, Callable[[torch.device], Backend]] = {"cpu": _cpu, "triton": _triton, "torch": _torch}
NAMES = tuple(_MAKERS)
_ORDER: Mapping[str, tuple[str, ...]] = {"cpu": ("cpu", "torch"), "cuda": ("triton", "torch")}
