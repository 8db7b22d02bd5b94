"""All methods over all states, block by block: the dense answer is made once for each block and kept no longer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from vplug_logits.evaluation.measures import Results, compare, truth
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vplug_logits.evaluation.curves import Curve
    from vplug_logits.evaluation.measures import Method
    from vplug_logits.evaluation.states import States

BLOCK_BYTES = 1 << 27  # of float64 logits


@dataclass(slots=True)
class Measured:
    """What came out.

    Attributes:
        results: Name of a method -> its results, in the order of the states.
        ranks: Name of a curve -> int64 `(N,)`.
    """

    results: dict[str, Results] = field(default_factory=dict)
    ranks: dict[str, torch.Tensor] = field(default_factory=dict)


def measure(  # noqa: PLR0913  # two of them have defaults
    weight: torch.Tensor,
    states: States,
    methods: Sequence[Method],
    curves: Sequence[Curve] = (),
    *,
    dtype: torch.dtype | None = None,
    progress: Progress = silent,
) -> Measured:
    """Measure methods against dense logits in float64.

    Args:
        weight: The live weight `(V, d)`.
        states: What is asked; those of one domain lie together.
        methods: What answers.
        curves: What is only ranked.
        dtype: Of the logits that the dense head gives; None: the weight's.
        progress: Called with "measure".
    """
    parts: dict[str, list[Results]] = {method.name: [] for method in methods}
    ranks: dict[str, list[torch.Tensor]] = {curve.name: [] for curve in curves}
    done = 0
    with torch.inference_mode():
        for block in _blocks(states, max(1, min(256, BLOCK_BYTES // (8 * weight.shape[0])))):
            dense = truth(weight, block, dtype or weight.dtype)
            for method in methods:
                parts[method.name].append(compare(dense, method.answer(block)))
            for curve in curves:
                ranks[curve.name].append(curve.ranks(block, dense.token))
            done += len(block)
            progress("measure", done, len(states))
    return Measured(
        {name: Results.joined(each) for name, each in parts.items()},
        {name: torch.cat(each) for name, each in ranks.items()},
    )


def _blocks(states: States, size: int) -> Iterator[torch.Tensor]:
    """Blocks that hold one domain each, so that what is only known of a block is known of a domain."""
    lengths = torch.unique_consecutive(states.domain, return_counts=True)[1].tolist()
    for part in torch.split(states.states, lengths):
        yield from torch.split(part, size)
