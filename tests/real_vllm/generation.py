"""One layout of processes, started without us, by the entry-point doors and under `vplug run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lab

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT, DOORS, RUN = "without", "doors", "run"


def generate(folder: Path, side: str, model: Path, probe: Path, *, tensor_parallel: int = 1, **more: str) -> lab.Done:
    """Start an engine and generate; the folder is kept for one layout, so that the second start is a warm one."""
    where = folder / side
    where.mkdir()
    env = lab.environment(where, probe, **more)
    env["VLLM_CACHE_ROOT"] = str(folder / "cache")
    if side != WITHOUT:
        env |= lab.ON
    inner = lab.program("generate", model, str(tensor_parallel), where / "result")
    if side == RUN:
        inner = [str(lab.VPLUG), "run", "--", *inner]
    return lab.run(where, [str(lab.VPLUG), "trace", "--json", str(where / "trace"), "--", *inner], env)


def says_the_same(sides: dict[str, lab.Done]) -> None:
    """The tokens are equal on all sides; a model that always says the same would show nothing."""
    tokens = sides[WITHOUT].answer["tokens"]
    assert len({tuple(one) for one in tokens}) == len(tokens)
    assert sides[DOORS].answer["tokens"] == tokens
    assert sides[RUN].answer["tokens"] == tokens


def holds(done: lab.Done, side: str, processes: int) -> None:
    """What has to be so on every side: it worked, and each plugin ran once in each process."""
    assert done.status == 0, done.log
    state = done.answer["state"]
    if side == WITHOUT:
        assert state is None
    else:
        door = "torch.backends" if side == DOORS else "vplug run"
        assert state[:2] == ["active", door], done.log
        assert {tuple(found) for found in done.answer["patches"].values()} == {("applied", "", 0)}
    assert "Unknown vLLM environment variable" not in done.log
    general = done.calls("general")
    assert set(general.values()) == {1}, general
    assert len(general) == processes, general
    assert set(done.calls("platform")) >= set(general)
