"""What our entry points cost a process that does not want us."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

import figures
import lab

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 15


@pytest.mark.parametrize("value", [None, "0"])
def test_they_load_nothing_and_what_they_cost_is_shown(tmp_path: Path, value: str | None) -> None:
    env = lab.environment(tmp_path, **({} if value is None else {"VPLUG_VLLM": value}))
    both = []
    for _ in range(ROUNDS):
        done = lab.run(tmp_path, lab.program("door_cost"), env)
        assert done.status == 0, done.log
        both.append(sum(map(float, done.log.split())))
    middle, least = statistics.median(both), min(both)
    name = "unset" if value is None else value
    figures.say(
        "both entry points in a fresh process", f"VPLUG_VLLM {name:5}: median {middle:.2f} ms, least {least:.2f} ms"
    )


def test_a_word_that_is_neither_on_nor_off_is_told(tmp_path: Path) -> None:
    done = lab.run(tmp_path, lab.program("door_cost"), lab.environment(tmp_path, VPLUG_VLLM="perhaps"))
    assert "vplug_rs takes no part in this vLLM: VPLUG_VLLM is 'perhaps', which is neither" in done.log
