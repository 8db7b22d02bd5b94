"""Whole decode steps of transformers with the dense head, with ours, and with one that costs nothing.

The three alternate in random order over the same tokens, each with a KV cache of its own, so that what a better head
can give at most (dense / free, Amdahl's bound) is measured in the same run as what ours gives (dense / ours).
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits import artefact, build, digest
from vplug_logits import cache as artefacts
from vplug_logits.adapters.transformers import patch
from vplug_logits.benchmark import figures, quiet
from vplug_logits.benchmark.timing import clocked
from vplug_logits.calibrate import calibrate
from vplug_logits.config import AUTO, SEED, Config, Mode
from vplug_logits.errors import ArtefactError
from vplug_logits.progress import Progress, silent
from vplug_logits.reference.dense import rounding_step

if TYPE_CHECKING:
    from vplug_logits.benchmark.timing import Plan
    from vplug_logits.config import BackendName

MODE = Mode.SAFE
DTYPES = ("bfloat16", "float32")
GEMMA = "random, the shape of Gemma-3-270M"
KINDS = ("dense", "ours", "free")
_PROMPT, _WARM = 16, 2  # tokens that are read first; steps that do not count
_ALLOWED = 0.02  # of steps: near-ties of sums in another order


def run(
    model: str | None,
    plan: Plan,
    *,
    backend: BackendName = AUTO,
    cache: str | None = None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Measure a random model of Gemma-3-270M's shape, and a given one, in bfloat16 and in float32.

    Args:
        model: A folder or a hub id that is in the local cache, or None.
        plan: Its rounds are the steps.
        backend: Which of ours, by name.
        cache: The folder of artefacts, or None: the user's cache.
        progress: Called with the name of each step.

    Returns:
        For each model and dtype, as `measure`.
    """
    told = partial(measure, plan=plan, backend=backend, cache=cache, progress=progress)
    found = []
    for dtype in DTYPES:
        found.append(told(gemma(dtype), GEMMA, "random-gemma-3-270m"))
        if model is not None:
            found.append(told(build.load(model, dtype=dtype), artefacts.readable(model), model))
    return sorted(found, key=lambda one: one["model"])


def gemma(dtype: str) -> Any:
    """A random model of Gemma-3-270M's shape: V = 262,144, d = 640, 18 layers, tied embeddings."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    kind, settings = _untyped(Gemma3ForCausalLM), _untyped(Gemma3TextConfig)
    config = settings(
        vocab_size=262_144,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        query_pre_attn_scalar=256,
        max_position_embeddings=32_768,
        sliding_window=512,
    )
    torch.manual_seed(SEED)
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        return kind(config).eval()
    finally:
        torch.set_default_dtype(before)


def measure(  # noqa: PLR0913  # what is measured, how, and where its sketch is kept
    model: Any,
    name: str,
    identity: str,
    plan: Plan,
    *,
    backend: BackendName = AUTO,
    cache: str | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure one model, batch 1, one thread.

    Args:
        model: A causal language model of transformers.
        name: For people.
        identity: What its artefact is kept under.
        plan: Its rounds are the steps, its seed that of their order.
        backend: As for `run`.
        cache: As for `run`.
        progress: As for `run`.

    Returns:
        model, dtype, mode, steps, quiet (steps); misses: steps in which ours chose another token than dense, and no
        rounding step explains it; dense_rows: states of ours that were answered densely; cpu and wall by kind (seconds:
        median, min); ratio: dense / ours, and ceiling: dense / free, of the processor's time (medians within a step,
        ratio of minima); fault: why there is no time, or empty.
    """
    config = Config.of(MODE, cache=cache, backend=backend)
    path = _kept(model, identity, config, progress)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with patch(model, config=config, artefact=path) as patched, torch.inference_mode():
            steps = _Steps(model)
            steps.run(plan, progress)
    finally:
        torch.set_num_threads(before)
    counted = patched.counters.snapshot()
    told = {
        "model": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "mode": str(MODE),
        "steps": plan.rounds,
        "quiet": steps.noisy.count(False),
        "misses": steps.misses,
        "dense_rows": counted["fallback_rows"],
    }
    fault = ""
    if patched.head.error is not None:
        fault = f"{patched.head.error!r}, and dense answered"
    elif steps.misses > _ALLOWED * plan.rounds:
        fault = f"{steps.misses} of {plan.rounds} tokens are not dense's"
    return told | {"fault": fault} | ({} if fault else steps.figures())


class _Steps:
    """Steps of one patched model by the three heads in turn."""

    def __init__(self, model: Any) -> None:
        """Read a prompt into three caches.

        Args:
            model: Patched.
        """
        self._model, self._module = model, model.get_output_embeddings()
        weight = self._module.weight
        nothing = torch.zeros(1, 1, weight.shape[0], dtype=weight.dtype)
        plain = type(self._module).forward.__get__(self._module)
        self._heads = {"dense": plain, "ours": self._module.forward, "free": lambda _: nothing}
        prompt = torch.randint(weight.shape[0], (1, _PROMPT), generator=torch.Generator().manual_seed(SEED))
        self._caches = {kind: model(input_ids=prompt, use_cache=True).past_key_values for kind in KINDS}
        self._token = prompt[:, -1:]
        self.cpu: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.wall: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.noisy: list[bool] = []
        self.misses = 0

    def run(self, plan: Plan, progress: Progress) -> None:
        """So many steps, each by all heads in random order; the next token is dense's."""
        order = random.Random(plan.seed)  # noqa: S311  # an order of calls, no secret
        for number in range(-_WARM, plan.rounds):
            with quiet.Watch() as watch:
                found = {kind: self._step(kind, counts=number >= 0) for kind in order.sample(KINDS, len(KINDS))}
            dense, (_, chosen) = found["dense"], found["ours"]
            self._token = dense[1]
            if number >= 0:
                self.noisy.append(watch.noisy)
                self.misses += _differs(*dense, chosen)
            progress("decode", number + _WARM + 1, plan.rounds + _WARM)

    def figures(self) -> dict[str, Any]:
        """Times and ratios."""
        cpu, wall = (
            {kind: quiet.keep(values, self.noisy) for kind, values in times.items()} for times in (self.cpu, self.wall)
        )
        return {
            "cpu": {kind: figures.pair(values) for kind, values in cpu.items()},
            "wall": {kind: figures.pair(values) for kind, values in wall.items()},
            "ratio": figures.ratio(cpu["dense"], cpu["ours"]),
            "ceiling": figures.ratio(cpu["dense"], cpu["free"]),
        }

    def _step(self, kind: str, *, counts: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """One step by one head: its logits, and the token that it chooses."""
        given = self._module.__dict__.get("forward")
        self._module.__dict__["forward"] = self._heads[kind]
        found = []

        def step() -> None:
            logits = self._model(input_ids=self._token, past_key_values=self._caches[kind], use_cache=True).logits
            found.append((logits[:, -1], logits[:, -1].argmax(-1, keepdim=True)))

        try:
            cpu, wall = clocked(step)
        finally:
            self._module.__dict__["forward"] = given
        if counts:
            self.cpu[kind].append(cpu)
            self.wall[kind].append(wall)
        return found[0]


def _kept(model: Any, identity: str, config: Config, progress: Progress) -> str:
    """The artefact of the model's head, from an earlier run if it is of these weights."""
    weight = build.head_weight(model)
    dtype = digest.DTYPES[weight.dtype]
    path = artefacts.place(identity, config, dtype=dtype)
    with artefacts.locked(path):
        try:
            artefact.check(artefact.read(path), weight)
        except ArtefactError:  # there is none, or of other weights
            found = calibrate(model, progress=progress)
            artefact.write(
                path,
                build.build(weight, found.moment, config.bits, progress=progress),
                digests=digest.of_rows(weight),
                seed=SEED,
                dtype=dtype,
                source=artefacts.readable(identity),
                positions=found.positions,
                states=found.states,
            )
    return path


def _differs(dense: torch.Tensor, token: torch.Tensor, chosen: torch.Tensor) -> bool:
    """Whether another token was chosen, whose dense logit is more than one rounding step below the winner's."""
    best, other = (dense.double().gather(1, one)[0, 0] for one in (token, chosen))
    return bool(best - other > rounding_step(best, dense.dtype))


def _untyped(kind: Any) -> Any:
    return kind
