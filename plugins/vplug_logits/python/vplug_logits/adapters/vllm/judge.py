"""Which heads are left as they are, and why: a rule for each thing that a two-stage head would get wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    import torch

    from vplug_logits.adapters.vllm.origin import Origin


@dataclass(frozen=True, slots=True)
class Shard:
    """The rows of the vocabulary that this process has of a head.

    Attributes:
        start: Id of the first row.
        stop: Id after the last; the weight may have more rows, which are padding.
    """

    start: int
    stop: int


def objection(processor: Any, lm_head: Any, origin: Origin | None) -> str | None:
    """Why this head has to stay dense as long as it lives, in one sentence; None where nothing speaks against it.

    Args:
        processor: vLLM's `LogitsProcessor`.
        lm_head: The head that it was called with.
        origin: What is known of its model.
    """
    from vllm.model_executor.layers import linear
    from vllm.model_executor.layers import vocab_parallel_embedding as layers

    # exactly these classes: what a subclass does with its weight is not known
    if type(lm_head) not in {layers.ParallelLMHead, layers.VocabParallelEmbedding}:
        return f"its class {_named(type(lm_head))} is not known"
    method = type(lm_head.quant_method)
    if method not in {layers.UnquantizedEmbeddingMethod, linear.UnquantizedLinearMethod}:
        return f"it is quantised, or multiplied in an unknown way ({_named(method)})"
    if lm_head.num_added_embeddings:
        return "it has rows that were added to the vocabulary"
    if origin is not None and origin.lora is not None and _reaches_head(origin.lora):
        return "LoRA is on and may change it; `--lora-target-modules` without lm_head would say that it does not"
    if processor.scale <= 0:
        return f"its logits are multiplied with {processor.scale}, which turns their order around"
    return _weight(processor, lm_head.weight, shard(lm_head))


def _weight(processor: Any, weight: torch.Tensor, rows: Shard) -> str | None:
    from vplug_logits.digest import DTYPES

    if weight.dim() != 2 or weight.dtype not in DTYPES or weight.is_meta:  # noqa: PLR2004  # a matrix
        return f"its weight is no matrix of floats ({tuple(weight.shape)} in {weight.dtype} on {weight.device})"
    if weight.shape[0] < rows.stop - rows.start:
        return f"its weight has {weight.shape[0]} rows of {rows.stop - rows.start}: the host keeps it in another form"
    if rows.start == rows.stop:
        return "this rank has no row of the vocabulary"
    if processor.head_dtype not in {None, weight.dtype}:
        return f"its logits are asked for in {processor.head_dtype}, and its weight is in {weight.dtype}"
    return None


def shard(lm_head: Any) -> Shard:
    """The rows of a head that this process has."""
    indices = lm_head.shard_indices
    return Shard(indices.org_vocab_start_index, indices.org_vocab_end_index)


def _reaches_head(targets: tuple[str, ...]) -> bool:
    return not targets or any("lm_head" in target or "embed" in target for target in targets)


def _named(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
