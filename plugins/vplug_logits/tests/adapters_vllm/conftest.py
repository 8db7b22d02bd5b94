"""A process in which vLLM's layers can be made: one rank, gloo, no engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LAYER_TESTS = "needs vLLM's own layers"


@pytest.fixture(scope="session")
def vllm_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The one rank of a world of one."""
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("vllm", reason=LAYER_TESTS)
        from vllm.config import VllmConfig, set_current_vllm_config
        from vllm.distributed import (
            destroy_distributed_environment,
            destroy_model_parallel,
            init_distributed_environment,
            initialize_model_parallel,
        )

        store = tmp_path_factory.mktemp("store") / "store"
        with set_current_vllm_config(VllmConfig()):
            init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
            initialize_model_parallel(1, 1)
        yield
        ends: list[Callable[[], None]] = [destroy_model_parallel, destroy_distributed_environment]
        for end in ends:
            end()


Install = Callable[..., Any]


@pytest.fixture
def installed(vllm_rank: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts the patch in as a fresh process would with these settings, and gives the state; undone at the end."""
    from vplug_logits import plugin
    from vplug_logits.adapters.vllm import figures, install, requests

    for name in [name for name in os.environ if name.startswith("VPLUG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(figures.FOLDER, str(tmp_path))
    monkeypatch.setenv("VPLUG_LOGITS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(install, "_installed", None)
    monkeypatch.setattr(install, "METRICS", "never_imported")
    monkeypatch.setattr(plugin, "_known", ("unregistered", ""))
    # No runner is among the callers of a test: it asks as one whose requests only take the best token.
    asked = requests.asked
    monkeypatch.setattr(requests, "asked", lambda rows: found if (found := asked(rows)).known else requests.Asked())

    def put_in(**environment: str) -> Any:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        plugin.register()
        return plugin.state()

    yield put_in
    made = install.installation()
    if made is not None:
        made.undo()
