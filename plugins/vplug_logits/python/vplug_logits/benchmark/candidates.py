"""The table of what is timed: every mode, on every path of our kernels, and the baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.benchmark import baselines
from vplug_logits.benchmark.names import (
    BASELINE,
    BFLOAT16,
    FLOAT32,
    INT4,
    INT8,
    MODE,
    READ,
    TOP,
    TORCH,
    TORCH_AO,
    TORCH_INT8,
)
from vplug_logits.config import AUTO, Config, Mode
from vplug_logits.head import Head
from vplug_logits.kernels import choose

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.benchmark.beds import Bed
    from vplug_logits.config import BackendName
    from vplug_logits.kernels import Backend
    from vplug_logits.sketch import Sketch

_RAW = "8 bit raw"  # codes of the rows as they are, in no metric
_ROUNDING = 0.1  # of few states, that a head of 8 or 16 bits may decide otherwise: 2.5 % do on a real model
_COARSE = 0.5  # the same for 4 bits, and for states in 7 bits with one scale for all of them: 20 %
_FEW = 0.05  # for modes that promise nothing: 0.1 %


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that is timed.

    Attributes:
        name: What it is; candidates of one name and path are ways to do the same, and the fastest one counts.
        path: Which instructions: those of a backend, or torch's.
        kind: `mode`, `baseline` or `read`.
        answer: States `(n, d)` -> logits `(n, V)`; of `read`, anything.
        allowed: The share of states whose winner may be another one than dense's, before it is taken to be broken.
        bytes: That it reads at least: its codes, or the weight.
        codes: The name of the bytes that it scans: whose plain reading is its limit; empty: none is measured.
        way: Which of the ways to do it.
        dtype: Of the states that it gets.
        head: The head, for modes.
    """

    name: str
    path: str
    kind: str
    answer: Callable[[torch.Tensor], Any]
    allowed: float
    bytes: int
    codes: str = ""
    way: str = ""
    dtype: torch.dtype = torch.float32
    head: Head | None = None


def paths(wanted: BackendName = AUTO) -> dict[str, Backend]:
    """Our backends by the instructions that they use, the best one first.

    Args:
        wanted: `auto`, or a name.

    Raises:
        BackendError: The one that is named cannot serve.
    """
    best: Any = choose(torch.device("cpu"), wanted)
    if best.name != "cpu":
        return {f"{best.name} operations": best}
    narrower = {"avx512": ("avx2",)}.get(best.isa, ())
    return {best.isa: best} | {isa: type(best)(isa=isa) for isa in narrower}


def table(bed: Bed, backends: dict[str, Backend], *, clusters: bool = False) -> list[Candidate]:
    """All candidates for one head.

    Args:
        bed: The head.
        backends: From `paths`.
        clusters: Mode `clusters` too, whose clusters take a minute or more to build.
    """
    sketches = {f"{bits} bit": bed.sketch(bits) for bits in (1, 2, 4, 8)}
    sketches[_RAW] = baselines.own_int8(bed.weight)
    found = [*_dense(bed), *_modes(bed, backends, sketches)]
    if clusters:
        found += _clusters(bed, backends)
    found += _quantised(backends, sketches)
    return found + [reader for codes, sketch in sketches.items() for reader in _readers(codes, sketch)]


def _dense(bed: Bed) -> list[Candidate]:
    weight, linear = bed.weight, torch.nn.functional.linear
    half = weight.to(torch.bfloat16)
    size = weight.numel()
    plain = Candidate(FLOAT32, TORCH, BASELINE, lambda states: linear(states, weight), 0.0, 4 * size)
    halved = Candidate(
        BFLOAT16, TORCH, BASELINE, lambda states: linear(states, half), _ROUNDING, 2 * size, dtype=torch.bfloat16
    )
    ways = [
        Candidate(TORCH_INT8, TORCH, BASELINE, answer, _ROUNDING, size, way=way, dtype=dtype)
        for way, (answer, dtype) in baselines.torch_int8(weight).items()
    ]
    dynamic = [
        Candidate(TORCH_AO, TORCH, BASELINE, answer, _COARSE, size, way=engine)
        for engine, answer in baselines.torch_ao(weight).items()
    ]
    return [plain, halved, *ways, *dynamic]


def _modes(bed: Bed, backends: dict[str, Backend], sketches: dict[str, Sketch]) -> list[Candidate]:
    wanted = {
        Mode.EXACT.value: (Config.of(Mode.EXACT), 0.0),
        Mode.SAFE.value: (Config.of(Mode.SAFE), 0.0),
        TOP: (Config.of(Mode.FAST, bits=2, rows=128), _FEW),
        Mode.FAST.value: (Config.of(Mode.FAST), _FEW),
    }
    found = []
    for path, backend in backends.items():
        for name, (config, allowed) in wanted.items():
            codes = f"{config.bits} bit"
            head = Head(bed.weight, config, sketch=sketches[codes], backend=backend)
            size = sketches[codes].codes.numel()
            found.append(Candidate(name, path, MODE, head.logits, allowed, size, codes, head=head))
    return found


def _clusters(bed: Bed, backends: dict[str, Backend]) -> list[Candidate]:
    groups, found = bed.clusters(), []
    for path, backend in backends.items():
        head = Head(bed.weight, Config.of(Mode.CLUSTERS), clusters=groups, backend=backend)
        size = groups.centroids.numel()
        found.append(Candidate(Mode.CLUSTERS.value, path, MODE, head.logits, _COARSE, size, head=head))
    return found


def _quantised(backends: dict[str, Backend], sketches: dict[str, Sketch]) -> list[Candidate]:
    """Dense heads in fewer bits through our own scan: every row is an estimate, none is scored exactly."""
    found = []
    for path, backend in backends.items():
        for name, codes, allowed in ((INT8, _RAW, _ROUNDING), (INT4, "4 bit", _COARSE)):
            sketch = sketches[codes]
            answer = _scan(backend, sketch, raw=codes == _RAW)
            found.append(Candidate(name, path, BASELINE, answer, allowed, sketch.codes.numel(), codes))
    return found


def _scan(backend: Any, sketch: Sketch, *, raw: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """The estimates of a sketch as logits; the mean row, which adds the same to all, is left out.

    Raw rows are in no metric, so states need no transform; a plain int8 head has one int8 for each of their numbers.
    """
    if not raw:
        return lambda states: backend.scan(sketch, backend.transform(sketch, states))[0]
    if hasattr(backend, "scan_as_int8"):
        return lambda states: backend.scan_as_int8(sketch, states)
    return lambda states: backend.scan(sketch, states)[0]


def _readers(codes: str, sketch: Sketch) -> list[Candidate]:
    size = sketch.codes.numel()
    return [
        Candidate(f"read {codes}", TORCH, READ, read, 1.0, size, codes, way)
        for way, read in baselines.readers(sketch.codes).items()
    ]
