"""One start of `programs/engine.py`, and what it said."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import lab

PROGRAM = Path(__file__).resolve().parent / "programs" / "engine.py"
OFF = "off"
MODES = ["exact", "safe"]  # those that promise the tokens of vLLM's own head
Started = Callable[..., Any]


def start(
    folder: Path,
    model: Path,
    suites: list[str],
    modes: list[str],
    env: dict[str, str],
    *,
    tensor_parallel: int = 1,
) -> Any:
    """Start an engine and ask it all; the first mode is the environment's."""
    result = folder / "answers"
    words = [str(model), str(tensor_parallel), str(result), ",".join(suites), *modes]
    env = {**env, "VPLUG_LOGITS": modes[0].partition("=")[0], "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}
    done = lab.run(folder, [sys.executable, str(PROGRAM), *words], env, limit=550)
    assert done.status == 0, done.log
    answer = torch.load(result, weights_only=False)
    answer["log"], answer["seconds"] = done.log, done.seconds
    return answer


def says_the_same(answer: Any, suite: str, mode: str, *, at_least: int) -> None:
    """A suite's tokens are those of vLLM's own head; a model that always says the same would show nothing."""
    ours, theirs = (answer["modes"][one]["answers"][suite] for one in (mode, OFF))
    assert sum(map(len, theirs)) >= at_least
    assert len({token for one in theirs for token in one}) > at_least // 16
    assert ours == theirs


def was_served(answer: Any, mode: str, *, workers: int) -> None:
    """The tokens were made in two stages, in each worker, and not densely under another name."""
    told = answer["modes"][mode]["workers"]
    assert len(told) == workers
    for rank, worker in enumerate(told):
        assert worker["state"] == "patched", worker
        (head,) = worker["heads"]
        assert (head["state"], head["mode"], head["rank"]) == ("active", mode, rank), head
        counters = head["counters"]
        assert counters["errors"] == worker["failures"] == 0
        assert counters["rescored_rows"] > 0
        certified = {reason: rows for reason, rows in counters["fallbacks"].items() if reason == "window"}
        assert sum(certified.values()) <= 0.02 * counters["rows"], counters
        assert set(counters["fallbacks"]) <= {"window", "altered", "prompt", "spread"}


def line(title: str, answer: Any) -> str:
    """The figures of a start for people."""
    modes = []
    for mode, one in answer["modes"].items():
        head = next(iter(one["workers"][0]["heads"]), None)
        counted = "" if head is None else f", {_counted(head['counters'])}"
        modes.append(f"{mode} {one['seconds']:.0f} s{counted}")
    return f"{title}: start {answer['started']:.0f} s, whole {answer['seconds']:.0f} s; " + "; ".join(modes)


def _counted(counters: dict[str, Any]) -> str:
    rescored = counters["rescored_rows"] / max(1, counters["rows"] - counters["fallback_rows"])
    return f"{counters['rows']} states, dense {counters['fallbacks']}, {rescored:.0f} rows rescored for each"
