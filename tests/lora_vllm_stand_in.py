"""A stand-in for the parts of vLLM that LoRA resolvers meet: same names, same rules, no torch."""

from __future__ import annotations

from typing import Any

RESOLVER = """
from abc import ABC, abstractmethod
class LoRAResolver(ABC):
    @abstractmethod
    async def resolve_lora(self, base_model_name, lora_name): ...
class _Registry:
    def __init__(self):
        self.resolvers = {}
    def get_supported_resolvers(self):
        return self.resolvers.keys()
    def register_resolver(self, name, resolver):
        assert isinstance(resolver, LoRAResolver)
        if name in self.resolvers:
            print("overwritten:", name)
        self.resolvers[name] = resolver
    def get_resolver(self, name):
        return self.resolvers[name]
LoRAResolverRegistry = _Registry()
"""
REQUEST = """
class LoRARequest:
    def __init__(self, lora_name, lora_int_id, lora_path):
        assert lora_int_id >= 1 and lora_path
        self.lora_name, self.lora_int_id, self.lora_path = lora_name, lora_int_id, lora_path
"""
ENVS = """
import os
VLLM_ALLOW_RUNTIME_LORA_UPDATING = os.environ.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") == "1"
"""
VLLM: dict[str, Any] = {
    "vllm": {
        "__init__.py": "",
        "envs.py": ENVS,
        "lora": {"__init__.py": "", "resolver.py": RESOLVER, "request.py": REQUEST},
    }
}
