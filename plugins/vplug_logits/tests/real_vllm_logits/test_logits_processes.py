"""Engines whose workers are processes of their own, and two workers that share the vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engines
import pytest
from engines import MODES, Started
from widened import widened


@pytest.fixture(scope="module")
def several(started: Started, model: Path, artefacts: dict[str, Path]) -> Any:
    """Started switched off; the other modes come later, so their files have to be named."""
    modes = [engines.OFF, *(f"{mode}={artefacts[mode]}" for mode in MODES)]
    return started("several processes", model, ["short"], modes, VLLM_ENABLE_V1_MULTIPROCESSING="1")


@pytest.fixture(scope="module")
def parallel(
    tmp_path_factory: pytest.TempPathFactory, started: Started, model: Path, artefacts: dict[str, Path]
) -> Any:
    shared = widened(model, tmp_path_factory.mktemp("widened"))
    modes = ["exact", engines.OFF, f"safe={artefacts['safe']}"]
    more = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
    more["VPLUG_LOGITS_ARTEFACT"] = str(artefacts["exact"])
    return started("tensor parallel 2", shared, ["short"], modes, tensor_parallel=2, **more)


def test_switched_off_no_process_has_anything_of_it(several: Any) -> None:
    (worker,) = several["modes"][engines.OFF]["workers"]
    assert (worker["state"], worker["heads"]) == ("off", ())
    assert worker["reason"] == "VPLUG_LOGITS is off"
    assert several["modes"][engines.OFF]["modules"] == [["vplug_logits", "vplug_logits.errors", "vplug_logits.plugin"]]


@pytest.mark.parametrize("mode", MODES)
def test_a_worker_of_its_own_says_the_same(several: Any, mode: str) -> None:
    engines.was_served(several, mode, workers=1)
    engines.says_the_same(several, "short", mode, at_least=256)


@pytest.mark.parametrize("mode", MODES)
def test_two_workers_that_share_the_vocabulary_say_the_same(parallel: Any, mode: str) -> None:
    engines.was_served(parallel, mode, workers=2)
    engines.says_the_same(parallel, "short", mode, at_least=256)
