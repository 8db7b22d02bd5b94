"""Shards in real processes over gloo, against one process with the whole vocabulary."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from heads import head, hidden, sketch_of
from vplug_logits.clusters import balanced_clusters
from vplug_logits.config import Config
from vplug_logits.errors import BadInputError
from vplug_logits.head import Head
from vplug_logits.parallel import ParallelHead
from vplug_logits.sketch import BLOCK, Sketch, padded_rows

VOCABULARY, WIDTH, CUT = 2051, 40, 1152  # shards of 1,152 and 899 rows
MODES = [("exact", 8, 16), ("safe", 4, 32), ("fast", 2, 64), ("clusters", 2, 256)]
DTYPES = [torch.float32, torch.bfloat16]
SHARDS = ((0, CUT), (CUT, VOCABULARY))


def _states() -> torch.Tensor:
    states = hidden(40, WIDTH, seed=5)
    states[7] = 0.0  # all rows tie: dense, and id 0
    states[11, 2] = float("nan")
    return states


def _part(sketch: Sketch, start: int, stop: int) -> Sketch:
    rows = slice(start, start + padded_rows(stop - start))
    return replace(
        sketch,
        vocabulary=stop - start,
        codes=sketch.codes[start // BLOCK : rows.stop // BLOCK],
        scale=sketch.scale[rows],
        residual=sketch.residual[rows],
        norm=None if sketch.norm is None else sketch.norm[rows],
    )


def _parts(mode: str, bits: int, weight: torch.Tensor) -> dict[str, Any]:
    if mode == "clusters":
        return {"clusters": balanced_clusters(weight, iterations=1)}
    return {"sketch": sketch_of(weight, hidden(300, WIDTH), bits)}


def _answers(ours: Any, states: torch.Tensor, cut: int | None = None) -> dict[str, torch.Tensor]:
    steps = torch.arange(len(states))
    greedy = ours.sample(states, temperature=0.0, seed=0, steps=steps)
    return {
        "logits": ours.logits(states)[:, :cut],
        "greedy": greedy,
        "drawn": ours.sample(states, temperature=1.0, seed=4, steps=steps),
        "none": ours.sample(states[:0], temperature=1.0, seed=4, steps=steps[:0]),
    }


def _work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)  # type: ignore[attr-defined]  # torch exports it so
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    try:
        torch.save({str(dtype): _found(rank, dtype) for dtype in DTYPES}, f"{folder}/{rank}.pt")
    finally:
        dist.destroy_process_group()


def _found(rank: int, dtype: torch.dtype) -> dict[str, Any]:
    found: dict[str, Any] = {}
    whole, states = head(VOCABULARY, WIDTH).to(dtype), _states().to(dtype)
    start, stop = SHARDS[rank]
    mine = whole[start:stop].clone()
    for mode, bits, rows in MODES:
        parts = _parts(mode, bits, whole)
        if "sketch" in parts:
            parts["sketch"] = _part(parts["sketch"], start, stop)
        config = Config.of(mode, bits=bits, rows=rows, outside="-inf")
        ours = ParallelHead(mine, config, start=start, **parts)
        found[mode] = _answers(ours, states)
        found[mode]["argmax"] = ours.argmax(states)
        found[mode]["counters"] = ours.counters.snapshot()
        if mode == "safe":
            # One of the two has another weight meanwhile: both go dense, and nobody waits for ever.
            weight = torch.nn.Parameter(mine.clone(), requires_grad=False)
            ours = ParallelHead(weight, config, start=start, **parts)
            if rank == 1:
                weight.data = weight.data.clone()
            found["replaced"] = {"logits": ours.logits(states[:3]), "counters": ours.counters.snapshot()}
            try:
                ParallelHead(mine, config, start=start + rank, **parts)
            except BadInputError as error:
                found["hole"] = str(error)
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What both processes found."""
    folder: Path = tmp_path_factory.mktemp("store")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_work, args=(rank, str(folder)), daemon=True) for rank in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
        assert worker.exitcode == 0
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


@pytest.fixture(params=DTYPES, ids=str)
def both(request: pytest.FixtureRequest, answers: list[Any]) -> tuple[torch.dtype, list[Any]]:
    return request.param, [found[str(request.param)] for found in answers]


@pytest.mark.parametrize(("mode", "bits", "rows"), MODES)
def test_two_processes_answer_as_one(both: tuple[torch.dtype, list[Any]], mode: str, bits: int, rows: int) -> None:
    dtype, found = both
    whole, states = head(VOCABULARY, WIDTH).to(dtype), _states().to(dtype)
    config = Config.of(mode, bits=bits, rows=rows, outside="-inf")
    alone = Head(whole, config, **_parts(mode, bits, whole))
    wanted = _answers(alone, states)

    for rank in (0, 1):
        mine = found[rank][mode]
        for name in ("greedy", "drawn", "none"):
            assert torch.equal(mine[name], wanted[name]), name
        assert torch.equal(mine["argmax"], mine["greedy"])
        # The same states are dense, and the same rows are rescored but for a few: a shard knows how long the longest of
        # its own codes is, so its windows may be narrower.  float32 sums may differ in their last bits.
        inside, alone_inside = torch.isfinite(mine["logits"]), torch.isfinite(wanted["logits"])
        assert not bool((inside & ~alone_inside).any())
        assert int(alone_inside.sum() - inside.sum()) <= 0.001 * int(alone_inside.sum())
        rtol, atol = (1e-5, 1e-4) if dtype is torch.float32 else (1e-2, 1e-3)
        assert torch.allclose(mine["logits"][inside], wanted["logits"][inside], rtol=rtol, atol=atol)
        assert mine["counters"]["fallbacks"].keys() == alone.counters.snapshot()["fallbacks"].keys()
    assert torch.equal(found[0][mode]["logits"].nan_to_num(7e7), found[1][mode]["logits"].nan_to_num(7e7))
    rescored = sum(found[rank][mode]["counters"]["rescored_rows"] for rank in (0, 1))
    assert rescored > 0


def test_where_one_process_must_be_dense_all_are(both: tuple[torch.dtype, list[Any]]) -> None:
    dtype, found = both
    wanted = torch.nn.functional.linear(_states()[:3].to(dtype), head(VOCABULARY, WIDTH).to(dtype))

    assert torch.allclose(found[0]["replaced"]["logits"], wanted, rtol=1e-2, atol=1e-3)
    assert [found[rank]["replaced"]["counters"]["fallbacks"] for rank in (0, 1)] == [{"peer": 3}, {"weight": 3}]


def test_shards_with_a_hole_between_them_are_refused_everywhere(both: tuple[torch.dtype, list[Any]]) -> None:
    _, found = both

    assert "starts at row 1153" in found[0]["hole"] == found[1]["hole"]
