"""Tiny random causal models of transformers, and their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


def tiny(*, vocabulary: int = 300, width: int = 32, dtype: torch.dtype = torch.bfloat16, tied: bool = True) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        dtype=dtype,
    )
    made: Any = LlamaForCausalLM
    return made(config).to(dtype).eval()


def tiny_folder(folder: Path, **how: Any) -> str:
    tiny(**how).save_pretrained(folder)
    return str(folder)
