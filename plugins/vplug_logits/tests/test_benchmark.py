"""The benchmark of heads at tiny shapes, from the command to the table, and what it does with a broken candidate."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from models import tiny_that_reads
from vplug_logits import artefact
from vplug_logits.benchmark import (
    baselines,
    beds,
    candidates,
    figures,
    machine,
    names,
    plots,
    quiet,
    report,
    running,
    timing,
)
from vplug_logits.benchmark.gate import Gate
from vplug_logits.benchmark.names import BFLOAT16, FLOAT32, INT4, INT8, OVER, READ, TOP, TORCH, TORCH_AO, TORCH_INT8
from vplug_logits.cli import bench, main
from vplug_logits.config import Config
from vplug_logits.errors import BackendError, ConfigError
from vplug_logits.head import Head
from vplug_logits.kernels import choose

V, D = 900, 48
PLAN = timing.Plan(batches=(1, 4), threads=(1, 2), rounds=3, sweep=False)
NAMES = [FLOAT32, BFLOAT16, TORCH_INT8, TORCH_AO, "exact", "safe", TOP, "fast", INT8, INT4]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def bed(cache: str) -> beds.Bed:
    return beds.random(V, D, cache=cache)


@pytest.fixture(scope="module")
def measured(bed: beds.Bed) -> dict[str, Any]:
    return running.document() | {"heads": [running.head(bed, PLAN)]}


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return bench.run(parser.parse_args(words))


def rows_of(text: str, name: str) -> list[list[str]]:
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith(f"| {name} |")]
    assert found
    return found


def test_every_candidate_is_timed_in_every_cell_and_compared_with_every_baseline(measured: dict[str, Any]) -> None:
    (head,) = measured["heads"]
    assert list(dict.fromkeys(one["name"] for one in head["candidates"] if one["kind"] != READ)) == NAMES
    for name in NAMES:
        cells = [cell for cell in head["cells"] if cell["name"] == name]
        paths = list(candidates.paths()) if name not in {FLOAT32, BFLOAT16, TORCH_INT8, TORCH_AO} else [TORCH]
        found = sorted((cell["path"], cell["threads"], cell["batch"]) for cell in cells)
        assert found == sorted((path, *cell) for path in paths for cell in PLAN.cells)
        for cell in cells:
            assert set(cell["over"]) == set(OVER)
            assert 0 < cell["cpu"]["min"] <= cell["cpu"]["median"]
            assert (cell["read"] is not None) == (name not in {FLOAT32, BFLOAT16, TORCH_INT8, TORCH_AO})
    assert all(cell["over"][FLOAT32]["median"] == 1 for cell in head["cells"] if cell["name"] == FLOAT32)


def test_the_document_survives_json_and_the_table_has_every_head(measured: dict[str, Any]) -> None:
    again = json.loads(json.dumps(measured, allow_nan=False))
    assert again == measured
    text = report.markdown(again)
    assert f"## {V} x {D}: random rows and states" in text
    for name in NAMES:
        paths = {one["path"] for one in again["heads"][0]["candidates"] if one["name"] == name}
        # two threads: ratios, times; ratios of minima; one thread over two
        assert len(rows_of(text, name)) == 6 * len(paths)
        assert rows_of(text, name)[0][2].startswith(("0 of 32", "1 of 32", "2 of 32"))
    cells = [c for c in again["heads"][0]["cells"] if c["path"] == next(iter(candidates.paths()))]
    cell = next(c for c in cells if (c["name"], c["threads"], c["batch"]) == ("safe", 1, 4))
    assert rows_of(text, "safe")[0][1] == cell["path"]  # the best path comes first
    assert rows_of(text, "safe")[0][4] == " / ".join(
        f"{value:.1f}" if value >= 1.95 else f"{value:.2f}" for value in (cell["over"][name]["median"] for name in OVER)
    )
    assert measured["machine"]["torch"] in text and measured["machine"]["date"] in text


def test_the_short_table_has_a_row_for_each_mode(measured: dict[str, Any]) -> None:
    lines = report.short(measured).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:6]] == ["`exact`", "`safe`", TOP, "`fast`"]
    assert lines[0].count(" x ") == 1  # B = 8 and 32 were not asked for


def test_a_broken_candidate_is_red_and_shows_no_speed(bed: beds.Bed) -> None:
    best = dict(list(candidates.paths().items())[:1])
    every = [one for one in candidates.table(bed, best) if one.name in {FLOAT32, "safe", INT8}]
    wrong = replace(every[1], name="wrong", answer=lambda states: -every[0].answer(states), head=None)

    def raises(_: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such kernel")

    nothing = replace(every[1], name="raises", answer=raises, head=None)
    narrow = replace(every[1], name="narrow", answer=lambda states: every[0].answer(states)[:, :10], head=None)
    head = running.of_candidates(bed, [*every, wrong, nothing, narrow], PLAN)
    faults = {one["name"]: one["fault"] for one in head["candidates"]}
    assert faults[FLOAT32] == faults["safe"] == ""
    assert faults["wrong"] == "32 of 32 winners are not dense's"
    assert faults["raises"] == "RuntimeError: no such kernel"
    assert "are not dense's" in faults["narrow"]
    assert {cell["name"] for cell in head["cells"]} == {FLOAT32, "safe", INT8}
    text = report.markdown(running.document() | {"heads": [head]})
    assert "**RED: wrong (" in text
    for name in ("wrong", "raises", "narrow"):
        assert rows_of(text, name)[0][2:] == ["RED", "-", "-", "-"]
        assert not any(character.isdigit() for cells in rows_of(text, name)[:2] for character in "".join(cells[2:]))


def test_a_head_whose_two_stages_raise_is_red_though_dense_answers(bed: beds.Bed) -> None:
    class Broken:
        name = "broken"

        def fused(self, *_: Any) -> None:
            """No step in one call."""

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(f"no {name}")

    broken: Any = Broken()
    head = Head(bed.weight, Config.of("safe"), sketch=bed.sketch(2), backend=broken)
    one = candidates.Candidate("safe", "broken", "mode", head.logits, 0.0, 1, head=head)
    verdict = Gate(bed, (4,)).judge(one)
    assert verdict.misses == 0 and "dense answered" in verdict.fault


def test_a_near_tie_is_no_miss_and_a_changed_winner_is(bed: beds.Bed) -> None:
    gate, dense = Gate(bed, (4,)), torch.nn.functional.linear
    right = candidates.Candidate("x", "y", "mode", lambda states: dense(states, bed.weight), 0.0, 1)
    assert gate.judge(right).misses == 0
    other = replace(right, answer=lambda states: dense(states, bed.weight.roll(1, 0)))
    assert gate.judge(other).misses == 16
    twin = bed.weight.clone()
    twin[0] = twin[int((bed.weight @ bed.states[0]).argmax())]  # the first of two equal rows wins instead
    moved = Gate(replace(bed, weight=twin), (1,)).judge(replace(right, answer=lambda states: dense(states, twin)))
    assert moved.misses == 0


def test_sketches_are_built_once_and_again_for_other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = beds.random(200, 32, cache=str(tmp_path))
    codes = first.sketch(2).codes.clone()
    (file,) = tmp_path.glob("random-200x32*2bit*.safetensors")
    stamp = file.stat().st_mtime_ns
    assert torch.equal(beds.random(200, 32, cache=str(tmp_path)).sketch(2).codes, codes)
    assert file.stat().st_mtime_ns == stamp
    other = replace(first, weight=first.weight * 2 + 1, _sketches={})
    artefact.check(artefact.read(str(file)), first.weight)
    assert not torch.equal(other.sketch(2).codes, codes)
    assert file.stat().st_mtime_ns != stamp


def test_winners_of_a_random_head_stand_out_as_far_as_is_said() -> None:
    bed = beds.random(2_000, 576)
    logits = bed.states @ bed.weight.T
    assert float(logits.amax(1).mean()) == pytest.approx(beds.STANDING, rel=0.05)
    assert float(logits.std()) == pytest.approx(1, rel=0.1)


def test_the_two_kinds_of_int8_keep_winners_and_distances(bed: beds.Bed) -> None:
    truth = bed.states @ bed.weight.T
    ways = {way: answer(bed.states.to(dtype)) for way, (answer, dtype) in baselines.torch_int8(bed.weight).items()}
    ways |= {engine: answer(bed.states) for engine, answer in baselines.torch_ao(bed.weight).items()}
    assert {"_weight_int8pack_mm", "_int_mm"} <= set(ways)
    ways["own"] = choose(torch.device("cpu")).scan(baselines.own_int8(bed.weight), bed.states)[0]
    for way, logits in ways.items():
        assert logits.is_floating_point(), way
        error = (logits.float() - truth).norm() / truth.norm()
        assert float(error) < 0.03, way


def test_codes_of_uneven_heads_are_as_good_whatever_their_scale() -> None:
    weight = torch.randn(70, 20, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 3, 70)[:, None]
    weight[3] = 0
    states = torch.randn(5, 20, generator=torch.Generator().manual_seed(1))
    found, _ = choose(torch.device("cpu")).scan(baselines.own_int8(weight), states)
    error = (found - states @ weight.T).abs() / (states.norm(dim=1)[:, None] * weight.norm(dim=1)).clamp_min(1e-9)
    assert float(error.amax()) < 0.01
    assert float(found[:, 3].abs().amax()) == 0


def test_of_ways_to_do_the_same_the_fastest_counts(bed: beds.Bed) -> None:
    plain = candidates.Candidate(FLOAT32, "torch", "baseline", lambda states: states @ bed.weight.T, 0.0, 1, way="once")
    slow = replace(
        plain, answer=lambda states: torch.stack([states @ bed.weight.T for _ in range(50)])[0], way="50 times"
    )
    times = timing.measure([slow, plain], bed.states, PLAN)
    assert {index for index, _, _ in times.cpu} == {1}
    assert all(len(values) == PLAN.rounds for values in times.cpu.values())
    assert [cell["way"] for cell in figures.cells([slow, plain], times)] == ["once"] * len(PLAN.cells)


def test_the_number_of_threads_is_put_back(bed: beds.Bed) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    def note(states: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return states

    timing.measure([candidates.Candidate("x", "y", "mode", note, 0.0, 1)], bed.states, PLAN)
    assert set(seen) == {1, 2} and torch.get_num_threads() == before


def test_ratios_are_made_within_rounds_and_of_minima() -> None:
    assert figures.ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == {"median": 2.0, "min": 2.0}


def test_noisy_rounds_are_left_out_while_enough_are_quiet() -> None:
    assert quiet.keep([1, 2, 3], [False, True, False], least=2) == [1, 3]
    assert quiet.keep([1, 2, 3], [True, True, False], least=2) == [1, 2, 3]


def test_whoever_else_runs_is_seen_in_what_the_kernel_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = iter([10.0, 14.0])
    own = iter([1.0, 3.0])
    monkeypatch.setattr(quiet, "_busy", lambda: next(busy))
    monkeypatch.setattr(quiet, "_own", lambda: next(own))
    monkeypatch.setattr(quiet, "time", SimpleNamespace(monotonic=iter([0.0, 4.0]).__next__))
    with quiet.Watch() as watch:
        pass
    assert watch.others == pytest.approx(0.5) and watch.noisy


@pytest.mark.parametrize("other", ['{"schema": 1, "modes": []}', "[]", "3", "{"])
def test_a_file_of_something_else_is_refused_and_kept(other: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(other, "utf-8")
    with pytest.raises(ConfigError, match=r"^json: "):
        run("--shape", "200x32", "--json", str(tmp_path / "other.json"), "--quiet")
    assert (tmp_path / "other.json").read_text("utf-8") == other


def test_a_backend_that_is_named_is_the_one_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert list(candidates.paths("torch")) == ["torch operations"]
    monkeypatch.setenv("VPLUG_LOGITS_BACKEND", "triton")
    with pytest.raises(BackendError, match="backend triton: it serves no device of type cpu"):
        run("--shape", "200x32", "--quiet")
    with pytest.raises(BackendError, match="backend triton"):
        run("--decode", "--quiet")
    monkeypatch.setenv("VPLUG_LOGITS_BACKEND", "tirton")
    with pytest.raises(ConfigError, match="Is 'triton' meant"):
        run("--shape", "200x32", "--quiet")


def test_clusters_are_measured_of_a_models_head_and_not_of_random_rows(bed: beds.Bed) -> None:
    plan = replace(PLAN, batches=(1,), threads=(1,), rounds=1)
    for source, found in (("a model", True), (names.RANDOM, False)):
        head = running.head(replace(bed, source=source, _sketches=bed._sketches), plan, clusters=True)
        assert ("clusters" in {cell["name"] for cell in head["cells"]}) == found


def test_a_debug_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    debug, release = (SimpleNamespace(build_info=lambda word=word: {"profile": word}) for word in ("debug", "release"))
    monkeypatch.setattr(machine, "kernels", lambda: debug)
    with pytest.raises(ConfigError, match="debug build"):
        running.document()
    monkeypatch.setattr(machine, "kernels", lambda: release)
    assert running.document()["machine"]["kernels"] == {"profile": "release"}


def test_the_command_measures_a_model_and_writes_all_files(
    tmp_path: Path, cache: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    folder, results = tiny_that_reads(tmp_path / "tiny"), tmp_path / "results.json"
    capsys.readouterr()
    words = [
        "--model",
        folder,
        "--shape",
        "900x128",
        f"{V}x{D}",
        "--batch",
        "1",
        "4",
        "--threads",
        "1",
        "--rounds",
        "2",
    ]
    assert run(*words, "--cache", cache, "--json", str(results), "--out", str(tmp_path / "new"), "--quiet") == 0
    shown = capsys.readouterr()
    document = json.loads(results.read_text("utf-8"))
    assert [(one["vocabulary"], one["width"]) for one in document["heads"]] == [(900, 128), (V, D)]
    assert "## 900 x 128: the head of tiny, states of text" in shown.out and not shown.err
    assert (tmp_path / "new" / "bench.md").read_text("utf-8") == shown.out == report.markdown(document, plot=True)
    assert "bench.svg" in shown.out and "bench.svg" not in report.markdown(document)
    assert (tmp_path / "new" / "bench.png").read_bytes().startswith(b"\x89PNG")
    again = ("--shape", "200x32", "--rounds", "1", "--batch", "1", "--cache", cache)
    assert run(*again, "--json", str(results), "--quiet") == 0
    assert len(json.loads(results.read_text("utf-8"))["heads"]) == 1  # the same part is replaced
    results.write_text(json.dumps(document | {"machine": document["machine"] | {"torch": "0.1"}}), "utf-8")
    with pytest.raises(ConfigError, match="of another machine or of other versions"):
        run("--shape", "200x32", "--json", str(results), "--quiet")
    first = (tmp_path / "new" / "bench.svg").read_bytes()
    plots.write(document, str(tmp_path / "again"))
    assert (tmp_path / "again" / "bench.svg").read_bytes() == first


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--vllm",), "--model says which model"),
        (("--json", "/nowhere/at/all.json"), "/nowhere/at is no folder that you can write to"),
        (("--out", "/nowhere/at/all"), "/nowhere/at is no folder that you can write to"),
        (("--json", "/usr"), "/usr is a folder; name a file"),
        (("--out", __file__), "is no folder; name one"),
        (("--clusters",), "--model says whose rows they are"),
    ],
)
def test_what_cannot_be_done_is_said_first(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        run(*words)


@pytest.mark.parametrize(
    ("option", "word"), [("--shape", "900"), ("--shape", "0x5"), ("--batch", "0"), ("--threads", "-")]
)
def test_a_number_that_is_none_is_answered_with_what_is_possible(
    option: str, word: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # what the command sets would stay
    assert main(["bench", option, word]) == 2
    assert "possible: " in capsys.readouterr().err
