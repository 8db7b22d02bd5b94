"""Gumbel noise that can be made again: a function of (seed, step, id), whatever else is asked for with it.

The integers are those of Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", SC 2011):
key = the seed, counter = (id >> 1, step).  Its four words serve the ids 2 j and 2 j + 1: two words, of which 52 bits
make U in (0, 1), and g = -log(-log U).  The integers are the same on every device; a logarithm may differ in its last
bit.
"""

from __future__ import annotations

import torch

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF
_BITS = 52  # so that (k + 1/2) 2^-52 is a float64, and never 0 or 1
_BLOCK = 1 << 18  # values that are made at a time


def gumbel(seed: int, steps: torch.Tensor, ids: torch.Tensor | range) -> torch.Tensor:
    """Standard Gumbel noise.

    Args:
        seed: Any integer; its low 64 bits count.
        steps: int64 `(B,)`: one for each row of a batch, for instance the position of a sequence.
        ids: Rows of the vocabulary: int64 `(n,)`, or `(B, n)` with own ids for each row, or a range of step 1.

    Returns:
        float64 `(B, n)` on the device of `steps`.
    """
    return uniform(seed, steps, ids).log_().neg_().log_().neg_()


def uniform(seed: int, steps: torch.Tensor, ids: torch.Tensor | range) -> torch.Tensor:
    """The uniform numbers behind `gumbel`, in the open interval (0, 1).

    Args:
        seed: As for `gumbel`.
        steps: As for `gumbel`.
        ids: As for `gumbel`.

    Returns:
        float64 `(B, n)`.
    """
    many = len(ids) if isinstance(ids, range) else ids.shape[-1]
    out = torch.empty(steps.shape[0], many, dtype=torch.float64, device=steps.device)
    rows = max(1, _BLOCK // max(1, many))
    for start in range(0, steps.shape[0], rows):
        stop = start + rows
        if isinstance(ids, range):
            part = _range(seed, steps[start:stop, None], ids)
        else:
            part = _some(seed, steps[start:stop, None], ids[start:stop] if ids.dim() > 1 else ids[None])
        torch.mul(part.add_(0.5), 2.0**-_BITS, out=out[start:stop])
    return out


def philox(counter: tuple[torch.Tensor, ...], key: tuple[int, int]) -> tuple[torch.Tensor, ...]:
    """Philox4x32-10.

    Args:
        counter: Four int64 tensors that broadcast, each in 0..2^32 - 1.
        key: Two words.

    Returns:
        Four int64 tensors, each in 0..2^32 - 1.
    """
    zero, one, two, three = counter
    left, right = key
    for _ in range(_ROUNDS):
        # 64-bit products wrap into the sign; shifted and masked, both words are right.
        first, second = zero * _MULTIPLIERS[0], two * _MULTIPLIERS[1]
        zero = _high(second) ^ one ^ left
        two = _high(first) ^ three ^ right
        one, three = second & _WORD, first & _WORD
        left, right = (left + _WEYL[0]) & _WORD, (right + _WEYL[1]) & _WORD
    return zero, one, two, three


def _high(product: torch.Tensor) -> torch.Tensor:
    return (product >> 32) & _WORD


def _words(seed: int, steps: torch.Tensor, halves: torch.Tensor) -> tuple[torch.Tensor, ...]:
    counter = (halves & _WORD, (halves >> 32) & _WORD, steps & _WORD, (steps >> 32) & _WORD)
    return philox(counter, (seed & _WORD, (seed >> 32) & _WORD))


def _bits(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """52 bits of two words, as float64."""
    return ((high << (_BITS - 32)) | (low >> (64 - _BITS))).to(torch.float64)


def _range(seed: int, steps: torch.Tensor, ids: range) -> torch.Tensor:
    """Both ids of each counter are wanted, except at the ends."""
    first = ids.start >> 1
    halves = torch.arange(first, (ids.stop + 1) >> 1, device=steps.device)[None]
    words = _words(seed, steps, halves)
    pairs = torch.stack([_bits(words[0], words[1]), _bits(words[2], words[3])], dim=-1).flatten(1)
    begin = ids.start - 2 * first
    return pairs[:, begin : begin + len(ids)].contiguous()


def _some(seed: int, steps: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    words = _words(seed, steps, ids >> 1)
    return torch.where((ids & 1).bool(), _bits(words[2], words[3]), _bits(words[0], words[1]))
