"""vLLM's own layer and head in this process, without an engine, and sketches of such heads."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch

from heads import head, hidden, sketch_of
from vplug_logits import artefact, digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

V, D = 10_000, 64  # no multiple of 64: vLLM pads the vocabulary to 10,048 rows
MODEL = "a-model"


@contextmanager
def engine(**model: Any) -> Iterator[Any]:
    """VLLM's configuration, current as it is while a model is made.

    A genuine `ModelConfig` asks for a folder and looks at its architecture in a process of its own; of it the layers
    read no more than stands here.
    """
    from vllm.config import VllmConfig, set_current_vllm_config

    config = VllmConfig()
    told = {"model": MODEL, "revision": None, "dtype": torch.float32, "head_dtype": None, "runner_type": "generate"}
    for name in ("lora_config", "speculative_config"):
        if name in model:
            object.__setattr__(config, name, model.pop(name))
    object.__setattr__(config, "model_config", SimpleNamespace(**(told | model)))
    with set_current_vllm_config(config):
        yield config


def made(
    *,
    vocabulary: int = V,
    width: int = D,
    dtype: torch.dtype = torch.float32,
    tied: bool = False,
    layer: dict[str, Any] | None = None,
    **model: Any,
) -> tuple[Any, Any, torch.Tensor]:
    """A layer, a head with weights in it, and those weights without padding."""
    from vllm.model_executor.layers.logits_processor import LogitsProcessor
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

    with engine(**({"dtype": dtype} | model)):
        lm_head = (VocabParallelEmbedding if tied else ParallelLMHead)(
            vocabulary, width, params_dtype=dtype, prefix="embed" if tied else "lm_head"
        )
        processor = LogitsProcessor(vocabulary, **(layer or {}))
    weight = head(vocabulary, width).to(dtype)
    lm_head.weight_loader(cast("torch.nn.Parameter", lm_head.weight), weight)
    lm_head.quant_method.process_weights_after_loading(lm_head)
    return processor, lm_head, weight


def states(count: int = 5, *, dtype: torch.dtype = torch.float32, seed: int = 3) -> torch.Tensor:
    """States of a model that knows what it wants to say: each has a row of the head in it."""
    wanted = torch.randperm(V, generator=torch.Generator().manual_seed(seed))[:count]
    rows = head(V, D)
    return (hidden(count, D, seed=seed) + 20 * (rows - rows.mean(0))[wanted]).to(dtype)


def written(path: Path, weight: torch.Tensor, *, bits: int = 2) -> str:
    """The artefact of a head, whose metric knows states like those that it is asked for."""
    known = hidden(400, weight.shape[1], seed=9)
    artefact.write(
        str(path),
        sketch_of(weight.float(), known, bits),
        digests=digest.of_rows(weight),
        seed=0,
        dtype=digest.DTYPES[weight.dtype],
        source=MODEL,
        positions=len(known),
        states=known[:64],
    )
    return str(path)


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Equal but for the order of sums, which threads and shapes decide."""
    wide = theirs.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=1e-4 if wide else None, atol=1e-3 if wide else None)
