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


def tiny_that_reads(folder: Path, *, vocabulary: int = 900, width: int = 128) -> str:
    """The folder of a tiny Llama in float32 with a tokenizer of bytes: text goes in, and some text comes out."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: at for at, word in enumerate(("<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())))}
    words |= {f"w{at}": at for at in range(len(words), vocabulary)}
    bytes_alone = Tokenizer(models.BPE(words, []))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=bytes_alone, bos_token="<s>", eos_token="</s>", pad_token="<pad>").save_pretrained(folder)
    made = tiny(vocabulary=vocabulary, width=width, dtype=torch.float32)
    made.generation_config.eos_token_id = None  # it goes on as long as it is asked to
    made.save_pretrained(folder)
    return str(folder)
