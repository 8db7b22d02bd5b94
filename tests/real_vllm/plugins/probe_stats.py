"""A stat logger that tells when it is made, and of its first record."""

from __future__ import annotations

from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from probe import tell


class Stats(StatLoggerBase):
    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        self.records = 0
        tell("stats")

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        self.records += 1
        if self.records == 1:
            tell("stats_record")

    def log_engine_initialized(self) -> None:
        tell("stats_engine")
