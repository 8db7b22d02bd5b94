"""Small heads with the faults of real ones: a common mean, a few strong directions, uneven norms."""

from __future__ import annotations

import math

import torch

from vplug_logits.codes import encode, quantise
from vplug_logits.metric import rows_through, second_moment, transform
from vplug_logits.sketch import Sketch, padded_rows


def head(vocabulary: int, width: int, *, seed: int = 0) -> torch.Tensor:
    """Rows of a head, float32 `(V, d)`."""
    generator = torch.Generator().manual_seed(seed)
    falling = torch.arange(1, width + 1).pow(-0.7)
    rows = torch.randn(vocabulary, width, generator=generator) * falling
    length = torch.rand(vocabulary, 1, generator=generator) + 0.5
    return (rows + 0.5 * torch.randn(width, generator=generator)) * length


def hidden(count: int, width: int, *, seed: int = 1) -> torch.Tensor:
    """States with most of their energy in a few directions, float32 `(n, d)`."""
    generator = torch.Generator().manual_seed(seed)
    falling = torch.arange(1, width + 1).flip(0).pow(-0.7)
    directions = torch.randn(count, width, generator=generator) * falling
    return directions * (4 * math.sqrt(width))


def sketch_of(weight: torch.Tensor, states: torch.Tensor, bits: int, *, seed: int = 0) -> Sketch:
    """The sketch of a small head, all of it in memory: what the builder is tested against."""
    return sketch_for(weight, second_moment([states]), bits, seed=seed)


def sketch_for(
    weight: torch.Tensor, moment: torch.Tensor, bits: int, *, seed: int = 0, mean: torch.Tensor | None = None
) -> Sketch:
    """The same, for the second moment of states; and around another point than the mean row."""
    rows = weight.double()
    mean = rows.mean(0).float() if mean is None else mean
    matrix = transform(moment, second_moment([rows - mean]), seed)
    encoded = encode(rows_through(rows, mean, matrix), bits)
    kept = quantise(encoded)
    missing = padded_rows(weight.shape[0]) - weight.shape[0]

    def padded(part: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(part, (0, missing))

    return Sketch(
        bits=bits,
        vocabulary=weight.shape[0],
        width=weight.shape[1],
        codes=encoded.codes,
        scale=padded(kept.scale),
        residual=padded(kept.residual),
        norm=padded(kept.norm) if bits == 8 else None,
        unit=kept.unit,
        transform=matrix,
        mean=mean,
    )
