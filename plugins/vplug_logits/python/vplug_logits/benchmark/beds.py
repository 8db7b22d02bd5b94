"""The heads that are measured: a model's own, and random ones of the shapes of real models.

A random head has independent Gaussian rows. Its states are Gaussian, but each points so far towards one row that the
logit of that row stands out by `STANDING` standard deviations of the others, as winners of real heads do: speed depends
on how many rows come near the winner. Nothing about accuracy is claimed of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch

from vplug_logits import artefact, build, digest
from vplug_logits import cache as artefacts
from vplug_logits.benchmark.names import RANDOM
from vplug_logits.calibrate import Calibration, calibrate
from vplug_logits.config import SEED, Config, Mode
from vplug_logits.errors import ArtefactError
from vplug_logits.evaluation.states import collect
from vplug_logits.evaluation.texts import shipped, tokenizer
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from vplug_logits.sketch import Clusters, Sketch

SHAPES = ((49_152, 576), (262_144, 640), (128_256, 2_048))
"""(V, d) of SmolLM2-135M, Gemma-3-270M and Llama-3.2-1B."""
STATES = 64
STANDING = 6.5


@dataclass(frozen=True)
class Bed:
    """One head and what is asked of it.

    Attributes:
        identity: What its artefacts are kept under: a model's folder or hub id, or the name of a random head.
        source: For people: the model's name, or "random".
        weight: float32 `(V, d)`.
        states: float32 `(N, d)`.
        calibration: What sketches are made with.
        cache: The folder of artefacts, or None: the user's cache.
        progress: Called with the name of each step of a build.
    """

    identity: str
    source: str
    weight: torch.Tensor
    states: torch.Tensor
    calibration: Calibration
    cache: str | None = None
    progress: Progress = silent
    _sketches: dict[int, Sketch] = field(default_factory=dict)

    @property
    def vocabulary(self) -> int:
        """V."""
        return self.weight.shape[0]

    @property
    def width(self) -> int:
        """Of a state: d."""
        return self.weight.shape[1]

    def sketch(self, bits: int) -> Sketch:
        """The sketch of so many bits: kept from an earlier run, else built and kept."""
        if bits not in self._sketches:
            self._sketches[bits] = self._kept(Config.of(Mode.FAST, bits=bits, cache=self.cache)).sketch
        return self._sketches[bits]

    def clusters(self) -> Clusters:
        """Its clusters, likewise; building them takes minutes."""
        clusters = self._kept(Config.of(Mode.CLUSTERS, cache=self.cache)).clusters
        assert clusters is not None
        return clusters

    def _kept(self, config: Config) -> artefact.Artefact:
        path = artefacts.place(self.identity, config, dtype="float32")
        with artefacts.locked(path):
            try:
                return self._read(path)
            except ArtefactError:  # there is none, or of other weights
                self._write(path, config)
        return self._read(path)

    def _read(self, path: str) -> artefact.Artefact:
        found = artefact.read(path)
        artefact.check(found, self.weight)
        return found

    def _write(self, path: str, config: Config) -> None:
        told = partial(_named, self.progress, f"{config.bits} bit")
        moment = self.calibration.moment
        sketch = build.build(self.weight, moment, config.bits, progress=told)
        clusters = build.build_clusters(self.weight, moment, progress=told) if config.needs_clusters else None
        artefact.write(
            path,
            sketch,
            digests=digest.of_rows(self.weight),
            seed=SEED,
            dtype="float32",
            source=artefacts.readable(self.identity),
            positions=self.calibration.positions,
            clusters=clusters,
            states=self.calibration.states,
        )


def random(
    vocabulary: int, width: int, *, seed: int = SEED, cache: str | None = None, progress: Progress = silent
) -> Bed:
    """A random head.

    Args:
        vocabulary: V.
        width: d.
        seed: Of rows and states.
        cache: As in `Bed`.
        progress: As in `Bed`.
    """
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(vocabulary, width, generator=generator).div_(math.sqrt(width))
    rows = weight[torch.randint(vocabulary, (STATES,), generator=generator)]
    towards = rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    states = torch.randn(STATES, width, generator=generator)
    states += (STANDING - (states * towards).sum(1, keepdim=True)) * towards
    name = f"random-{vocabulary}x{width}-seed{seed}"
    calibration = Calibration(torch.eye(width, dtype=torch.float64), states, positions=0)
    return Bed(name, RANDOM, weight, states, calibration, cache, progress)


def of_model(model: str, *, cache: str | None = None, progress: Progress = silent) -> Bed:
    """A model's own head, over states of the texts that come with the package.

    Args:
        model: A folder or a hub id that is in the local cache.
        cache: As in `Bed`.
        progress: As in `Bed`.

    Raises:
        LogitsError: It cannot be loaded or run, or its head is not supported.
    """
    loaded = build.load(model, dtype="float32").eval()
    weight = build.head_weight(loaded)
    calibration = calibrate(loaded, progress=progress)
    states = collect(loaded, tokenizer(model), shipped(), count=STATES, progress=progress).states.clone()
    return Bed(model, artefacts.readable(model), weight, states, calibration, cache, progress)


def _named(progress: Progress, name: str, step: str, done: int, total: int) -> None:
    progress(f"{name} {step}", done, total)
