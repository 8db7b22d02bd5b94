"""Stat logger classes: one for each engine, or one for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_bed import VllmBed
from vplug_rs.groups import STAT_LOGGER

GOOD = """
from vllm.v1.metrics.loggers import AggregateStatLoggerBase, StatLoggerBase
class Logger(StatLoggerBase):
    def __init__(self, vllm_config, engine_index=0): ...
    def record(self, scheduler_stats, iteration_stats, mm_cache_stats=None, engine_idx=0): ...
    def log_engine_initialized(self): ...
"""
AGGREGATE = GOOD.replace("(StatLoggerBase)", "(AggregateStatLoggerBase)").replace("engine_index=0", "engine_indexes")
WHO = "plugin `log` of acme-log 1.4 (`log_mod.Logger`)"
RECORD = "Declare `def record(self, scheduler_stats, iteration_stats, mm_cache_stats=None, engine_idx=0)`."


def findings(tmp_path: Path, source: str) -> list[list[str]]:
    bed = VllmBed(tmp_path, STAT_LOGGER).offer("log", source, "log_mod:Logger", version="1.4")
    return bed.findings("stat_logger", "log")


@pytest.mark.parametrize("source", [GOOD, AGGREGATE], ids=["one for each engine", "one for all"])
def test_a_whole_logger_has_no_findings(tmp_path: Path, source: str) -> None:
    assert findings(tmp_path, source) == []


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        (
            GOOD.replace("(StatLoggerBase)", "").replace("def log_engine", "def log(self): ...\n    def log_engine"),
            [
                "error",
                f"{WHO}: it is no subclass of `StatLoggerBase`, so vLLM does not start",
                (
                    "Derive from `vllm.v1.metrics.loggers.StatLoggerBase`, or from `AggregateStatLoggerBase` for "
                    "one over all "
                    "engines."
                ),
            ],
        ),
        (
            GOOD.replace("def record", "def write"),
            ["error", f"{WHO}: `record` is abstract still, so no instance can be made", RECORD],
        ),
        (
            GOOD.replace("mm_cache_stats=None, engine_idx=0", "engine_idx=0"),
            [
                "error",
                (
                    f"{WHO}: `record(self, scheduler_stats, iteration_stats, engine_idx=0)` does not take what "
                    "vLLM calls it "
                    "with, (scheduler_stats, iteration_stats, mm_cache_stats=..., engine_idx=...): got an "
                    "unexpected keyword "
                    "argument 'mm_cache_stats'"
                ),
                RECORD,
            ],
        ),
        (
            GOOD.replace("def record", "async def record"),
            [
                "error",
                f"{WHO}: `record` is `async def`, and vLLM does not await it: nothing in it would run",
                RECORD,
            ],
        ),
        (
            GOOD.replace("engine_index=0", ""),
            [
                "error",
                (
                    f"{WHO}: `__init__(self, vllm_config)` does not take what vLLM makes it with, (vllm_config, "
                    "engine_index): too many positional arguments"
                ),
                "Declare `def __init__(self, vllm_config, engine_index=0)`.",
            ],
        ),
        (
            AGGREGATE.replace("engine_indexes", "engines"),
            [
                "error",
                (
                    f"{WHO}: `__init__(self, vllm_config, engines)` does not take what vLLM makes it with, "
                    "(vllm_config=..., engine_indexes=...): missing a required argument: 'engines'"
                ),
                "Declare `def __init__(self, vllm_config, engine_indexes)`.",
            ],
        ),
        (
            GOOD + "    def record_admission_rejection(self, reason): ...\n",
            [
                "warning",
                (
                    f"{WHO}: `record_admission_rejection` is never called: vLLM tells rejections to aggregate "
                    "loggers alone"
                ),
                "Derive from `vllm.v1.metrics.loggers.AggregateStatLoggerBase`.",
            ],
        ),
    ],
)
def test_each_fault_is_told_with_its_fix(tmp_path: Path, source: str, finding: list[str]) -> None:
    assert finding in findings(tmp_path, source)


def test_a_logger_for_all_engines_is_told_from_one_for_each(tmp_path: Path) -> None:
    bed = VllmBed(tmp_path, STAT_LOGGER).offer("one", GOOD).offer("all", AGGREGATE)
    ((one, all_),) = bed.run("""
        import one_mod, all_mod
        from vplug_rs.interfaces.stat_logger import is_aggregate
        say(is_aggregate(one_mod.Logger), is_aggregate(all_mod.Logger))
    """)
    assert (one, all_) == (False, True)
