"""vLLM's stat loggers: one for each engine, or one for all (`AggregateStatLogger`).

The entry point names the class itself, and vLLM stops at one that does not derive from its own base.
"""

from __future__ import annotations

from typing import Any, Protocol

from vplug_rs.interfaces._check import MISSING, WARNING, Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.interfaces._check import Finding
    from vplug_rs.loading.plugin import Plugin

_BASE, _AGGREGATE = "StatLoggerBase", "AggregateStatLoggerBase"  # vLLM's, in `vllm.v1.metrics.loggers`


class StatLogger(Protocol):
    """A stat logger as vLLM 0.33 uses it, one for each engine. The stats' own classes are no stable interface."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None: ...

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        """One step of an engine; either of the first two may be None."""

    def log_engine_initialized(self) -> None:
        """The engine is ready."""

    def log(self) -> None:
        """Time to write, every few seconds."""

    def record_sleep_state(self, is_awake: int, level: int) -> None:
        """The engine sleeps or wakes up."""


class AggregateStatLogger(StatLogger, Protocol):
    """A stat logger for all engines of a server."""

    def __init__(self, vllm_config: Any, engine_indexes: list[int]) -> None: ...

    def record_admission_rejection(self, reason: str) -> None:
        """The front end has turned a request away."""


def is_aggregate(found: Any) -> bool:
    """Whether vLLM makes one of it for all engines, and not one for each."""
    return Check(found).descends(_AGGREGATE)


def check(found: Any, plugin: Plugin | None = None) -> list[Finding]:
    """What is missing in a stat logger class, or cannot be called as vLLM calls it."""
    it = Check(found, plugin)
    if not it.wants_class("Name the class itself in the entry point: `module:Class`."):
        return it.findings
    aggregate = it.descends(_AGGREGATE)
    protocol = AggregateStatLogger if aggregate else StatLogger
    if not it.descends(_BASE):
        it.error(
            f"it is no subclass of `{_BASE}`, so vLLM does not start",
            f"Derive from `vllm.v1.metrics.loggers.{_BASE}`, or from `{_AGGREGATE}` for one over all engines.",
        )
    it.method(protocol, "record", "scheduler_stats, iteration_stats, mm_cache_stats= engine_idx=")
    it.method(protocol, "log_engine_initialized", "")
    it.method(protocol, "log", "", severity=WARNING)
    it.method(protocol, "record_sleep_state", "is_awake, level", severity=WARNING)
    if aggregate:
        it.method(protocol, "record_admission_rejection", "reason", severity=WARNING)
    elif it.attribute("record_admission_rejection") is not MISSING:
        it.warn(
            "`record_admission_rejection` is never called: vLLM tells rejections to aggregate loggers alone",
            f"Derive from `vllm.v1.metrics.loggers.{_AGGREGATE}`.",
        )
    # one for each engine is made by position, one for all by keyword
    it.constructor(protocol, "vllm_config= engine_indexes=" if aggregate else "vllm_config, engine_index")
    return it.findings
