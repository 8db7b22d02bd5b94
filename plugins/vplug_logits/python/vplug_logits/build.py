"""Builds the sketch of a head, streaming over the vocabulary, and the artefact of a model.

Blocks have a size that depends on the width alone, so a sum has one order and the same head gives the same bytes.
Beside the codes, a build holds four float64 numbers for each row and a few blocks of a million numbers; never a
second copy of the head.
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits import artefact, cache, digest
from vplug_logits.calibrate import calibrate
from vplug_logits.clusters import balanced_clusters
from vplug_logits.codes import encode, quantise, room
from vplug_logits.config import SEED
from vplug_logits.errors import BadInputError, BuildError, UnsupportedHeadError
from vplug_logits.metric import Solver, second_moment, transform
from vplug_logits.progress import Progress, silent
from vplug_logits.sketch import BLOCK, Clusters, Sketch, padded_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vplug_logits.config import Config

_BLOCK_NUMBERS = 1 << 20  # of a block of rows: 8 MB in float64


def build(
    weight: torch.Tensor, states_moment: torch.Tensor, bits: int, *, seed: int = SEED, progress: Progress = silent
) -> Sketch:
    """The sketch of a head; the same bytes for the same head, moment and seed on one machine and installation.

    Args:
        weight: W `(V, d)`, float32, bfloat16 or float16, on any device; read block by block.
        states_moment: float64 `(d, d)`: E[h h^T] of the states that reach the head.
        bits: 1, 2, 4 or 8.
        seed: Of the rotation.
        progress: Called with "mean", "moments" and "codes".

    Returns:
        The sketch, on the device of `weight`; it is computed on the CPU.

    Raises:
        BadInputError: A row has NaN or infinity, or shapes or types do not fit.
    """
    if weight.dim() != 2 or 0 in weight.shape or weight.dtype not in digest.DTYPES:  # noqa: PLR2004  # a matrix
        raise BadInputError(
            f"a head of shape {tuple(weight.shape)} in {weight.dtype} has no sketch: float rows (V, d)."
        )
    vocabulary, width = weight.shape
    if tuple(states_moment.shape) != (width, width):
        raise BadInputError(f"states of shape {tuple(states_moment.shape)} are none of a head of width {width}.")
    # Before anything large: what is kept between blocks that are not would leave holes in the heap.
    encoded = room(vocabulary, width, bits)
    mean = _mean(weight, progress)
    centred = (
        block.to(torch.float64, copy=True).sub_(mean) for _, block in _blocks(weight, partial(progress, "moments"))
    )
    matrix = transform(states_moment.to("cpu", torch.float64), second_moment(centred), seed)
    solver = Solver(matrix)
    for start, block in _blocks(weight, partial(progress, "codes")):
        encoded.put(start, encode(solver.rows(block, mean), bits))
    kept = quantise(encoded)
    missing = padded_rows(vocabulary) - vocabulary

    def placed(values: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(values, (0, missing)).to(weight.device)

    return Sketch(
        bits=bits,
        vocabulary=vocabulary,
        width=width,
        codes=encoded.codes.to(weight.device),
        scale=placed(kept.scale),
        residual=placed(kept.residual),
        norm=placed(kept.norm) if bits == 8 else None,  # noqa: PLR2004  # see Sketch.norm
        unit=kept.unit,
        transform=matrix.to(weight.device),
        mean=mean.to(weight.device),
    )


def build_clusters(
    weight: torch.Tensor, states_moment: torch.Tensor, *, seed: int = SEED, progress: Progress = silent
) -> Clusters:
    """The clusters of a head, in the metric of its states.

    Args:
        weight: As for `build`; here a float32 copy of it is made.
        states_moment: As for `build`.
        seed: Of the start.
        progress: Called with "clusters".

    Raises:
        BadInputError: A row has NaN or infinity.
    """
    energy, directions = torch.linalg.eigh(states_moment.to("cpu", torch.float64))
    root = directions * energy.clamp_min(0).sqrt()
    return balanced_clusters(weight.detach().cpu(), weights=root, seed=seed, progress=partial(progress, "clusters"))


def build_model(  # noqa: PLR0913  # keywords of a command
    model: str,
    config: Config,
    *,
    dtype: str,
    out: str,
    revision: str | None = None,
    seed: int = SEED,
    private: bool = True,
    progress: Progress = silent,
) -> None:
    """Build the artefact of a model and write it.

    Args:
        model: A folder or a hub id that is in the local cache; nothing is downloaded.
        config: Its `bits`, and whether it needs clusters.
        dtype: The type the model is to be served in, which it is loaded and calibrated in.
        out: The file.
        revision: Of a hub id.
        seed: Of the calibration, the rotation and the clusters.
        private: Readable by this user alone.
        progress: Called with the name of each step.

    Raises:
        BuildError: The model cannot be loaded or fails; names it, the cause and the next step.
        UnsupportedHeadError: Its head has a bias, is quantised or of an unknown kind.
        ArtefactError: The file cannot be written.
    """
    loaded = load(model, dtype=dtype, revision=revision)
    try:
        weight = head_weight(loaded)
        calibration = calibrate(loaded, seed=seed, progress=progress)
        del loaded
        sketch = build(weight, calibration.moment, config.bits, seed=seed, progress=progress)
        clusters = None
        if config.needs_clusters:
            clusters = build_clusters(weight, calibration.moment, seed=seed, progress=progress)
    except (BadInputError, BuildError) as error:
        raise BuildError(f"{model}: {error}") from error
    artefact.write(
        out,
        sketch,
        digests=digest.of_rows(weight),
        seed=seed,
        dtype=digest.DTYPES[weight.dtype],
        source=cache.readable(model),
        positions=calibration.positions,
        clusters=clusters,
        states=calibration.states,
        private=private,
    )


def load(model: str, *, dtype: str, revision: str | None = None) -> Any:
    """A causal language model of transformers, on the CPU, from local files alone.

    Args:
        model: A folder or a hub id.
        dtype: float32, bfloat16 or float16.
        revision: Of a hub id.

    Raises:
        BuildError: transformers is missing, or it cannot load the model.
    """
    try:
        from transformers import AutoModelForCausalLM

        talk: Any = import_module("transformers.utils.logging")
    except ImportError as error:
        raise BuildError(
            f"{model}: transformers runs the model, and cannot be imported ({error}). "
            "Install it with `pip install 'vplug_logits[build]'`."
        ) from error
    talk.disable_progress_bar()
    try:
        return AutoModelForCausalLM.from_pretrained(
            model, dtype=getattr(torch, dtype), revision=revision or "main", local_files_only=True
        )
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        there = "Its folder is there" if os.path.isdir(model) else "It is no folder, and nothing is downloaded"
        raise BuildError(
            f"{model}: transformers cannot load it ({cause}). {there}; see that it loads there."
        ) from error


def head_weight(model: Any) -> torch.Tensor:
    """The weight of a model's head.

    Raises:
        UnsupportedHeadError: There is none, or it has a bias or is no matrix of floats.
    """
    head = model.get_output_embeddings()
    weight = getattr(head, "weight", None)
    if not isinstance(weight, torch.Tensor):
        raise UnsupportedHeadError("the model has no output embeddings with a weight")
    if getattr(head, "bias", None) is not None:
        raise UnsupportedHeadError("the head has a bias")
    if weight.dim() != 2 or weight.dtype not in digest.DTYPES:  # noqa: PLR2004  # a matrix
        raise UnsupportedHeadError(f"the head's weight is {weight.dtype} {tuple(weight.shape)}, it may be quantised")
    return weight.detach()


def _mean(weight: torch.Tensor, progress: Progress) -> torch.Tensor:
    """The mean row, float32; and that every number is finite."""
    total = torch.zeros(weight.shape[1], dtype=torch.float64)
    for start, block in _blocks(weight, partial(progress, "mean")):
        wide = block.to(torch.float64)
        sound = wide.isfinite().all(1)
        if not bool(sound.all()):
            first = start + int((~sound).int().argmax())
            raise BadInputError(f"the head has NaN or infinity in {int((~sound).sum())} rows or more, as in {first}.")
        total += wide.sum(0)
    return (total / weight.shape[0]).to(torch.float32)


def _blocks(weight: torch.Tensor, progress: Callable[[int, int], None]) -> Iterator[tuple[int, torch.Tensor]]:
    """The rows in blocks, on the CPU, with the first row's id, a multiple of 64."""
    rows = max(1, _BLOCK_NUMBERS // weight.shape[1] // BLOCK) * BLOCK
    for start in range(0, weight.shape[0], rows):
        yield start, weight[start : start + rows].detach().cpu()
        progress(min(start + rows, weight.shape[0]), weight.shape[0])
