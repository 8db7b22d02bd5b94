"""Where the sketch of a head comes from: a file that is there, or one that a child process builds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vplug_logits import artefact, cache, digest
from vplug_logits.adapters.vllm.log import log
from vplug_logits.adapters.vllm.spread import Spread
from vplug_logits.after import After
from vplug_logits.config import Mode
from vplug_logits.errors import ArtefactError, BuildError, LogitsError, UnsupportedHeadError
from vplug_logits.head import Head
from vplug_logits.selftest import selftest
from vplug_logits.server_build import BackgroundBuild, Failed, Ready

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import torch

    from vplug_logits.adapters.vllm.judge import Shard
    from vplug_logits.adapters.vllm.origin import Origin
    from vplug_logits.config import Config
    from vplug_logits.counters import Counters

WAIT_SECONDS = 240.0  # below what vLLM itself allows a worker to be silent for (300 s)


def find(config: Config, origin: Origin | None, dtype: torch.dtype) -> str | None:
    """The artefact of a model: the file that is named, beside the model, in the cache; None where there is none.

    Args:
        config: What is asked for.
        origin: The model, or None where that is not known.
        dtype: Of the head.

    Raises:
        ArtefactError: The file that is named is not there, or the cache is not this user's.
    """
    if origin is None:
        return config.artefact
    return cache.find(origin.model, config, dtype=digest.DTYPES[dtype], revision=origin.revision)


def build(config: Config, origin: Origin, dtype: torch.dtype) -> BackgroundBuild:
    """Start a child process that builds the artefact of a model, or follow one that another process has started."""
    return BackgroundBuild(origin.model, config, digest.DTYPES[dtype], revision=origin.revision)


def outcome(build: BackgroundBuild) -> str | None:
    """The file that a child has built, or None while it builds.

    Raises:
        BuildError: It failed; the text has its reason.
    """
    found = build.poll()
    if isinstance(found, Failed):
        raise BuildError(f"no sketch could be built: {found.reason}")
    return found.path if isinstance(found, Ready) else None


def wait(config: Config, origin: Origin) -> None:
    """At the start of a server that is to wait (`VPLUG_LOGITS_BUILD=wait`): have the artefact built before it loads.

    It lasts `WAIT_SECONDS` at most, and goes on behind a server that answers densely after that. Whatever fails is
    found again, and told, when the head is asked for the first time.

    Args:
        config: What is asked for.
        origin: The model that is being made.
    """
    if config.build != "wait" or config.mode is Mode.DENSE or not origin.generates:
        return
    if origin.dtype not in digest.DTYPES or _is_there(config, origin):
        return
    log.info("vplug_logits: waiting for the sketch of %s, %.0f s at most", origin.model, WAIT_SECONDS)
    try:
        building, end = build(config, origin, origin.dtype), time.monotonic() + WAIT_SECONDS
        while outcome(building) is None and time.monotonic() < end:
            time.sleep(0.2)
    except LogitsError as error:
        log.warning("vplug_logits: %s", error)


def _is_there(config: Config, origin: Origin) -> bool:
    try:
        return find(config, origin, origin.dtype) is not None
    except ArtefactError:
        return True  # a file that is named and is missing: nothing is built in its place


def head(  # noqa: PLR0913, PLR0917  # what a head is made of
    path: str,
    config: Config,
    processor: Any,
    lm_head: Any,
    rows: Shard,
    dense: Callable[[torch.Tensor], torch.Tensor],
    counters: Counters,
) -> tuple[Head, Spread | None, str]:
    """A head that has passed its self-test, what judges draws from it, and a sentence that says what it is made of.

    Args:
        path: The artefact.
        config: What is asked for.
        processor: vLLM's `LogitsProcessor`: what it does to the logits afterwards.
        lm_head: vLLM's head.
        rows: Those of the vocabulary that this process has.
        dense: The dense answer to hidden states.
        counters: For the head to go on with.

    Raises:
        ArtefactError: Missing, damaged, or of another head.
        BackendError: The backend that is named cannot serve the device.
        UnsupportedHeadError: The self-test failed.
    """
    weight = lm_head.weight
    read = artefact.read(path, device=weight.device)
    if read.sketch.bits != config.bits:
        raise ArtefactError(path, f"has {read.sketch.bits} bits, and mode {config.mode} was asked for {config.bits}.")
    if config.needs_clusters and read.clusters is None:
        raise ArtefactError(path, "has no clusters, which mode clusters scans.")
    artefact.check(read, weight, rows.start, rows.stop)
    sketch, after = artefact.shard(read, rows.start, rows.stop), After(processor.soft_cap, processor.scale)
    made = Head(
        weight,
        config,
        sketch=sketch,
        clusters=read.clusters if config.needs_clusters else None,
        dense=dense,
        start=rows.start,
        cap=processor.soft_cap,
        scale=processor.scale,
        counters=counters,
        digests=read.digests[rows.start : rows.stop],
    )
    tested = selftest(made, read.states, dtype=weight.dtype)
    if not tested.passed:
        raise UnsupportedHeadError(f"the self-test failed: {tested.reason}")
    size = f"{rows.stop - rows.start} x {weight.shape[1]}, {digest.DTYPES[weight.dtype]}"
    is_judged = config.mode is not Mode.CLUSTERS and config.outside == "estimates"
    spread = Spread(sketch, config, after) if is_judged else None
    return made, spread, f"mode {config.mode} at {config.bits} bits ({size}), from {path}, by {_computing(made)}"


def _computing(made: Head) -> str:
    """What computes, and why nothing better does."""
    return "; ".join([f"backend {made.backend}", *(f"not {name}: {why}" for name, why in made.passed_over.items())])
