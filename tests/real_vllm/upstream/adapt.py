"""A pytest plugin for vLLM's own plugin tests: what they expect of vLLM's test suite, and a report of what happened.

Nothing of a test is changed; a model of the hub is replaced by the one in $UPSTREAM_MODEL.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

outcomes: dict[str, str] = {}


@pytest.fixture
def default_vllm_config() -> Iterator[Any]:
    from vllm.config import VllmConfig, set_current_vllm_config

    config = VllmConfig()
    with set_current_vllm_config(config):
        yield config


@pytest.fixture
def caplog_vllm(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    return caplog


@pytest.fixture(autouse=True)
def _a_model_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.engine.arg_utils import AsyncEngineArgs

    original = AsyncEngineArgs.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("model") == "facebook/opt-125m":
            kwargs["model"] = os.environ["UPSTREAM_MODEL"]
        original(self, *args, **kwargs)

    monkeypatch.setattr(AsyncEngineArgs, "__init__", init)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        outcomes[f"{os.path.basename(report.location[0])}::{report.location[2]}"] = report.outcome


def pytest_sessionfinish() -> None:
    activation = sys.modules.get("vplug_rs.vllm.activation")
    state = activation and activation.state()
    answer = {
        "outcomes": outcomes,
        "state": state and state.state,
        "calls": {patch.label: patch.calls for patch in state.patches} if state else {},
        "failures": sum(patch.failures for patch in state.patches) if state else 0,
    }
    with open(os.environ["UPSTREAM_RESULT"], "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
