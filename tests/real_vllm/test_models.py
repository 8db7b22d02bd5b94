"""Models by name in front of vLLM's own registry: those of a plugin are known everywhere, those of a script are not."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import lab

if TYPE_CHECKING:
    from pathlib import Path

SNIPPET = """
# pyproject.toml
[project.entry-points."vllm.general_plugins"]
probe_llama = "probe_llama_plugin:register"
"""


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory, model: Path) -> dict[str, lab.Done]:
    """A start with a checkpoint of each architecture."""
    site = lab.plant(tmp_path_factory.mktemp("site"), "probe_models", {"vllm.general_plugins": "probe_models:register"})
    done = {}
    for arch in ("PluginLlama", "ScriptLlama"):
        folder = tmp_path_factory.mktemp(arch)
        shutil.copytree(model, folder / "model")
        config = json.loads((model / "config.json").read_text("utf-8")) | {"architectures": [arch]}
        (folder / "model" / "config.json").write_text(json.dumps(config), "utf-8")
        env = lab.environment(folder, site, VLLM_ENABLE_V1_MULTIPROCESSING="1")
        done[arch] = lab.run(folder, lab.program("models", folder / "model", folder / "result"), env)
        assert done[arch].status == 0, done[arch].log
    return done


def test_a_model_of_a_plugin_is_known_in_every_process_and_runs(starts: dict[str, lab.Done]) -> None:
    answer = starts["PluginLlama"].answer
    assert answer.get("error") is None, starts["PluginLlama"].log
    assert len(answer["tokens"]) == 4
    for where in ("here", "spawned"):
        theirs, ours, said = answer[where]["PluginLlama"]
        assert (theirs, ours) == (True, True)
        assert said.startswith(
            "registered: PluginLlama = probe_llama:PluginLlama, registered by probe_models 1.0 (`"
        ), said


def test_nothing_of_it_is_imported_when_it_is_registered(starts: dict[str, lab.Done]) -> None:
    assert starts["PluginLlama"].answer["imported"] is False


def test_a_model_of_a_script_is_lost_in_other_processes_and_the_diagnosis_says_so(starts: dict[str, lab.Done]) -> None:
    done = starts["ScriptLlama"]
    theirs, ours, said = done.answer["here"]["ScriptLlama"]
    assert (theirs, ours) == (True, True)
    assert said.startswith("script-only: ScriptLlama = probe_llama:ScriptLlama, registered by `") and SNIPPET in said
    theirs, ours, said = done.answer["spawned"]["ScriptLlama"]
    assert (theirs, ours) == (False, False)
    line = lab.PROGRAMS.joinpath("models.py").read_text("utf-8").partition('register_model("Script')[0].count("\n") + 1
    assert f"programs/models.py:{line}` has a call that does" in said and SNIPPET in said
    # and so the engine says
    assert "tokens" not in done.answer
    assert "Model architectures ['ScriptLlama'] are not supported for now" in done.log


def test_what_vllm_has_of_its_own_is_told_from_ours(starts: dict[str, lab.Done]) -> None:
    theirs, ours, said = starts["PluginLlama"].answer["spawned"]["LlamaForCausalLM"]
    assert (theirs, ours) == (True, True)
    assert said.startswith("vllm: vLLM has `LlamaForCausalLM` as `vllm.model_executor.models.llama:LlamaForCausalLM`")


def test_none_of_vllms_own_models_is_refused(starts: dict[str, lab.Done]) -> None:
    verdicts = starts["PluginLlama"].answer["verdicts"]
    assert len(verdicts) > 300
    assert [said for said in verdicts.values() if said.startswith("refused")] == []
    # packages whose names are made when they are asked for
    assert sum(bool(said) for said in verdicts.values()) < len(verdicts) / 20
