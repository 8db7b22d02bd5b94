"""The head: states in, real logits of the whole vocabulary out, exact where it matters."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import torch

from vplug_logits.config import Mode
from vplug_logits.counters import Counters, Step
from vplug_logits.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.config import Config
    from vplug_logits.kernels import Backend
    from vplug_logits.sketch import Clusters, Sketch

logger = logging.getLogger("vplug_logits")


class Head:
    """Logits of one output embedding, in the mode of its configuration.

    Attributes:
        weight: The live weight.
        config: What was asked for.
        counters: What it did.
        dtype: Of the logits.
        vocabulary: The rows that the sketch speaks of; rows of the weight beyond are padding.
    """

    def __init__(  # noqa: PLR0913
        self,
        weight: torch.Tensor,
        config: Config,
        *,
        sketch: Sketch | None = None,
        clusters: Clusters | None = None,
        dense: Callable[[torch.Tensor], torch.Tensor] | None = None,
        backend: Backend | None = None,
        start: int = 0,
        dtype: torch.dtype | None = None,
        cap: float | None = None,
        scale: float = 1.0,
        counters: Counters | None = None,
    ) -> None:
        """Make a head; nothing of the weight is copied.

        Args:
            weight: `(rows, d)`, the tensor that the host holds, not a copy of it.
            config: The mode and its numbers.
            sketch: Of the first `sketch.vocabulary` rows of the weight; needed in modes `exact`, `safe` and `fast`.
            clusters: With ids of the whole vocabulary; needed in mode `clusters`.
            dense: What the host computes without us, `(n, d) -> (n, rows)`, local to this process (no gather);
                None: `torch.nn.functional.linear(states, weight)`.
            backend: What computes; None: the best one for the device.
            start: The id of row 0 of the weight, where it is a shard of the vocabulary.
            dtype: Of what `dense` returns; None: the weight's.
            cap: The soft cap that the host applies to the logits afterwards: cap tanh(l / cap).
            scale: The factor above 0 that the host multiplies them with after that.
            counters: To add to; None: new ones.

        Raises:
            BadInputError: A sketch or clusters that are missing or do not fit the weight; NaN or infinity in it.
            ConfigError: `cap` or `scale` that is no positive number.
        """
        self.weight, self.config, self.start = weight, config, start
        self.dtype = weight.dtype if dtype is None else dtype
        self.counters = Counters() if counters is None else counters
        self.vocabulary = weight.shape[0] if sketch is None else sketch.vocabulary
        self._dense = dense or self._linear

    @torch.no_grad()
    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """The logits of all rows of the weight.

        Args:
            states: `(n, d)`, final hidden states; any strides.

        Returns:
            `(n, rows)` in `dtype`, fresh, contiguous and writable.

        Raises:
            BadInputError: States of another width, or not of two dimensions.
        """
        if states.dim() != 2 or states.shape[1] != self.weight.shape[1]:  # noqa: PLR2004
            raise BadInputError(
                f"states of shape {tuple(states.shape)} do not fit a head of width {self.weight.shape[1]}; "
                f"hand over (n, {self.weight.shape[1]})."
            )
        begun = time.perf_counter()
        step = Step(rows=states.shape[0])
        if self.config.mode is Mode.DENSE:
            out = self._dense(states)
        else:
            step.fell_back("inactive", states.shape[0])
            out = self._dense(states)
        step.seconds = time.perf_counter() - begun
        self.counters.add(step)
        return out

    def _linear(self, states: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(states, self.weight)
