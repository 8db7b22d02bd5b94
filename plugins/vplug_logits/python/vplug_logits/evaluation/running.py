"""From a model to the document: states, sketches and clusters, methods, results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from vplug_logits import build
from vplug_logits.calibrate import calibrate
from vplug_logits.clusters import balanced_clusters
from vplug_logits.config import DEFAULTS, SEED, Config, Mode
from vplug_logits.evaluation import baselines, curves
from vplug_logits.evaluation.measuring import measure
from vplug_logits.evaluation.modes import HeadMethod
from vplug_logits.evaluation.report import SCHEMA, by_domain, by_source, sources, summary
from vplug_logits.evaluation.states import collect
from vplug_logits.evaluation.traffic import Shape
from vplug_logits.kernels import choose
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from vplug_logits.evaluation.curves import Curve
    from vplug_logits.evaluation.measures import Method, Results
    from vplug_logits.evaluation.states import States
    from vplug_logits.evaluation.texts import Text
    from vplug_logits.sketch import Clusters, Sketch

CURVE_BITS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an evaluation is to do.

    Attributes:
        modes: Which modes are measured; baselines beside them.
        states: How many.
        seed: Of the states, the calibration and the builds.
        quick: No curves.
    """

    modes: tuple[Mode, ...] = tuple(Mode)
    states: int = 20_000
    seed: int = SEED
    quick: bool = False


class _Made:
    """What methods and curves are made of, each built once, when it is first asked for."""

    def __init__(self, weight: torch.Tensor, moment: torch.Tensor, wanted: Wanted, progress: Progress) -> None:
        self._weight, self._moment, self._wanted, self._progress = weight, moment, wanted, progress
        self._sketches: dict[int, Sketch] = {}
        self._clusters: dict[str, Clusters] = {}

    def sketch(self, bits: int) -> Sketch:
        if bits not in self._sketches:
            seed, told = self._wanted.seed, partial(_named, self._progress, f"{bits} bit")
            self._sketches[bits] = build.build(self._weight, self._moment, bits, seed=seed, progress=told)
        return self._sketches[bits]

    def clusters(self) -> Clusters:
        if "weighted" not in self._clusters:
            seed = self._wanted.seed
            made = build.build_clusters(self._weight, self._moment, seed=seed, progress=self._progress)
            self._clusters["weighted"] = made
        return self._clusters["weighted"]

    def cosine(self) -> Clusters:
        if "cosine" not in self._clusters:
            told = partial(self._progress, "cosine")
            made = balanced_clusters(self._weight, kind="cosine", seed=self._wanted.seed, progress=told)
            self._clusters["cosine"] = made
        return self._clusters["cosine"]

    def method(self, mode: Mode) -> HeadMethod:
        config = Config.of(mode)
        if mode is Mode.CLUSTERS:
            return HeadMethod(self._weight, config, clusters=self.clusters())
        if mode is Mode.DENSE:
            return HeadMethod(self._weight, config)
        return HeadMethod(self._weight, config, sketch=self.sketch(DEFAULTS[mode].bits))


def run(  # noqa: PLR0913  # what is evaluated, and how
    model: Any,
    tokenizer: Any,
    texts: Sequence[Text],
    wanted: Wanted,
    *,
    name: str,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Evaluate a model.

    Args:
        model: A causal language model of transformers, on the CPU.
        tokenizer: Its tokenizer.
        texts: One for each domain.
        wanted: What to do.
        name: What the model is called in the report.
        progress: Called with the name of each step.

    Returns:
        The document; docs/evaluation.md says what each field is.

    Raises:
        UnsupportedHeadError: The head has a bias, is quantised or of an unknown kind.
        BuildError: The model fails, or gives no states.
    """
    model.eval()
    weight = build.head_weight(model)
    calibration = calibrate(model, seed=wanted.seed, progress=progress)
    states = collect(model, tokenizer, texts, count=wanted.states, seed=wanted.seed, progress=progress)
    return evaluate(weight, calibration.moment, states, wanted, name=name, progress=progress)


def evaluate(  # noqa: PLR0913  # what is evaluated, and how
    weight: torch.Tensor,
    moment: torch.Tensor,
    states: States,
    wanted: Wanted,
    *,
    name: str,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Evaluate a head on given states.

    Args:
        weight: The live weight `(V, d)`.
        moment: float64 `(d, d)`: E[h h^T] of the calibration.
        states: In the dtype of the weight.
        wanted: What to do.
        name: As for `run`.
        progress: As for `run`.

    Returns:
        As `run`.
    """
    made = _Made(weight, moment, wanted, progress)
    methods = _methods(weight, made, wanted)
    varied = _curves(made, wanted, weight.device)
    measured = measure(weight, states, methods, varied, progress=progress)
    return {
        "schema": SCHEMA,
        "model": name,
        "vocabulary": weight.shape[0],
        "width": weight.shape[1],
        "dtype": str(weight.dtype).removeprefix("torch."),
        "seed": wanted.seed,
        "states": len(states),
        "sources": sources(states),
        "dense_bytes": Shape(*weight.shape).dense,
        "methods": [_told(method, measured.results[method.name], states) for method in methods],
        "curves": [
            {"name": curve.name, "points": curves.misses(curve, measured.ranks[curve.name])} for curve in varied
        ],
    }


def _methods(weight: torch.Tensor, made: _Made, wanted: Wanted) -> list[Method]:
    """The modes, the dense baselines, and beside mode `clusters` the cosine rule that reads no more bytes."""
    methods: list[Method] = [made.method(mode) for mode in wanted.modes]
    methods += [baselines.dense_bfloat16(weight), baselines.int8(weight), baselines.int4(weight)]
    if Mode.CLUSTERS in wanted.modes:
        clusters = made.clusters().members
        rows = Config.of(Mode.CLUSTERS).probes(len(clusters)) * clusters.shape[1]
        allowed = Shape(*weight.shape).clusters(len(clusters), rows, centroid_bytes=1)
        methods.append(baselines.cosine_clusters(weight, made.cosine(), allowed))
    return methods


def _curves(made: _Made, wanted: Wanted, device: torch.device) -> list[Curve]:
    if wanted.quick:
        return []
    varied: list[Curve] = [curves.SketchCurve(made.sketch(bits), choose(device)) for bits in CURVE_BITS]
    if Mode.CLUSTERS in wanted.modes:
        varied.append(curves.ClusterCurve("clusters", made.clusters()))
        varied.append(curves.ClusterCurve("cosine-clusters", made.cosine()))
    return varied


def _told(method: Method, results: Results, states: States) -> dict[str, Any]:
    whole = summary(results)
    read = method.read(whole["rescored_mean"] or 0.0, whole["fallback_rate"] or 0.0)
    return {
        "name": method.name,
        "kind": method.kind,
        "bytes": read,
        "all": whole,
        "domains": by_domain(results, states),
        "sources": by_source(results, states),
    }


def _named(progress: Progress, name: str, step: str, done: int, total: int) -> None:
    progress(f"{name} {step}", done, total)
