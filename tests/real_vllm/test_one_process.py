"""An engine in one process: same tokens, plugins once, and what metadata costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import figures
from generation import DOORS, RUN, WITHOUT, generate, holds, says_the_same

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Done


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, model: Path, probe: Path) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("one")
    return {side: generate(folder, side, model, probe) for side in (WITHOUT, DOORS, RUN)}


# The first start looks at the model in a process of its own, where plugins load as well.
@pytest.mark.parametrize(("side", "processes"), [(WITHOUT, 2), (DOORS, 1), (RUN, 1)])
def test_it_starts_and_each_plugin_runs_once(sides: dict[str, Done], side: str, processes: int) -> None:
    holds(sides[side], side, processes)


def test_the_tokens_are_the_same(sides: dict[str, Done]) -> None:
    says_the_same(sides)


def test_metadata_takes_less_time(sides: dict[str, Done]) -> None:
    times = figures.compare("one process", sides)
    # how much less is shown at the end: a time is no test on a machine that others use
    assert min(times[DOORS], times[RUN]) > 1
