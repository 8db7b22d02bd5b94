"""The figures of all processes as Prometheus shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vplug_logits.adapters.vllm import figures, metrics
from vplug_logits.counters import Counters, Step

prometheus_client = pytest.importorskip("prometheus_client")


def head(**more: Any) -> dict[str, Any]:
    counters = Counters()
    counters.add(Step(rows=8, rescored=300, most=60, seconds=0.5))
    counters.fallback("window", 2)
    told = {
        "name": "lm_head",
        "rank": 1,
        "mode": "safe",
        "backend": "torch",
        "state": "active",
        "reason": "from a file",
    }
    return told | {"counters": counters.snapshot() | {"errors": 3}} | more


def shown(folder: Path) -> dict[str, float]:
    registry = prometheus_client.CollectorRegistry()
    registry.register(metrics.Collector(str(folder)))
    text = prometheus_client.generate_latest(registry).decode()
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(figures.FOLDER, str(tmp_path))
    return tmp_path


def test_counters_come_with_head_rank_and_process(folder: Path) -> None:
    figures.Writer().write({"heads": [head()], "failures": 0})
    words = f'head="lm_head",pid="{os.getpid()}",rank="1"'
    found = shown(folder)
    assert found[f"vplug_logits_steps_total{{{words}}}"] == 2
    assert found[f"vplug_logits_rows_total{{{words}}}"] == 10
    assert found[f"vplug_logits_rescored_rows_total{{{words}}}"] == 300
    assert found[f"vplug_logits_errors_total{{{words}}}"] == 3
    assert found[f"vplug_logits_rescored_most{{{words}}}"] == 60
    (active,) = [name for name in found if name.startswith("vplug_logits_active")]
    assert 'mode="safe"' in active and 'backend="torch"' in active
    assert 'reason="from a file"' in active
    assert found[active] == 1
    (fallback,) = [name for name in found if name.startswith("vplug_logits_fallback_rows_total")]
    assert 'reason="window"' in fallback
    assert found[fallback] == 2


def test_a_dense_head_is_shown_with_its_reason(folder: Path) -> None:
    figures.Writer().write({"heads": [head(state="dense", reason='it is "odd"\n')], "failures": 0})
    (active,) = [(name, value) for name, value in shown(folder).items() if name.startswith("vplug_logits_active")]
    assert active[1] == 0
    assert r"it is \"odd\"\n" in active[0]


def test_nothing_is_shown_where_nobody_writes(folder: Path) -> None:
    assert shown(folder) == {}
    assert shown(folder / "gone") == {}


def test_figures_that_cannot_be_understood_do_not_take_the_other_metrics_along(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    figures.Writer().write({"heads": [{"name": "of another release"}]})
    assert shown(folder) == {}
