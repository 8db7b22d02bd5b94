"""vLLM's own registry of models, looked at and written to; the only file here that knows its shape.

vLLM is imported in a process where it has been already, or where somebody asks for it; never else.
"""

from __future__ import annotations

import importlib
import sys

from vplug_rs.interfaces._models.errors import ModelRegistryError
from vplug_rs.loading.attempt import is_executing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULE = "vllm.model_executor.models.registry"


def is_here() -> bool:
    """Whether this process has imported vLLM."""
    return sys.modules.get("vllm") is not None


def registry(*, wanted: bool) -> Any:
    """The `ModelRegistry` of vLLM, or None where it is not there, or only half imported.

    Args:
        wanted: Whether to import it.

    Raises:
        ModelRegistryError: it is to be imported, and cannot be.
    """
    module = sys.modules.get(MODULE)
    if module is None:
        if not wanted or is_executing(sys.modules.get("vllm")):
            return None
        try:
            module = importlib.import_module(MODULE)
        except (Exception, SystemExit) as error:
            raise ModelRegistryError(
                f"vLLM's registry of models cannot be imported: {type(error).__name__}: {error}",
                hint=f"See what `python -c 'import {MODULE}'` says.",
            ) from error
    return getattr(module, "ModelRegistry", None)


def architectures() -> frozenset[str]:
    """What vLLM knows, as far as it is imported."""
    found = registry(wanted=False)
    return frozenset() if found is None else frozenset(found.get_supported_archs())


def target(found: Any, arch: str) -> str | None:
    """What vLLM has registered for an architecture, as `module:Class`, or None."""
    model = getattr(found, "models", {}).get(arch)
    if model is None:
        return None
    name = getattr(model, "class_name", None)
    if name is not None:
        return f"{model.module_name}:{name}"
    cls = getattr(model, "model_cls", None)
    return repr(model) if cls is None else f"{cls.__module__}:{cls.__qualname__}"
