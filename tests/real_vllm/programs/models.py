"""Registers a model in a script, tells what is known here and in a spawned process, starts: models.py MODEL RESULT."""

from __future__ import annotations

import json
import multiprocessing
import sys
import traceback
from typing import Any

from vllm import LLM, ModelRegistry, SamplingParams
from vllm.plugins import load_general_plugins

from vplug_rs import VplugError
from vplug_rs.interfaces.model_registry import MODELS, diagnose, register_model
from vplug_rs.interfaces.model_registry import ModelRegistry as OurRegistry


def known() -> dict[str, Any]:
    """What this process has, after vLLM has loaded its plugins as in any of its processes."""
    load_general_plugins()
    theirs = ModelRegistry.get_supported_archs()
    return {
        arch: [arch in theirs, arch in MODELS.get_supported_archs(), str(diagnose(arch))]
        for arch in ("PluginLlama", "ScriptLlama", "LlamaForCausalLM")
    }


def tokens(model: str) -> list[int]:
    """Some tokens of a model, by an engine with processes of its own."""
    llm = LLM(model=model, max_model_len=128, max_num_seqs=2, enforce_eager=True, disable_log_stats=True)
    sampling = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    (output,) = llm.generate({"prompt_token_ids": [5, 6, 7]}, sampling, use_tqdm=False)
    return list(output.outputs[0].token_ids)


def verdicts() -> dict[str, str]:
    """What our check says of vLLM's own models: nothing, what it cannot tell, or a refusal."""
    found = {}
    for arch, lazy in ModelRegistry.models.items():
        try:
            found[arch] = OurRegistry().register_model(arch, f"{lazy.module_name}:{lazy.class_name}").doubt
        except VplugError as error:
            found[arch] = f"refused: {error}"
    return found


def main(model: str, result: str) -> None:
    """Write what was found, and how the start ended."""
    answer: dict[str, Any] = {"verdicts": verdicts()}
    register_model("ScriptLlama", "probe_llama:ScriptLlama")
    answer["imported"] = "probe_llama" in sys.modules
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        answer |= {"here": known(), "spawned": pool.apply(known)}
    try:
        answer["tokens"] = tokens(model)
    except Exception:
        answer["error"] = traceback.format_exc()
    with open(result, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)


if __name__ == "__main__":
    main(*sys.argv[1:])
