"""A bed with plugins of vLLM's groups, and a stand-in for the few base classes of vLLM's that they derive from.

The stand-in has vLLM's names and signatures and nothing behind them.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from sites import build, dist
from test_loader import Bed

if TYPE_CHECKING:
    from pathlib import Path

    from sites import Tree

_V1 = """
    from abc import ABC, abstractmethod
    class LogitsProcessor(ABC):
        @classmethod
        def validate_params(cls, sampling_params): return None
        @abstractmethod
        def __init__(self, vllm_config, device, is_pin_memory): ...
        @abstractmethod
        def apply(self, logits): ...
        @abstractmethod
        def is_argmax_invariant(self): ...
        @abstractmethod
        def update_state(self, batch_update): ...
"""
_V2 = """
    from abc import ABC, abstractmethod
    class LogitsProcessor(ABC):
        def __init__(self, vllm_config, req_states): ...
        @classmethod
        def validate_params(cls, sampling_params): ...
        def add_request(self, req_idx, sampling_params): return True
        def apply_staged_writes(self): ...
        @abstractmethod
        def apply(self, logits, ctx): ...
"""
_LOGGERS = """
    from abc import ABC, abstractmethod
    class StatLoggerBase(ABC):
        @abstractmethod
        def __init__(self, vllm_config, engine_index=0): ...
        @abstractmethod
        def record(self, scheduler_stats, iteration_stats, mm_cache_stats=None, engine_idx=0): ...
        @abstractmethod
        def log_engine_initialized(self): ...
        def log(self): ...
        def record_sleep_state(self, is_awake, level): ...
    class AggregateStatLoggerBase(StatLoggerBase):
        @abstractmethod
        def __init__(self, vllm_config, engine_indexes): ...
        def record_admission_rejection(self, reason): ...
"""
_IO_PROCESSOR = """
    from abc import ABC, abstractmethod
    class IOProcessor(ABC):
        def __init__(self, vllm_config, renderer): self.vllm_config = vllm_config
        def parse_data(self, data): raise NotImplementedError
        def merge_sampling_params(self, params=None): return params
        def merge_pooling_params(self, params=None): return params
        @abstractmethod
        def pre_process(self, prompt, request_id=None, **kwargs): ...
        async def pre_process_async(self, prompt, request_id=None, **kwargs): ...
        @abstractmethod
        def post_process(self, model_output, request_id=None, **kwargs): ...
        async def post_process_async(self, model_output, request_id=None, **kwargs): ...
"""
_PLATFORM = """
    import enum
    PlatformEnum = enum.Enum("PlatformEnum", "CUDA CPU OOT")
    class Platform:
        _enum: PlatformEnum
        device_name: str
        device_type: str
        dispatch_key = "CPU"
        ray_device_key = ""
        device_control_env_var = "VLLM_DEVICE_CONTROL_ENV_VAR_PLACEHOLDER"
        dist_backend = ""
        @classmethod
        def check_and_update_config(cls, vllm_config): ...
        @classmethod
        def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None): return ""
        @classmethod
        def get_device_communicator_cls(cls): return "vllm.base"
        @classmethod
        def get_device_name(cls, device_id=0): raise NotImplementedError
        @classmethod
        def get_device_uuid(cls, device_id=0): raise NotImplementedError
        @classmethod
        def get_device_total_memory(cls, device_id=0): raise NotImplementedError
        @classmethod
        def get_all_gpu_pci_bus_ids(cls): raise NotImplementedError
        @classmethod
        def set_device(cls, device): raise NotImplementedError
        @classmethod
        def manual_seed_all(cls, seed): raise NotImplementedError
        @classmethod
        def pre_register_and_update(cls, parser=None): ...
        @classmethod
        def apply_config_platform_defaults(cls, vllm_config): ...
        @classmethod
        def register_triton_kernel_overrides(cls): ...
        @classmethod
        def import_kernels(cls): ...
        @classmethod
        def log_warnings(cls): ...
        def __getattr__(self, name): return None
"""


def _package(**inside: Any) -> dict[str, Any]:
    return {"__init__.py": "", **inside}


STAND_IN: Tree = {
    "vllm": _package(
        v1=_package(
            metrics=_package(**{"loggers.py": _LOGGERS}),
            sample=_package(
                logits_processor={
                    "__init__.py": "from .interface import LogitsProcessor\n",
                    "interface.py": _V1,
                }
            ),
            worker=_package(
                gpu=_package(
                    sample=_package(
                        logits_processor={
                            "__init__.py": "from .interface import LogitsProcessor\n",
                            "interface.py": _V2,
                        }
                    )
                )
            ),
        ),
        plugins=_package(io_processors=_package(**{"interface.py": _IO_PROCESSOR})),
        platforms=_package(**{"interface.py": _PLATFORM}),
    )
}


class VllmBed(Bed):
    """A site with plugins in one group of vLLM's."""

    def __init__(self, folder: Path, group: str) -> None:
        super().__init__(folder)
        self.group = group
        build(self.site, STAND_IN)

    def offer(self, name: str, source: str, value: str = "", *, version: str = "1.0") -> VllmBed:
        """Add the distribution `acme-NAME`, whose entry point names `run` in `NAME_mod`, or another value."""
        points = f"[{self.group}]\n{name} = {value or f'{name}_mod:run'}\n"
        build(self.site, dist(f"acme-{name}", version, points))
        build(self.site, {f"{name}_mod.py": textwrap.dedent(source)})
        return self

    def findings(self, module: str, name: str, options: str = "") -> list[list[str]]:
        """Check the object that a plugin names; give severity, message and hint of each finding."""
        (said,) = self.run(f"""
            from vplug_rs.interfaces import {module} as interface
            loader = PluginLoader({self.group!r}, policy=Policy(), kind="any")
            plugin = loader.get({name!r})
            found = interface.check(plugin.object, plugin{options})
            assert not any(word in sys.modules for word in ("torch", "numpy")), "a framework was imported"
            say(*[[one.severity, one.message, one.hint] for one in found])
        """)
        assert isinstance(said, list)
        return said
