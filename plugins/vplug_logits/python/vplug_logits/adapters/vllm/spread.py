"""Whether a token may be drawn from logits of which most are estimates.

With exact logits of the R best rows, error sigma of all others, and a share s of the probability among those, what is
drawn differs from the truth by a total variation of about 0.40 sigma s (E|N(0, 1)| / 2), more or less as the tail has
few rows or many.  Half as much again is allowed for: on real states of SmolLM2 at 2 bits, where sigma is 0.85 to 1.1,
the true one was 0.36 to 0.49 of sigma s.  It is an expectation: a row that is underestimated by three sigma may be
missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vplug_logits.kernels import choose

if TYPE_CHECKING:
    from vplug_logits.after import After
    from vplug_logits.config import Config
    from vplug_logits.sketch import Sketch

VARIATION = 0.02  # the total variation that may be expected
_EXPECTED = 0.6  # of sigma s


class Spread:
    """Judges states by their logits.

    Args:
        sketch: What the estimates came of.
        config: Its `rows` are the exact ones.
        after: What the host does to the logits.
    """

    def __init__(self, sketch: Sketch, config: Config, after: After) -> None:
        self._sketch, self._backend = sketch, choose(sketch.codes.device, config.backend)
        residual = sketch.residual[: sketch.vocabulary].to(torch.float32).mean()
        self._sigma = float(residual) * sketch.unit / sketch.width**0.5  # of a state of length 1
        self._rows = min(config.rows, sketch.vocabulary)
        self._after = after

    def too_wide(self, states: torch.Tensor, logits: torch.Tensor, temperatures: list[float]) -> torch.Tensor:
        """The states for which it may not.

        Args:
            states: `(n, d)`.
            logits: `(n, V)`, as the head gave them; rows of padding do no harm.
            temperatures: n, above 0.

        Returns:
            bool `(n,)`.
        """
        heat = torch.tensor(temperatures, device=logits.device)[:, None]
        sigma = self._sigma * torch.linalg.vector_norm(
            self._backend.transform(self._sketch, states.to(torch.float32)), dim=1
        )
        chances = torch.softmax(self._after(logits.to(torch.float32)) / heat, dim=1)
        tail = 1 - torch.topk(chances, self._rows, dim=1, sorted=False).values.sum(1)
        expected: torch.Tensor = _EXPECTED * sigma * self._after.scale / heat[:, 0] * tail
        return expected > VARIATION
