"""Heads and sketches for tests that look at neither's quality: any numbers that a file may hold."""

from __future__ import annotations

import torch

from vplug_logits import digest
from vplug_logits.config import CLUSTER_SIZE
from vplug_logits.sketch import BLOCK, LANE, Clusters, Sketch, padded_rows, padded_width


def head(vocabulary: int, width: int, *, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(vocabulary, width, generator=generator).to(dtype)


def any_sketch(vocabulary: int, width: int, bits: int, *, seed: int = 0) -> Sketch:
    generator = torch.Generator().manual_seed(seed)
    rows, code_bytes = padded_rows(vocabulary), padded_width(width, bits) * bits // 8

    def of_rows() -> torch.Tensor:
        values = torch.rand(rows, generator=generator)
        values[vocabulary:] = 0
        return values.to(torch.float16)

    return Sketch(
        bits=bits,
        vocabulary=vocabulary,
        width=width,
        codes=torch.randint(256, (rows // BLOCK, code_bytes // LANE, BLOCK, LANE), generator=generator).to(torch.uint8),
        scale=of_rows(),
        residual=of_rows(),
        norm=of_rows() if bits == 8 else None,
        unit=0.25,
        transform=torch.randn(width, width, generator=generator).to(torch.bfloat16),
        mean=torch.randn(width, generator=generator),
    )


def any_clusters(vocabulary: int, width: int, *, seed: int = 0) -> Clusters:
    generator = torch.Generator().manual_seed(seed)
    count = -(-vocabulary // CLUSTER_SIZE)
    members = torch.full((count * CLUSTER_SIZE,), -1, dtype=torch.int32)
    members[:vocabulary] = torch.randperm(vocabulary, generator=generator).to(torch.int32)
    return Clusters(
        size=CLUSTER_SIZE,
        members=members.view(count, CLUSTER_SIZE),
        centroids=torch.randint(-127, 128, (count, width), generator=generator).to(torch.int8),
        scale=torch.rand(count, generator=generator),
    )


def digests(vocabulary: int, width: int) -> torch.Tensor:
    return digest.of_rows(head(vocabulary, width))
