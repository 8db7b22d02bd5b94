import builtins
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from heads import head, hidden
from vplug_logits.config import Mode
from vplug_logits.errors import ConfigError
from vplug_logits.evaluation import plots
from vplug_logits.evaluation.curves import ClusterCurve, misses
from vplug_logits.evaluation.report import SCHEMA, tables
from vplug_logits.evaluation.running import Wanted, evaluate
from vplug_logits.evaluation.states import States
from vplug_logits.metric import second_moment
from vplug_logits.reference.clusters import probed

V, D, N = 1600, 40, 90
SUMMARY = {
    "states": int,
    "misses": int,
    "ties": int,
    "miss_rate": float,
    "top_kept": float,
    "variation_mean": float,
    "variation_largest": float,
    "top_error_mean": float,
    "top_error_largest": float,
    "rest_error_mean": float,
    "rest_sigma": float,
    "rest_sigma_largest": float,
    "rescored_mean": float,
    "rescored_p99": float,
    "fallback_rate": float,
}
DOCUMENT = {
    "schema": int,
    "model": str,
    "vocabulary": int,
    "width": int,
    "dtype": str,
    "seed": int,
    "states": int,
    "sources": dict,
    "dense_bytes": float,
    "methods": list,
    "curves": list,
}


@pytest.fixture(scope="module")
def states() -> States:
    rows = hidden(N, D, seed=3)
    return States(rows, ("prose", "code"), torch.arange(N) // (N // 2), torch.arange(N) % 3)


@pytest.fixture(scope="module")
def document(states: States) -> dict[str, Any]:
    moment = second_moment([hidden(400, D, seed=4)])
    return evaluate(head(V, D), moment, states, Wanted(states=N), name="small")


def method(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (one for one in document["methods"] if one["name"] == name)
    return dict(found)


def test_the_document_has_the_fields_of_its_schema_and_survives_json(document: dict[str, Any]) -> None:
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again == document
    assert {name: type(value) for name, value in document.items()} == DOCUMENT
    assert document["schema"] == SCHEMA == 1
    for one in document["methods"]:
        assert set(one) == {"name", "kind", "bytes", "all", "domains", "sources"}
        assert one["kind"] in {"mode", "baseline"}
        for summary in (one["all"], *one["domains"].values(), *one["sources"].values()):
            assert summary.keys() == SUMMARY.keys()
            assert all(value is None or type(value) is SUMMARY[name] for name, value in summary.items())
    for curve in document["curves"]:
        assert all(set(point) == {"chosen", "bytes", "misses"} for point in curve["points"])


def test_every_mode_and_baseline_is_there_and_counts_every_state(document: dict[str, Any]) -> None:
    names = [one["name"] for one in document["methods"]]
    assert names == [*map(str, Mode), "dense-bf16", "int8", "int4", "cosine-clusters"]
    for one in document["methods"]:
        assert one["all"]["states"] == N == sum(part["states"] for part in one["domains"].values())
        assert one["all"]["misses"] == sum(part["misses"] for part in one["sources"].values())


def test_modes_that_promise_densely_chosen_tokens_keep_it_and_coarse_baselines_do_not(document: dict[str, Any]) -> None:
    assert method(document, "exact")["all"]["misses"] == 0
    assert method(document, "safe")["all"]["misses"] == 0
    assert method(document, "cosine-clusters")["all"]["misses"] > 0


def test_errors_of_estimates_have_the_size_that_their_model_says(document: dict[str, Any]) -> None:
    for name in ("exact", "safe"):
        assert 0.3 < method(document, name)["all"]["rest_sigma"] < 1.3
    assert method(document, "int8")["all"]["rest_sigma"] is None


def test_rows_that_were_scored_are_counted_for_each_state(document: dict[str, Any]) -> None:
    fast, clusters = method(document, "fast")["all"], method(document, "clusters")["all"]
    assert fast["rescored_mean"] >= 512 and fast["rescored_p99"] >= 512
    assert clusters["rescored_mean"] == clusters["rescored_p99"] == 10 * 16  # 3/32 of 100 clusters
    assert method(document, "dense")["all"]["rescored_mean"] is None


def test_the_cosine_rule_reads_no_more_than_the_clusters_it_stands_beside(document: dict[str, Any]) -> None:
    assert method(document, "cosine-clusters")["bytes"] <= method(document, "clusters")["bytes"]


def test_a_curve_meets_the_method_where_both_choose_the_same(document: dict[str, Any]) -> None:
    fast = method(document, "fast")["all"]
    (one_bit,) = (curve for curve in document["curves"] if curve["name"] == "1 bit")
    (at,) = (point for point in one_bit["points"] if point["chosen"] == 512)
    assert round(at["misses"] * N) == fast["misses"] + fast["ties"]
    assert [point["misses"] for point in one_bit["points"]] == sorted(
        (point["misses"] for point in one_bit["points"]), reverse=True
    )


def test_a_curve_of_clusters_counts_winners_that_are_not_probed(states: States) -> None:
    from vplug_logits.clusters import balanced_clusters

    weight = head(V, D)
    clusters = balanced_clusters(weight, kind="cosine", iterations=1)
    winners = (states.states @ weight.T).argmax(1)
    curve = ClusterCurve("any", clusters)
    for point in misses(curve, curve.ranks(states.states, winners)):
        reached = probed(clusters, states.states, int(point["chosen"])).gather(1, winners[:, None])
        assert point["misses"] == pytest.approx(float((~reached).double().mean()))


def test_tables_have_a_row_for_each_method_and_fit_a_terminal(document: dict[str, Any]) -> None:
    text = tables(document)
    assert "small: V = 1,600, d = 40, float32; 90 distinct states" in text
    assert max(map(len, text.splitlines())) <= 120
    for one in document["methods"]:
        assert sum(line.split()[0] == one["name"] for line in text.splitlines() if line) == 3
    rate = 100 * method(document, "int4")["all"]["miss_rate"]
    (line,) = (line for line in text.splitlines() if line.startswith("int4") and line.count(".") == 2)
    assert f"{rate:.3f}" in line


def test_few_modes_and_no_curves_where_that_is_asked_for(states: States) -> None:
    wanted = Wanted((Mode.FAST,), states=N, quick=True)
    found = evaluate(head(V, D), second_moment([hidden(400, D)]), states, wanted, name="small")
    assert [one["name"] for one in found["methods"]] == ["fast", "dense-bf16", "int8", "int4"]
    assert found["curves"] == []
    assert "fast" in tables(found)


def test_plots_are_drawn_in_both_formats(document: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files = plots.write(document, str(tmp_path / "new"))
    assert [file.name for file in files] == ["misses.png", "misses.svg", "domains.png", "domains.svg"]
    for file in files:
        start = file.read_bytes()[:300]
        assert start.startswith(b"\x89PNG") if file.suffix == ".png" else b"<svg" in start or b"<?xml" in start
    assert "cosine-clusters" in files[1].read_text("utf-8") or files[1].stat().st_size > 10_000


def test_without_matplotlib_the_extra_is_named(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'vplug_logits\[plots\]'"):
        plots.write(document, str(tmp_path))
