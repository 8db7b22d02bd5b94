"""Engines whose workers are processes of their own, and two workers that share the vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engines
import pytest
from widened import widened

import lab

MODES = ["exact", "safe"]


@pytest.fixture(scope="module")
def several(
    tmp_path_factory: pytest.TempPathFactory,
    model: Path,
    site: list[Path],
    artefacts: dict[str, Path],
    kept: Path,
    figures: list[str],
) -> Any:
    """Started switched off; the other modes come later, so their files have to be named."""
    folder = tmp_path_factory.mktemp("several")
    env = lab.environment(folder, *site, VLLM_CACHE_ROOT=str(kept), VLLM_ENABLE_V1_MULTIPROCESSING="1")
    modes = [engines.OFF, *(f"{mode}={artefacts[mode]}" for mode in MODES)]
    found = engines.start(folder, model, ["short"], modes, env)
    figures.append(engines.line("several processes", found))
    return found


@pytest.fixture(scope="module")
def parallel(
    tmp_path_factory: pytest.TempPathFactory,
    model: Path,
    site: list[Path],
    artefacts: dict[str, Path],
    kept: Path,
    figures: list[str],
) -> Any:
    folder = tmp_path_factory.mktemp("parallel")
    shared = widened(model, folder)
    more = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_CPU_OMP_THREADS_BIND": "0|1", "VLLM_CACHE_ROOT": str(kept)}
    env = lab.environment(folder, *site, VPLUG_LOGITS_ARTEFACT=str(artefacts["exact"]), **more)
    modes = ["exact", engines.OFF, f"safe={artefacts['safe']}"]
    found = engines.start(folder, shared, ["short"], modes, env, tensor_parallel=2)
    figures.append(engines.line("tensor parallel 2", found))
    return found


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
