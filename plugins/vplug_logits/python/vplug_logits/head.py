"""The head: states in, real logits of the whole vocabulary out, exact where it matters."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import torch

from vplug_logits import digest, greedy, sampling
from vplug_logits.after import After
from vplug_logits.config import CLUSTER_SIZE, Mode
from vplug_logits.counters import Counters, Step
from vplug_logits.errors import BadInputError
from vplug_logits.estimates import ClusterEstimates, SketchEstimates
from vplug_logits.kernels.registry import Choice, chosen
from vplug_logits.kernels.rules import OUTCOMES
from vplug_logits.peers import Alone
from vplug_logits.rounds import Parts, Round

if TYPE_CHECKING:
    from collections.abc import Callable

    from vplug_logits.config import Config
    from vplug_logits.kernels import Backend
    from vplug_logits.kernels.rules import Fused, Report
    from vplug_logits.peers import Peers
    from vplug_logits.sketch import Clusters, Sketch

_SCRATCH = 32 << 20  # bytes of estimates that are worked on at once; a few tensors are as large
_SHARE = 16  # a state whose window holds more than one row in sixteen goes dense,
_ROOM = 2  # unless that is no more than twice as many as are rescored first: estimates tie, and all that tie are taken

_NOTHING = torch.empty(0, dtype=torch.int64)

logger = logging.getLogger("vplug_logits")


class Head:
    """Logits of one output embedding, in the mode of its configuration.

    The same rule holds for each state whatever stands beside it in the batch.  A state that cannot be answered in two
    stages is answered by `dense`, by itself, and counted with a reason.

    Attributes:
        weight: The live weight.
        config: What was asked for.
        dense: What the host computes without us.
        counters: What the head did; may be replaced.
        dtype: Of the logits.
        start: The id of row 0.
        vocabulary: The rows that the sketch speaks of; rows of the weight beyond are padding.
        error: What the two stages raised in the last call, which dense then answered; None: nothing.
        backend: The name of what computes, "" in mode `dense`.
        passed_over: Name -> why not, of the backends that come before it for this device; empty where one was named.
        drifted: Whether a live logit was found that its code cannot explain: the weights were changed, and all states
            are answered densely from then on.
    """

    def __init__(  # noqa: PLR0913  # keywords, each for something else
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
        peers: Peers | None = None,
        digests: torch.Tensor | None = None,
    ) -> None:
        """Make a head; nothing of the weight is copied.

        Args:
            weight: `(rows, d)`, the tensor that the host holds, not a copy of it.
            config: The mode and its numbers.
            sketch: Of the first `sketch.vocabulary` rows of the weight, on its device; needed in modes `exact`, `safe`
                and `fast`.
            clusters: Of the whole vocabulary, with its ids; needed in mode `clusters`.
            dense: What the host computes without us, `(n, d) -> (n, rows)`, local to this process (no gather);
                None: `torch.nn.functional.linear(states, weight)`.
            backend: What computes; None: what the configuration names, or the best one for the device.
            start: The id of row 0 of the weight, where it is a shard of the vocabulary.
            dtype: Of what `dense` returns; None: the weight's.
            cap: The soft cap that the host applies to the logits afterwards: cap tanh(l / cap).
            scale: The factor above 0 that the host multiplies them with after that.
            counters: To add to; None: new ones.
            peers: Who holds the other rows (`parallel.ParallelHead` gives them); None: this head decides alone.
            digests: Of the rows that the sketch was made of (`digest.of_rows`), for `changed_rows`.

        Raises:
            BadInputError: A sketch or clusters that are missing or do not fit the weight; NaN or infinity in it.
            BackendError: The backend that the configuration names cannot serve the device.
            ConfigError: `cap` or `scale` that is no positive number.
        """
        if weight.dim() != 2 or weight.dtype not in digest.DTYPES:  # noqa: PLR2004
            raise BadInputError(
                f"a head is a matrix of float32, bfloat16 or float16, not {tuple(weight.shape)} of {weight.dtype}."
            )
        self.weight, self.config, self.start = weight, config, start
        self.dtype = weight.dtype if dtype is None else dtype
        if self.dtype not in digest.DTYPES:
            raise BadInputError(f"logits in {self.dtype} are more or less than products summed in float32 can give.")
        self.counters = Counters() if counters is None else counters
        self.dense = dense or self._linear
        self._own_dense = dense is None
        self._peers = Alone() if peers is None else peers
        self._together = peers is not None  # then nobody can go on alone, and an exception is raised
        self._told = False
        self.error: Exception | None = None
        self.drifted = False
        self._seen = _identity(weight)
        self._digests = digests
        self.vocabulary = weight.shape[0]
        self._after = After(cap, scale)
        self._parts: Parts | None = None
        self._fused: Fused | None = None
        self._may_be_ordinary = False
        self._lost: Callable[[], float] = float
        self.backend, self.passed_over = "", {}
        if config.mode is not Mode.DENSE:
            choice = chosen(weight.device, config.backend) if backend is None else Choice(backend, {})
            self.backend, self.passed_over = choice.backend.name, dict(choice.passed_over)
            self._parts = self._made_of(sketch, clusters, choice.backend)
            self.vocabulary = self._parts.estimate.vocabulary
            self._fused = self._made_in_one(self._parts, sketch)
            # on other devices a graph may be captured; padding is the head's own business
            self._may_be_ordinary = weight.device.type == "cpu" and self.vocabulary == weight.shape[0]
            if isinstance(self._parts.estimate, SketchEstimates):
                self._lost = self._parts.estimate.lost
        widest = self._peers.most(torch.tensor([self.vocabulary], device=weight.device))
        self._portion = max(1, _SCRATCH // (4 * max(1, int(widest))))  # states at a time

    def changed_rows(self) -> int:
        """How many live rows are not those that the sketch was made of; from the first one on every state is dense.

        All rows are read once and hashed (0.2 s for 49,152 of 576), so whoever changes weights asks, and no step does.

        Raises:
            BadInputError: The head was made without digests.
        """
        if self._digests is None:
            raise BadInputError("this head was made without digests of its rows; hand over digest.of_rows(weight).")
        changed = int((digest.of_rows(self.weight, 0, self.vocabulary) != self._digests).sum())
        self.drifted = self.drifted or changed > 0
        return changed

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """The logits of all rows of the weight.

        Rescored rows have the exact logit: products accumulated in float32, rounded to `dtype`.  The others have their
        estimate, lowered where it would reach the best exact logit, or -inf (`config.outside`).  Rows of padding have
        the exact logit.

        Args:
            states: `(n, d)`, final hidden states, any strides.

        Returns:
            `(n, rows)` in `dtype`, fresh, contiguous and writable.

        Raises:
            BadInputError: States of another width, or not of two dimensions.
        """
        if torch.compiler.is_compiling():  # a graph has no counters and no rows chosen by value: it stays dense
            self._fit(states)
            return self.dense(states)
        if self._fused is not None and self._is_ordinary(states):
            out = self._in_one(self._fused, states)
            if out is not None:
                return out
        self._fit(states)
        step, self.error = Step(rows=states.shape[0]), None
        begun = time.perf_counter()
        try:
            return self._logits(states, step)
        finally:
            step.seconds = time.perf_counter() - begun
            self.counters.add(step)

    def sample(
        self, states: torch.Tensor, *, temperature: float | torch.Tensor, seed: int, steps: torch.Tensor
    ) -> torch.Tensor:
        """Draw one id for each state from the softmax of the host's logits over T, by Gumbel-max.

        In modes `exact` and `safe` it is the id that dense logits give with the same noise: argmax(l / T + g).

        Args:
            states: `(n, d)`.
            temperature: T, one or `(n,)`; 0 is greedy.
            seed: Of the noise, any integer.
            steps: int64 `(n,)`, one number for each draw, for instance the position in its sequence; the same seed and
                step give the same noise.

        Returns:
            int64 `(n,)`, ids of the vocabulary; padding is never drawn.

        Raises:
            BadInputError: States, temperatures or steps that do not fit.
        """
        self._fit(states)
        heat = sampling.checked(temperature, steps, states)
        step, self.error = Step(rows=states.shape[0]), None
        begun = time.perf_counter()
        try:
            with torch.no_grad():
                return self._sample(states, heat, seed, steps, step)
        finally:
            step.seconds = time.perf_counter() - begun
            self.counters.add(step)

    def _is_ordinary(self, states: torch.Tensor) -> bool:
        """Whether the backend may be asked at once.

        A step of a backend takes a fraction of a millisecond and finds the caches full of the model's weights: each
        call of Python before it is waited for.  What is not ordinary is looked at again by `_refusal`, which names it.
        """
        weight, (*_, dtype, _, version) = self.weight, self._seen
        return (
            self._may_be_ordinary
            and not self.drifted
            and (states.dtype is dtype or not self._own_dense)
            and (version is None or weight._version == version)  # noqa: SLF001  # where it lies the backend looks at
            and not (torch.is_grad_enabled() and (states.requires_grad or weight.requires_grad))
            and not torch.is_autocast_enabled("cpu")
            and len(states.shape) == 2  # noqa: PLR2004
            and 0 < states.shape[0] <= self._portion
        )

    def _in_one(self, fused: Fused, states: torch.Tensor) -> torch.Tensor | None:
        """One call of the backend, and what is to be said of it; None: it raised."""
        many, self.error = states.shape[0], None
        out = torch.empty((many, self.vocabulary), dtype=self.dtype)
        try:
            report = fused.step(states, out, self._lost())
        except Exception:  # noqa: BLE001  # what is wrong is found, or raised again and told, on the long way
            return None
        if any(report.outcomes):
            step, begun = Step(rows=many), time.perf_counter()
            given_up = self._told_of(report, step)
            out[given_up] = self.dense(states[given_up]).to(self.dtype)
            step.seconds = report.seconds + (time.perf_counter() - begun)
            self.counters.add(step)
        else:
            self.counters.add_fused(many, report)
        return out

    def _logits(self, states: torch.Tensor, step: Step) -> torch.Tensor:
        if states.shape[0] == 0:
            return states.new_empty((0, self.weight.shape[0]), dtype=self.dtype)
        if self._parts is None:
            return self.dense(states)
        reason = self._refusal(states)
        if reason is None:
            try:
                with torch.no_grad():
                    out = states.new_empty((states.shape[0], self.weight.shape[0]), dtype=self.dtype)
                    for part, rows in _split(states, self._portion):
                        self._write(self._parts, part, out[rows], step)
                    return out
            except Exception as error:
                if self._together:
                    raise
                self._failed(error, step)
                reason = "error"
        step.fell_back(reason, states.shape[0])
        return self.dense(states)

    def _write(self, parts: Parts, states: torch.Tensor, out: torch.Tensor, step: Step) -> None:
        if self.vocabulary < out.shape[1]:
            padding = self.weight[self.vocabulary :].to(torch.float32)
            out[:, self.vocabulary :] = torch.mm(states.to(torch.float32), padding.T)
        if self._fused is not None:
            given_up = self._told_of(self._fused.step(states.detach(), out, self._lost()), step)
        else:
            given_up = self._write_in_rounds(parts, states, out, step)
        if given_up.shape[0]:
            out[given_up] = self.dense(states[given_up]).to(self.dtype)

    def _told_of(self, report: Report, step: Step) -> torch.Tensor:
        """Count what a backend reports; gives the indices of the states that it gave up."""
        step.rescored += report.rescored
        step.most = max(step.most, report.most)
        step.clipped += report.clipped
        step.rescore_seconds += report.rescore_seconds
        step.scan_seconds += report.seconds - report.rescore_seconds
        if not any(report.outcomes):
            return _NOTHING
        outcomes = torch.tensor(list(report.outcomes))
        for number, reason in enumerate(OUTCOMES):
            if reason is not None:
                step.fell_back(reason, report.outcomes.count(number))
        self.drifted = self.drifted or OUTCOMES.index("drift") in report.outcomes
        return outcomes.nonzero()[:, 0].to(self.weight.device)

    def _write_in_rounds(self, parts: Parts, states: torch.Tensor, out: torch.Tensor, step: Step) -> torch.Tensor:
        begun, before = time.perf_counter(), step.rescore_seconds
        current = Round(parts, states, step)
        top = greedy.choose(current)
        greedy.write(current, top, out[:, : self.vocabulary], step)
        given_up = self._closed(current)
        step.scan_seconds += time.perf_counter() - begun - (step.rescore_seconds - before)
        return given_up

    def _sample(
        self, states: torch.Tensor, heat: torch.Tensor, seed: int, steps: torch.Tensor, step: Step
    ) -> torch.Tensor:
        if states.shape[0] == 0:
            return steps.clone()
        ids = range(self.start, self.start + self.vocabulary)
        portion = max(1, self._portion // 4)  # noise is float64
        reason = None if self._parts is None else self._refusal(states)
        if self._parts is not None and reason is None:
            try:
                return torch.cat(
                    [
                        self._draw(self._parts, part, sampling.Draws.of(heat[rows], seed, steps[rows], ids), step)
                        for part, rows in _split(states, portion)
                    ]
                )
            except Exception as error:
                if self._together:
                    raise
                self._failed(error, step)
                reason = "error"
        if reason is not None:
            step.fell_back(reason, states.shape[0])
        every = [
            self._agreed(*self._dense_draw(part, sampling.Draws.of(heat[rows], seed, steps[rows], ids)))
            for part, rows in _split(states, portion)
        ]
        return torch.cat(every)

    def _draw(self, parts: Parts, states: torch.Tensor, draws: sampling.Draws, step: Step) -> torch.Tensor:
        begun, before = time.perf_counter(), step.rescore_seconds
        current = Round(parts, states, step)
        top, local = sampling.draw(current, draws)
        given_up = self._closed(current)
        step.scan_seconds += time.perf_counter() - begun - (step.rescore_seconds - before)
        if given_up.shape[0]:
            some = sampling.Draws(draws.temperature[given_up], draws.noise[given_up])
            top[given_up], local[given_up] = self._dense_draw(states[given_up], some)
        return self._agreed(top, local)

    def _dense_draw(self, states: torch.Tensor, draws: sampling.Draws) -> tuple[torch.Tensor, torch.Tensor]:
        return sampling.dense_draw(self.dense(states)[:, : self.vocabulary], draws, self._after)

    def _agreed(self, top: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
        """The smallest id among the winners of all peers."""
        return sampling.agreed(top, local, self.start, self._peers)

    def _closed(self, current: Round) -> torch.Tensor:
        given_up = current.close()
        self.drifted = self.drifted or ("drift" in current.lost and bool(current.lost["drift"].any()))
        return given_up

    def _failed(self, error: Exception, step: Step) -> None:
        """Tell it once."""
        self.error = error
        if not self._told:
            self._told = True
            logger.error(
                "a two-stage head raised; all steps that do are answered densely, and counted.", exc_info=error
            )
        step.fallbacks.clear()

    def _refusal(self, states: torch.Tensor) -> str | None:
        """Why the two stages are not tried for these states, as a slug; None: they are, by all peers."""
        reason = self._own_refusal(states)
        if self._together:
            refused = torch.tensor([reason is not None], device=states.device)
            if bool(self._peers.most(refused)) and reason is None:
                return "peer"
        return reason

    def _own_refusal(self, states: torch.Tensor) -> str | None:
        weight, device = self.weight, states.device
        if torch.is_grad_enabled() and (states.requires_grad or weight.requires_grad):
            return "grad"
        if _identity(weight) != self._seen or device != weight.device:
            return "weight"
        if self.drifted:
            return "drift"
        if self._own_dense and states.dtype != weight.dtype:
            return "dtype"
        if torch.is_autocast_enabled(device.type):
            return "autocast"
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return "capture"
        return None

    def _fit(self, states: torch.Tensor) -> None:
        width = self.weight.shape[1]
        if states.dim() != 2 or states.shape[1] != width or not states.is_floating_point():  # noqa: PLR2004
            raise BadInputError(
                f"states of shape {tuple(states.shape)} and {states.dtype} do not fit a head of width {width}; "
                f"hand over (n, {width}) of floats."
            )

    def _linear(self, states: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(states, self.weight)

    def _made_in_one(self, parts: Parts, sketch: Sketch | None) -> Fused | None:
        """The backend's own step, where this process decides alone."""
        if self._together or sketch is None or not isinstance(parts.estimate, SketchEstimates):
            return None
        return parts.backend.fused(self.weight, sketch, parts.rules(parts.estimate))

    def _made_of(self, sketch: Sketch | None, clusters: Clusters | None, backend: Backend) -> Parts:
        config, weight = self.config, self.weight
        estimate: SketchEstimates | ClusterEstimates
        if config.mode is Mode.CLUSTERS:
            if clusters is None:
                raise BadInputError("mode clusters needs clusters; build an artefact with them.")
            probes = config.probes(clusters.members.shape[0])
            estimate = ClusterEstimates(weight, clusters, backend, probes, self.start)
            rows = probes * CLUSTER_SIZE
        else:
            if sketch is None:
                raise BadInputError(f"mode {config.mode} needs a sketch; build an artefact of this head.")
            if sketch.bits != config.bits:
                raise BadInputError(
                    f"a sketch of {sketch.bits} bits was given where {config.bits} were asked for; build it again."
                )
            estimate, rows = SketchEstimates(weight, sketch, backend), config.rows
        whole = int(self._peers.total(torch.tensor([estimate.vocabulary], device=weight.device)))
        return Parts(
            weight=weight,
            config=config,
            dtype=self.dtype,
            estimate=estimate,
            backend=backend,
            peers=self._peers,
            after=self._after,
            rows=max(1, min(rows, whole)),
            limit=max(_ROOM * rows, whole // _SHARE),
        )


def _split(states: torch.Tensor, many: int) -> list[tuple[torch.Tensor, slice]]:
    """The states in portions, and where they stand; the portions are the same for all peers, who answer together."""
    slices = [slice(start, start + many) for start in range(0, states.shape[0], many)]
    return [(states[rows], rows) for rows in slices]


def _identity(weight: torch.Tensor) -> tuple[object, ...]:
    """What tells one weight from another without reading it; what is written past torch (`.data`) is not seen."""
    version = None if weight.is_inference() else weight._version  # noqa: SLF001  # torch has no other name for it
    return weight.data_ptr(), weight.shape, weight.stride(), weight.dtype, weight.device, version
