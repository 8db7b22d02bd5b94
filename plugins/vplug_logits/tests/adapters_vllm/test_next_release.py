"""The next vLLM, as far as its modules run without a GPU: the tests of the layer, and what its runners are made of."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import next_release
import pytest

HERE = Path(__file__).resolve().parent
RUNNERS = {"v1/worker/gpu_model_runner.py": "GPUModelRunner", "v1/worker/gpu/model_runner.py": "GPUModelRunner"}


@pytest.fixture(scope="module")
def modules() -> Path:
    pytest.importorskip("torch")
    return next_release.modules()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_tests_of_the_layer_pass_with_its_modules(modules: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(modules), "VLLM_TARGET_DEVICE": "cpu", "VLLM_NO_USAGE_STATS": "1"}
    told = "import vllm, sys; print(vllm.__file__)"
    where = subprocess.run([sys.executable, "-c", told], env=env, capture_output=True, text=True, check=False)
    if where.returncode:
        pytest.skip(f"its modules cannot be imported here: {where.stderr.splitlines()[-1:]}")
    assert where.stdout.strip().startswith(str(modules))
    words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "test_layer.py")]
    done = subprocess.run(
        [sys.executable, *words], cwd=HERE.parents[1], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def functions(path: Path, owner: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text("utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
    return {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}


def called(function: ast.FunctionDef) -> set[str]:
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {call.attr for call in calls if isinstance(call, ast.Attribute)}


def attributes(node: ast.AST) -> set[str]:
    return {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def test_the_first_runner_asks_for_logits_where_we_look(modules: Path) -> None:
    found = functions(modules / "vllm" / "v1/worker/gpu_model_runner.py", "GPUModelRunner")
    asking = {name for name, function in found.items() if "compute_logits" in called(function)}
    assert asking == {"execute_model", "_get_prompt_logprobs_dict", "_dummy_sampler_run"}
    assert {"requests", "input_batch"} <= attributes(found["__init__"])


def test_the_second_runner_asks_for_logits_where_we_look(modules: Path) -> None:
    folder = modules / "vllm" / "v1/worker/gpu"
    found = functions(folder / "model_runner.py", "GPUModelRunner")
    asking = {name for name, function in found.items() if {"compute_logits", "compute_logits_local"} & called(function)}
    assert asking == {"sample", "_dummy_sampler_run"}
    sample = found["sample"]
    assert [one.arg for one in sample.args.args] == ["self", "hidden_states", "input_batch", "grammar_output"]
    assert {"req_states", "sampler", "batch_sharder"} <= attributes(found["__init__"])
    text = (folder / "input_batch.py").read_text("utf-8")
    for name in ("req_ids", "num_reqs", "idx_mapping_np", "cu_num_logits_np"):
        assert f"\n    {name}: " in text
    prompt = (folder / "sample" / "prompt_logprob.py").read_text("utf-8")
    assert "def compute_prompt_logprobs(" in prompt
    assert "def compute_prompt_token_id_logprobs(" in prompt


@pytest.mark.parametrize(
    ("file", "owner", "names"),
    [
        ("sampler.py", "Sampler", {"sampling_states", "logits_processors"}),
        ("states.py", "SamplingStates", {"temperature", "top_k"}),
        ("logit_bias.py", "LogitBiasState", {"use_logit_bias"}),
        ("penalties.py", "PenaltiesState", {"use_penalty"}),
        ("bad_words.py", "BadWordsState", {"num_bad_words"}),
    ],
)
def test_the_second_runners_sampler_keeps_what_we_read(modules: Path, file: str, owner: str, names: set[str]) -> None:
    init = functions(modules / "vllm" / "v1/worker/gpu/sample" / file, owner)["__init__"]
    stored = {
        node.attr for node in ast.walk(init) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    assert names <= stored


def test_models_call_the_layer_as_it_is_patched(modules: Path) -> None:
    path = modules / "vllm" / "model_executor/layers/logits_processor.py"
    layer: dict[str, Any] = functions(path, "LogitsProcessor")
    assert [one.arg for one in layer["_apply_head"].args.args] == [
        "self",
        "lm_head",
        "hidden_states",
        "embedding_bias",
    ]
    assert {name for name, function in layer.items() if "_apply_head" in called(function)} == {
        "_get_logits",
        "get_top_tokens",
        "get_top_k_tokens",
    }
    assert "get_current_vllm_config" in ast.dump(layer["__init__"])
