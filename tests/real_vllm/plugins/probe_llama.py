"""Two models of one shape: a plugin registers the first, a script the second."""

from __future__ import annotations

from vllm.model_executor.models.llama import LlamaForCausalLM


class PluginLlama(LlamaForCausalLM):
    """Registered by `probe_models`."""


class ScriptLlama(LlamaForCausalLM):
    """Registered by `programs/models.py`."""
