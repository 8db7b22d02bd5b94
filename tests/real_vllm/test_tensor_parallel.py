"""An engine with two workers that share each layer: same tokens, and plugins once in each process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from generation import DOORS, WITHOUT, generate, holds

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Done


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, model: Path, probe: Path) -> dict[str, Done]:
    folder = tmp_path_factory.mktemp("parallel")
    more = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
    return {side: generate(folder, side, model, probe, tensor_parallel=2, **more) for side in (WITHOUT, DOORS)}


# The first start looks at the model in a process of its own, where plugins load as well.
@pytest.mark.parametrize(("side", "processes"), [(WITHOUT, 5), (DOORS, 4)])
def test_it_starts_and_each_plugin_runs_once(sides: dict[str, Done], side: str, processes: int) -> None:
    holds(sides[side], side, processes)


def test_the_tokens_are_the_same(sides: dict[str, Done]) -> None:
    assert sides[DOORS].answer["tokens"] == sides[WITHOUT].answer["tokens"]
