"""A general plugin that registers a model, which is a Llama by another name."""

from __future__ import annotations

from vplug_rs.interfaces.model_registry import register_model


def register() -> None:
    register_model("PluginLlama", "probe_llama:PluginLlama")
