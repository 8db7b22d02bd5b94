"""A step of a head in three launches, without asking the host anything.

    1. transform    h' = h T, as float16 of a common power of two; scratch is zeroed
    2. scan         estimates of all rows, and a histogram of the best of each few rows
    3. rescore      the buckets of the R best, then what the window lets in, then what is written

**Which rows are rescored.**  Those in the buckets down to the one that holds the R-th best group of rows: at least the
R best, and so many more as a bucket and a group hold (3 to 19 % for vocabularies of 32,000 to 262,144 normal or
heavy-tailed estimates).  Then the window, exactly as in `greedy`: upper_i >= L - margin with L the best exact logit of
those rows.  L is known when the last program of a state has rescored its share, and that program, which waits for
nobody, does the rest.  Mostly there is none: at 2 bits the window of `safe` holds 40 rows on average for SmolLM2-135M
(99 of 100 states: at most 312) and 120 for Gemma-3-270M (1,339), where R is 512.  So no certainty is lost against the
torch backend: the window is placed by an exact logit, not by a bound of it.

**What estimates may be off by**, besides what the codes lose.  With u = 2^-24:

    codes          are exact in float16, and h' is rounded to it: the loss is measured, |q_i| |h' - fp16 h'|
    scan           a sum of d exact products on tensor cores, which add in groups of at least 4 and cut off where
                   float32 rounds: each product and each partial sum loses at most 2u of sum |u_k h'_k| <= |u_i| |h'|,
                   together 2.5 d u |q_i| |h'|
    transform      each product passes at most d / 32 + 64 additions, in float32: (65 + d / 32) u |h| |T_j| for column
                   j, together (65 + d / 32) u |h| |T|_F |q_i|
    mean . h       (64 + d / 16) u |h| |mean|
    exact logit    as everywhere: 8 sqrt(d) u |h| max |w_i|

All but the last are bounds.  Their sum is `slack`; it is in the window and in what counts as drift.

**What the host has to read.**  A state that cannot be answered in two stages (`Outcome.status` is not 0) must be
answered densely, and whether there is one is known on the device only.  `TritonStep.run` returns without waiting;
whoever hands logits on calls `Outcome.read()` first, which waits for the step: one small copy.  There is no way to
leave that to the next step: wrong tokens would have been drawn by then.

**A shard of a vocabulary** is answered by itself: its R best hold those of the R best of the whole vocabulary that are
here, and its window, placed by its own best logit, those of the whole one's.  So processes rescore a few rows more than
one would, and need no collective call for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
import triton  # type: ignore[import-untyped]

from vplug_logits.errors import BadInputError
from vplug_logits.kernels import triton_ops as ops
from vplug_logits.sketch import BLOCK, longest_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.sketch import Sketch

MOST = 64
"""States of one launch; more are answered in portions."""
FLAGS = {ops.STATES: "states", ops.OVERFLOW: "overflow", ops.WINDOW: "window", ops.DRIFT: "drift"}
"""Bits of `Outcome.status` and their slugs (`counters.REASONS`), the first one first."""

_UNIT = 2.0**-24
_LATE = 2048
_TENSOR = 16  # the fewest columns of a product on tensor cores
_TOGETHER, _PRODUCTS = 8, 8192  # of a program of the transform: states at most, products at a time
_TILE, _GATHER, _TILES = 256, 4, 1024
_PROGRAMS = 4096  # of the third launch, about
_REACH = 15  # g is at most 2^15: float16 ends just below 2^16
_LONGER = 1.0 + 2.0**-16  # more than float32 loses in the length of a vector
_PART = 1 << 22  # numbers of the weight that are looked at at once


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of each state.

    Attributes:
        table: int32 `(3, n)`, on the device; it holds until the next step.
    """

    table: torch.Tensor

    @property
    def status(self) -> torch.Tensor:
        """Int32 `(n,)`: 0, or bits of `FLAGS`."""
        return self.table[0]

    @property
    def rescored(self) -> torch.Tensor:
        """Int32 `(n,)`: rows that were scored exactly."""
        return self.table[1]

    @property
    def clipped(self) -> torch.Tensor:
        """Int32 `(n,)`: estimates that were lowered."""
        return self.table[2]

    def read(self) -> list[tuple[str | None, int, int]]:
        """Wait for the step: why each state must be answered densely (None: it need not), rescored, clipped rows."""
        return [
            (_slug(status), rescored, clipped) for status, rescored, clipped in zip(*self.table.tolist(), strict=True)
        ]


class TritonStep:
    """The fused step of one head.  One caller at a time; steps of one head follow each other on one stream.

    Attributes:
        dtype: Of the logits.
        vocabulary: V, the rows that are answered for.
    """

    def __init__(  # noqa: PLR0913  # keywords, each for something else
        self,
        weight: torch.Tensor,
        sketch: Sketch,
        *,
        rows: int,
        limit: int,
        share: float | None,
        possible: float,
        dtype: torch.dtype | None = None,
        outside: Literal["estimates", "-inf"] = "estimates",
        cap: float | None = None,
        graphs: bool = True,
    ) -> None:
        """Look at each row of the weight once, for its length.  Nothing of the weight is copied.

        Args:
            weight: The live weight, `(rows, d)` of float32, bfloat16 or float16, numbers of a row side by side.
            sketch: Of its first V rows, on its device.
            rows: R, the best rows that are rescored in any case.
            limit: Rows of a state that are rescored at most; 2 R where that is more, since buckets hold more than R.
                Of them the last program rescores 2,048 at most: beyond, a dense product is quicker.
            share: The window as a share of the bound that always holds; None: there is none (`Parts.share`).
            possible: The share of it beyond which no exact logit is believed (`Parts.possible`).
            dtype: Of the logits; None: the weight's.
            outside: What stands for the logits of rows that were not rescored.
            cap: The soft cap that the host applies afterwards (`After.cap`).
            graphs: Replay CUDA graphs, on a CUDA device; else launch each time.

        Raises:
            BadInputError: A weight and a sketch that do not fit each other, or these kernels.
        """
        _fits(weight, sketch)
        self.dtype = weight.dtype if dtype is None else dtype
        self._weight, self._sketch, self.vocabulary = weight, sketch, sketch.vocabulary
        self._bounds = _Bounds.of(weight, sketch)
        self._residual, self._scale, self._mean = sketch.residual, sketch.scale, sketch.mean
        self._codes = sketch.codes.view(torch.int32).reshape(sketch.codes.shape[0], -1, BLOCK)
        self._matrix = sketch.transform
        wanted = max(1, min(rows, sketch.vocabulary))
        self._wanted, self._limit = wanted, max(limit, 2 * wanted)
        self._group = next((size for size in (16, 4) if sketch.vocabulary >= 2 * wanted * size), 1)
        self._share, self._possible = share, possible
        self._outside, self._cap = outside, cap
        self._graphs = graphs and weight.device.type == "cuda"
        self._scratch: dict[int, _Scratch] = {}
        self._numbers: dict[int, int] = {}  # what `_Scratch.number` holds
        self._replays: dict[tuple[int, torch.dtype, float], _Replay] = {}

    def run(self, states: torch.Tensor, out: torch.Tensor, lost: float | None = None) -> Outcome:
        """Answer states; returns before the device is done.

        Args:
            states: `(n, d)` of float32, bfloat16 or float16, n at least 1, numbers of a state side by side.
            out: `(n, V)` in the dtype of the logits, or the first V columns of more; overwritten.  What is written for
                a state whose status is not 0 means nothing.
            lost: The share of |h| |w| by which the dense head, and an exact logit here, may be wrong; None: what sums
                in float32 lose.

        Raises:
            BadInputError: Shapes, strides or dtypes that the kernels do not read.
        """
        self._checked(states, out)
        tables = []
        for start in range(0, states.shape[0], MOST):
            part = states[start : start + MOST]
            self._portion(part, out[start : start + MOST], self._bounds.lost if lost is None else lost)
            tables.append(self.scratch(_padded(part.shape[0])).outcome[:, : part.shape[0]])
            if states.shape[0] > MOST:  # the next portion works in the same scratch
                tables[-1] = tables[-1].clone()
        return Outcome(tables[0] if len(tables) == 1 else torch.cat(tables, dim=1))

    def _portion(self, states: torch.Tensor, out: torch.Tensor, lost: float) -> None:
        many, size = states.shape[0], _padded(states.shape[0])
        if self._numbers.get(size) != many:
            self.scratch(size).number.fill_(many)
            self._numbers[size] = many
        if not self._graphs:
            for launch in self.launches(states, out, size, lost):
                launch()
            return
        key = size, states.dtype, lost
        if key not in self._replays:
            self._replays[key] = _Replay(self, states, size, lost)
        self._replays[key].run(states, out)

    def scratch(self, size: int) -> _Scratch:
        """What a step of so many states works in.

        Args:
            size: A power of two, at most `MOST`.
        """
        if size not in self._scratch:
            self._scratch[size] = _Scratch.of(self._sketch, size)
        return self._scratch[size]

    def launches(
        self, states: torch.Tensor, out: torch.Tensor, size: int, lost: float | None = None
    ) -> list[Callable[[], Any]]:
        """The three launches of a step, in order, one call each; `scratch(size).number` says how many states there are.

        Args:
            states: As for `run`, at least as many as `number` says.
            out: As for `run`.
            size: Of the scratch.
            lost: As for `run`.
        """
        sketch, bounds, scratch = self._sketch, self._bounds, self.scratch(size)
        padded = max(size, _TENSOR)
        vocabulary, width, blocks = sketch.vocabulary, sketch.width, self._codes.shape[0]
        lanes, half = self._codes.shape[1], scratch.queries.shape[2]
        programs = scratch.partials.shape[1]
        tiles = scratch.highest.shape[1]
        info = torch.finfo(self.dtype)
        of_state = bounds.of_state + 2.0 * (bounds.lost if lost is None else lost) * bounds.longest

        def transform() -> None:
            together, columns = min(size, _TOGETHER), _columns(size)
            ops.transform_fwd_kernel[(programs, size // together)](
                states, states.stride(0), self._matrix, self._mean, scratch.number, scratch.queries, scratch.partials,
                scratch.grow, scratch.flags, scratch.histogram, scratch.tickets, scratch.best, scratch.count,
                bounds.down, width, 4 * lanes, half,
                BITS=sketch.bits, N=padded, S=together, BK=max(32, _PRODUCTS // (together * columns)), BN=columns,
                ZERO=1024,
                num_warps=8,
            )  # fmt: skip

        def scan() -> None:
            ops.scan_fwd_kernel[lambda meta: (triton.cdiv(blocks, meta["BLOCKS"]),)](
                self._codes, self._scale, scratch.number, scratch.queries, scratch.partials, scratch.grow,
                scratch.estimates, scratch.histogram, scratch.constants,
                sketch.unit * 2.0**sketch.bits / bounds.down, _LONGER / bounds.down,
                of_state, bounds.of_transformed, bounds.of_lost, bounds.spread, bounds.smallest,
                vocabulary, width, blocks, lanes, half, programs,
                BITS=sketch.bits, N=padded, PARTIALS=triton.next_power_of_2(programs), GROUP=self._group,
            )  # fmt: skip

        def rescore() -> None:
            ops.rescore_fwd_kernel[(max(1, min(tiles, _PROGRAMS // size)), size)](
                states, states.stride(0), self._weight, self._weight.stride(0), self._residual, scratch.number,
                scratch.estimates, scratch.histogram, scratch.constants, out, out.stride(0), scratch.highest,
                scratch.flags, scratch.tickets, scratch.best, scratch.count,
                scratch.outcome[0], scratch.outcome[1], scratch.outcome[2],
                (self._share or 0.0) * sketch.unit, self._possible * sketch.unit, self._cap or 1.0,
                vocabulary, width, self._wanted, self._limit, _LATE, tiles,
                N=padded, WINDOWED=self._share is not None, OUTSIDE=self._outside == "estimates",
                CAP=self._cap is not None, EPSILON=info.eps, TINY=info.tiny,
                ROWS=_TILE, GATHER=_GATHER, BD=min(512, triton.next_power_of_2(width)), TILES=_TILES,
                num_warps=4,
            )  # fmt: skip

        return [transform, scan, rescore]

    def _checked(self, states: torch.Tensor, out: torch.Tensor) -> None:
        weight, vocabulary = self._weight, self._sketch.vocabulary
        if states.dim() != 2 or states.shape[0] < 1 or states.shape[1] != weight.shape[1] or states.stride(1) != 1:  # noqa: PLR2004
            raise BadInputError(
                f"states of shape {tuple(states.shape)} and strides {states.stride()} are not what the kernels read; "
                f"hand over (n, {weight.shape[1]}) with the numbers of a state side by side."
            )
        if (
            out.dtype != self.dtype
            or out.shape[0] != states.shape[0]
            or out.shape[1] < vocabulary
            or out.stride(1) != 1
        ):
            raise BadInputError(
                f"logits of shape {tuple(out.shape)}, strides {out.stride()} and {out.dtype} cannot be written; hand "
                f"over ({states.shape[0]}, {vocabulary} or more) of {self.dtype}, numbers of a state side by side."
            )
        if {states.device, out.device} != {weight.device} or states.dtype not in _DTYPES:
            raise BadInputError(
                f"states of {states.dtype} on {states.device} and logits on {out.device} do not fit a head on "
                f"{weight.device}; hand over float32, bfloat16 or float16 there."
            )


_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Numbers of a head that the kernels need; the head of the module derives them."""

    down: float
    lost: float
    longest: float
    of_state: float
    of_transformed: float
    of_lost: float
    spread: float
    smallest: float

    @classmethod
    def of(cls, weight: torch.Tensor, sketch: Sketch) -> _Bounds:
        width = sketch.width
        columns = torch.linalg.vector_norm(sketch.transform.to(torch.float64), dim=0)
        whole = float(torch.linalg.vector_norm(columns))
        mean = float(torch.linalg.vector_norm(sketch.mean))
        longest = max(
            (
                float(torch.linalg.vector_norm(part, dim=1, dtype=torch.float32).amax())
                for part in torch.split(weight[: sketch.vocabulary].detach(), max(1, _PART // width))
            ),
            default=0.0,
        )
        code = longest_code(sketch)
        if not math.isfinite(longest + mean + code + whole):
            raise BadInputError("the weight of the head, or its sketch, holds NaN, infinity or rows too long.")
        # |h'_j| <= |h| |T_j| <= 2 sqrt(d) 2^x |T_j|
        reach = 2.0 * math.sqrt(width) * float(columns.amax())
        down = 2.0 ** (_REACH - math.frexp(reach)[1]) if reach > 0 else 1.0
        return cls(
            down=down,
            lost=4.0 * math.sqrt(width) * _UNIT,
            longest=longest + mean,
            of_state=(65 + width / 32) * _UNIT * whole * code + (64 + width / 16) * _UNIT * mean,
            of_transformed=(2.5 * width + 16) * _UNIT * code,
            of_lost=code,
            spread=max(code / math.sqrt(width), 1e-30),
            smallest=2.0**-100 * max(1.0, longest, code * whole),
        )


@dataclass(frozen=True, slots=True)
class _Scratch:
    """Static buffers of one padded number of states; `triton_ops` says what is in them."""

    number: torch.Tensor
    queries: torch.Tensor
    partials: torch.Tensor
    grow: torch.Tensor
    estimates: torch.Tensor
    histogram: torch.Tensor
    constants: torch.Tensor
    highest: torch.Tensor
    flags: torch.Tensor
    tickets: torch.Tensor
    best: torch.Tensor
    count: torch.Tensor
    outcome: torch.Tensor

    @classmethod
    def of(cls, sketch: Sketch, size: int) -> _Scratch:
        device, lanes, padded = sketch.codes.device, sketch.codes.shape[1], max(size, _TENSOR)

        def floats(*shape: int) -> torch.Tensor:
            return torch.empty(shape, dtype=torch.float32, device=device)

        def whole(*shape: int) -> torch.Tensor:
            return torch.empty(shape, dtype=torch.int32, device=device)

        half = 2 * ops.LANES * -(-lanes // ops.LANES)
        return cls(
            number=whole(1),
            # The kernels write the coordinates alone: what pads them stays zero.
            queries=torch.zeros(padded, 16 // sketch.bits, half, dtype=torch.float16, device=device),
            partials=floats(4, -(-sketch.width // _columns(size)), padded),
            grow=floats(padded),
            estimates=floats(size, sketch.vocabulary),
            histogram=whole(padded, ops.BUCKETS),
            constants=floats(4, padded),
            highest=floats(size, -(-sketch.vocabulary // _TILE)),
            flags=whole(2, padded),
            tickets=whole(padded),
            best=floats(padded),
            count=whole(padded),
            outcome=whole(3, padded),
        )


class _Replay:
    """The CUDA graph of one padded number of states: its own states and logits, and the three launches on them."""

    def __init__(self, step: TritonStep, states: torch.Tensor, size: int, lost: float) -> None:
        """Launch once, which compiles and tunes, then capture."""
        many, device = states.shape[0], states.device
        self._states = states.new_zeros(size, states.shape[1])
        self._out = states.new_empty(size, step.vocabulary, dtype=step.dtype)
        self._states[:many].copy_(states)
        launches = step.launches(self._states, self._out, size, lost)
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for launch in launches:
                launch()
        torch.cuda.current_stream(device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        # Other threads of the host may go on calling CUDA meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            for launch in launches:
                launch()

    def run(self, states: torch.Tensor, out: torch.Tensor) -> None:
        """One step: the states are copied in, the logits out, so that the caller's are not overwritten by the next."""
        many = states.shape[0]
        self._states[:many].copy_(states)
        self._graph.replay()
        out[:, : self._out.shape[1]].copy_(self._out[:many])


def _columns(size: int) -> int:
    """Columns of T of one program: few for few states, which then are more programs, and many partial sums."""
    return min(64, max(16, 2 * size))


def _padded(many: int) -> int:
    """The power of two that so many states are padded to."""
    return 1 << (many - 1).bit_length()


def _slug(status: int) -> str | None:
    return next((slug for bit, slug in FLAGS.items() if status & bit), None)


def _fits(weight: torch.Tensor, sketch: Sketch) -> None:
    if (
        weight.dim() != 2  # noqa: PLR2004
        or weight.dtype not in _DTYPES
        or weight.stride(1) != 1
        or weight.shape[1] != sketch.width
        or not 0 < sketch.vocabulary <= weight.shape[0]
        or {sketch.codes.device, sketch.scale.device, sketch.transform.device} != {weight.device}
        or not sketch.codes.is_contiguous()
    ):
        raise BadInputError(
            f"a sketch of {sketch.vocabulary} x {sketch.width} on {sketch.codes.device} and a weight of shape "
            f"{tuple(weight.shape)}, strides {weight.stride()} and {weight.dtype} on {weight.device} do not fit each "
            "other or the kernels; build the sketch of this head, of rows whose numbers lie side by side."
        )
