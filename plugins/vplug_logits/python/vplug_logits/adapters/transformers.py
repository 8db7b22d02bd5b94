"""Puts a head into a model of transformers, so that `generate()` uses it; one call, and one to undo it.

Only the `forward` of the output embedding's own instance is replaced.  What the model does to logits afterwards stays
in the model, and is looked at once, for a window has to know of it.
"""

from __future__ import annotations

import threading
import types
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits import artefact as artefacts
from vplug_logits import build as builds
from vplug_logits import digest
from vplug_logits.adapters.generation import alters_logits
from vplug_logits.after import After
from vplug_logits.calibrate import calibrate
from vplug_logits.config import Config, Mode
from vplug_logits.errors import ConfigError, UnsupportedHeadError
from vplug_logits.head import Head
from vplug_logits.selftest import selftest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from vplug_logits.artefact import Artefact
    from vplug_logits.counters import Counters

_PROBE = 4  # positions that the model is run on to see what becomes of logits
_RANGE = 96.0  # logits that are shown to it reach from -_RANGE to _RANGE


@dataclass(frozen=True, slots=True)
class Sampling:
    """Exact sampling inside the head, for `generate(do_sample=False)`.

    The largest returned logit is that of a draw from the softmax of the model's logits over the temperature.  Each
    hidden state that passes takes the next number of the noise, so a run can be repeated with the same seed on a
    freshly patched model.  The other logits are as without sampling, but lowered below the drawn one: processors that
    ban the drawn token make the choice greedy.

    Attributes:
        temperature: Above 0.
        seed: Of the noise.
    """

    temperature: float = 1.0
    seed: int = 0


class Patched:
    """A model with a head in it.  Calling it, or leaving it as a context manager, takes the head out again.

    Attributes:
        head: The head.
    """

    def __init__(self, head: Head, forward: _Forward) -> None:
        self.head, self._forward = head, forward

    @property
    def counters(self) -> Counters:
        """What the head did."""
        return self.head.counters

    def changed_rows(self) -> int:
        """How many rows of the head were changed since it was patched; from the first one on it is dense.

        Raises:
            BadInputError: In mode `dense`, where no row is remembered.
        """
        return self.head.changed_rows()

    def undo(self) -> None:
        """The model as it was; a second time it does nothing."""
        self._forward.remove()

    def __call__(self) -> None:
        """As `undo`."""
        self.undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def patch(
    model: Any,
    mode: Mode | str | None = None,
    *,
    config: Config | None = None,
    artefact: Artefact | str | None = None,
    sampling: Sampling | None = None,
) -> Patched:
    """Give a causal language model of transformers a two-stage head.

    Without an artefact the sketch is built here, calibrated on this very model with random token ids.  While a gradient
    is asked for, the output embedding is in training, or `generate()` has processors that change the order of logits,
    it stays dense.  Copies of the model are not patched.

    Args:
        model: A loaded model; its output embedding must be a plain `torch.nn.Linear` without bias.
        mode: `exact`, `safe`, `fast`, `clusters` or `dense`; None: `safe`, or that of `config`.
        config: All of the settings, instead of `mode`.
        artefact: What `vplug-logits build` made of this model, or its file; None: `config.artefact`, else it is built.
        sampling: None: logits as they are, and whoever calls decides.

    Returns:
        The way back, the head and its counters.

    Raises:
        UnsupportedHeadError: The output embedding has a bias, is quantised or adapted, is patched already, or fails the
            self-test; or the model does something to logits that a window cannot follow.
        ConfigError: `mode` and `config` together, or a temperature that is not above 0.
        BuildError: The model cannot be calibrated.
        ArtefactError: The artefact is damaged, or of another head.
        BackendError: The backend that the config names cannot serve the device.
        BadInputError: The artefact has other bits than asked for, or no clusters where they are needed.
    """
    if config is not None and mode is not None:
        raise ConfigError("mode and config were both given; say the mode in the config.")
    if sampling is not None and not 0 < sampling.temperature < float("inf"):
        raise ConfigError(f"temperature: {sampling.temperature!r} draws nothing; possible: a number above 0.")
    wanted = config or Config.of(mode or Mode.SAFE)
    module = _supported(model)
    after = _after(model, module)
    head, kept = _head(model, module, wanted, artefact, after)
    verdict = selftest(head, kept)
    if not verdict.passed:
        raise UnsupportedHeadError(f"the head fails its self-test: {verdict.reason}")
    forward = _Forward(module, head, after, sampling)
    forward.install()
    return Patched(head, forward)


class _Forward:
    """The `forward` that stands in for the module's own."""

    def __init__(self, module: torch.nn.Linear, head: Head, after: After, sampling: Sampling | None) -> None:
        self._module, self._head, self._after, self._sampling = module, head, after, sampling
        self._plain = module.forward
        self._earlier = module.__dict__.get("forward")
        self._on = False
        self._lock = threading.Lock()
        self._next = 0

    def install(self) -> None:
        """Put it in."""
        if self._sampling is not None:
            # A draw cannot be traced into a graph: it is made outside of a compiled model's.
            self._lift = torch.compiler.disable(self._lift)  # type: ignore[method-assign,no-untyped-call]
        self._on = True
        self._module.__dict__["forward"] = self  # of this instance alone

    def remove(self) -> None:
        """Take it out; where another patch lies on top, it stays there and hands on."""
        if self._on and self._module.__dict__.get("forward") is self:
            if self._earlier is None:
                del self._module.__dict__["forward"]
            else:
                self._module.__dict__["forward"] = self._earlier
        self._on = False

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        if not self._on:
            return self._plain(states)
        rows = states.numel() // max(1, states.shape[-1])
        reason = "training" if self._module.training else None
        if self._module.weight is not self._head.weight:
            reason = "weight"
        if reason is not None:
            self._head.counters.fallback(reason, rows)
            return self._plain(states)
        flat = states.reshape(rows, states.shape[-1])
        if not torch.compiler.is_compiling() and alters_logits():
            self._head.counters.fallback("altered", rows)
            logits = self._plain(flat)
        else:
            logits = self._head.logits(flat)
        if self._sampling is not None and rows:
            self._lift(flat, logits, self._sampling)
        return logits.view(*states.shape[:-1], logits.shape[-1])

    def _lift(self, states: torch.Tensor, logits: torch.Tensor, sampling: Sampling) -> None:
        """Make a draw the largest logit, by so much that nothing the model does afterwards makes another one equal."""
        many = states.shape[0]
        with self._lock:
            first = self._next
            self._next += many
        steps = torch.arange(first, first + many, device=states.device)
        with torch.no_grad():
            drawn = self._head.sample(states, temperature=sampling.temperature, seed=sampling.seed, steps=steps)
            top = logits.amax(1)
            below = (top.to(torch.float64) - self._after.margin(top, logits.dtype)).to(logits.dtype)
            logits.copy_(torch.minimum(logits, below[:, None]))
            logits.scatter_(1, drawn[:, None], top[:, None])

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        # The head speaks of one weight; a copy of the module has another, so it gets its class's forward.
        copied = memo.get(id(self._module), self._module)
        return types.MethodType(type(copied).forward, copied)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a patched model cannot be pickled as it is: undo the patch first.")


def _supported(model: Any) -> torch.nn.Linear:
    """The output embedding, if a head can stand in for it."""
    find = getattr(model, "get_output_embeddings", None)
    module = find() if callable(find) else None
    if module is None:
        raise UnsupportedHeadError("the model has no output embeddings.")
    if isinstance(module.__dict__.get("forward"), _Forward) and module.__dict__["forward"]._on:  # noqa: SLF001
        raise UnsupportedHeadError("the model is patched already; undo that first.")
    if type(module) is not torch.nn.Linear:
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        raise UnsupportedHeadError(f"the output embedding is a {kind} and no plain torch.nn.Linear.")
    bias: torch.Tensor | None = module.bias
    if bias is not None:
        raise UnsupportedHeadError("the output embedding has a bias.")
    weight: Any = module.weight  # a subclass of it holds quantised or distributed numbers
    plain = type(weight) is torch.nn.Parameter and type(weight.data) is torch.Tensor
    if not plain or weight.dtype not in digest.DTYPES:
        raise UnsupportedHeadError(f"its weight is a {type(weight.data).__name__} of {weight.dtype}: quantised.")
    if weight.is_meta:
        raise UnsupportedHeadError("its weight is not in memory (meta device).")
    return module


def _after(model: Any, module: torch.nn.Linear) -> After:
    """What the model does to logits: logits of a wide range are shown to it, and what it returns is compared."""
    shown = torch.linspace(-_RANGE, _RANGE, module.weight.shape[0], device=module.weight.device)

    def show(_: torch.nn.Module, __: object, logits: torch.Tensor) -> torch.Tensor:
        return shown.to(logits.dtype).expand_as(logits)

    ids = torch.zeros(1, _PROBE, dtype=torch.int64, device=model.get_input_embeddings().weight.device)
    hook = module.register_forward_hook(show)
    try:
        with torch.no_grad():
            got = model(input_ids=ids, use_cache=False).logits[0, -1]
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise UnsupportedHeadError(f"the model cannot be run on {_PROBE} token ids ({cause}).") from error
    finally:
        hook.remove()
    raw = shown.to(module.weight.dtype)
    best, least = None, float("inf")
    for after in _candidates(model.config.get_text_config()):
        expected = after(raw).to(torch.float64)
        room = 4 * torch.finfo(raw.dtype).eps * float(expected.abs().max())
        if got.shape != expected.shape:
            continue
        far = float((got.to(expected) - expected).abs().max())
        if far <= room and far < least:  # the nearest: in 16 bits a factor near 1 is within the room of none at all
            best, least = after, far
    if best is None:
        raise UnsupportedHeadError("what the model does to the logits after its head is not understood.")
    return best


def _candidates(config: Any) -> Iterator[After]:
    """A cap and a scale under the names that models have for them."""
    caps = [None, getattr(config, "final_logit_softcapping", None)]
    factors = [getattr(config, name, None) for name in ("logit_scale", "logits_scaling", "lm_head_multiplier")]
    known = [float(factor) for factor in factors if isinstance(factor, int | float) and factor > 0]
    for cap in caps:
        for scale in (1.0, *known, *(1 / factor for factor in known)):
            yield After(cap=None if cap is None else float(cap), scale=scale)


def _head(
    model: Any, module: torch.nn.Linear, config: Config, artefact: Artefact | str | None, after: After
) -> tuple[Head, torch.Tensor | None]:
    """The head, and states for its self-test."""
    weight = module.weight
    sketch = clusters = kept = digests = None
    found = artefact if artefact is not None else config.artefact
    if config.mode is Mode.DENSE:
        pass
    elif found is not None:
        read = artefacts.read(found, device=weight.device) if isinstance(found, str) else found
        artefacts.check(read, weight)
        sketch, clusters, kept, digests = read.sketch, read.clusters, read.states, read.digests
    else:
        calibration = calibrate(model)
        kept, digests = calibration.states, digest.of_rows(weight)
        if config.needs_clusters:
            made = builds.build_clusters(weight, calibration.moment)  # on the CPU
            clusters = replace(
                made,
                members=made.members.to(weight.device),
                centroids=made.centroids.to(weight.device),
                scale=made.scale.to(weight.device),
            )
        else:
            sketch = builds.build(weight, calibration.moment, config.bits)
    head = Head(
        weight,
        config,
        sketch=None if config.needs_clusters else sketch,
        clusters=clusters if config.needs_clusters else None,
        dense=module.forward,
        cap=after.cap,
        scale=after.scale,
        digests=digests,
    )
    return head, None if kept is None else kept.to(weight)
