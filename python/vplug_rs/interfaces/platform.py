"""vLLM's platform class: the least that an out-of-tree platform has to bring, and defaults that are worth a look.

vLLM calls the methods on one instance, made without arguments. Its own base class answers for what is missing, and for
unknown names with `None`, so that a typo does not fail: this tells.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from vplug_rs.interfaces._check import MISSING, WARNING, Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.interfaces._check import Finding
    from vplug_rs.loading.plugin import Plugin

_BASE = "Platform"  # vLLM's, in `vllm.platforms.interface`

# attribute, the default that is worth a look, what it means
_DEFAULTS = (
    ("dispatch_key", "CPU", "torch's operators are looked up under the CPU's key"),
    ("ray_device_key", "", "vLLM refuses Ray"),
    (
        "device_control_env_var",
        "VLLM_DEVICE_CONTROL_ENV_VAR_PLACEHOLDER",
        "no variable chooses which devices a worker sees",
    ),
    ("dist_backend", "", "several workers cannot talk to each other"),
)
# method, how vLLM calls it; vLLM's default raises NotImplementedError
_UNANSWERED = (
    ("get_device_name", ("", "device_id")),
    ("get_device_uuid", ("device_id",)),
    ("get_device_total_memory", ("", "device_id")),
    ("get_all_gpu_pci_bus_ids", ("",)),
    ("set_device", ("device",)),
    ("manual_seed_all", ("seed",)),
)
# hooks that do nothing by default
_HOOKS = (
    ("pre_register_and_update", ("", "parser")),
    ("apply_config_platform_defaults", ("vllm_config",)),
    ("register_triton_kernel_overrides", ("",)),
    ("import_kernels", ("",)),
    ("log_warnings", ("",)),
)


class Platform(Protocol):
    """A platform as vLLM 0.33 uses it. The first six are the least that it has to bring itself."""

    _enum: Any
    device_type: str
    device_name: str

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Has to set `vllm_config.parallel_config.worker_cls`."""

    @classmethod
    def get_attn_backend_cls(cls, selected_backend: Any, attn_selector_config: Any, num_heads: Any = None) -> str:
        """The dotted name of the attention back end's class."""

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """The dotted name of the communicator's class."""

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """The device's name."""

    @classmethod
    def get_device_uuid(cls, device_id: int = 0) -> str:
        """The device's identifier."""

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """The device's memory in bytes."""

    @classmethod
    def get_all_gpu_pci_bus_ids(cls) -> dict[int, str]:
        """The PCI address of each device."""

    @classmethod
    def set_device(cls, device: Any) -> None:
        """Makes a device this thread's."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Seeds all devices."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Before arguments are parsed."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """The platform's own defaults, after the arguments."""

    @classmethod
    def register_triton_kernel_overrides(cls) -> None:
        """In each worker, before the model is made."""

    @classmethod
    def import_kernels(cls) -> None:
        """Imports the extension with the platform's operators."""

    @classmethod
    def log_warnings(cls) -> None:
        """What the platform has to say, once logging is set up."""


def check(found: Any, plugin: Plugin | None = None) -> list[Finding]:
    """What is missing in a platform class, or wrong, or left at a default that is worth a look."""
    it = Check(found, plugin)
    if not it.wants_class("Let the plugin's function return the dotted name of the class."):
        return it.findings
    _attributes(it)
    it.method(Platform, "check_and_update_config", "vllm_config")
    it.method(Platform, "get_attn_backend_cls", "selected_backend, attn_selector_config=, num_heads=")
    it.method(Platform, "get_device_communicator_cls", "")
    if it.inherits("check_and_update_config", _BASE):
        it.error(
            "`check_and_update_config` is vLLM's own, which does nothing, so `parallel_config.worker_cls` stays unset",
            "Set `vllm_config.parallel_config.worker_cls` in one of your own.",
        )
    if it.inherits("get_attn_backend_cls", _BASE):
        it.error("`get_attn_backend_cls` is vLLM's own, which names no class", "Return the dotted name of yours.")
    if it.inherits("get_device_communicator_cls", _BASE):
        it.warn(
            "`get_device_communicator_cls` is vLLM's own, which goes through torch.distributed alone",
            "Return the dotted name of yours, if the device has one.",
        )
    _optional(it)
    it.constructor(Platform, "")
    return it.findings


def _attributes(it: Check) -> None:
    kind = it.attribute("_enum")
    if kind is MISSING:
        it.error("there is no `_enum`", "Set `_enum = PlatformEnum.OOT`.")
    elif not issubclass(type(kind), Enum):
        it.error(f"`_enum` is {type(kind).__name__} and no `PlatformEnum`", "Set `_enum = PlatformEnum.OOT`.")
    elif kind._name_ != "OOT":
        it.warn(f"`_enum` is `{kind._name_}`, so vLLM takes it for that platform", "Set `_enum = PlatformEnum.OOT`.")
    for name in ("device_type", "device_name"):
        value = it.attribute(name)
        if value is MISSING:
            it.error(f"there is no `{name}`", f'Set `{name} = "..."`.')
        elif isinstance(value, str) and not value:
            it.error(f"`{name}` is empty", f'Set `{name} = "..."`.')
        elif not isinstance(value, (str, property)):
            it.error(f"`{name}` is {type(value).__name__}, and a text is wanted", f'Set `{name} = "..."`.')
    for name, default, meaning in _DEFAULTS:
        value = it.attribute(name)
        if value is MISSING or (isinstance(value, str) and value == default):
            it.warn(f"`{name}` is left at {default!r}: {meaning}", f"Set `{name}`, unless that is what you want.")


def _optional(it: Check) -> None:
    for name, calls in _UNANSWERED:
        if it.inherits(name, _BASE) or it.attribute(name) is MISSING:
            it.warn(f"`{name}` is not there, and vLLM's own raises NotImplementedError", "Write it, if vLLM asks it.")
        else:
            it.method(Platform, name, *calls, severity=WARNING)
    for name, calls in _HOOKS:
        if it.attribute(name) is not MISSING:
            it.method(Platform, name, *calls)
        elif not it.descends(_BASE):
            it.warn(f"there is no `{name}`", "Derive from `vllm.platforms.interface.Platform`, which has one.")
