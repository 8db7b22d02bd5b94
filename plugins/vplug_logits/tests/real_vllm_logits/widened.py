"""SmolLM2 with heads of attention that two ranks can share: nine become twelve, and say nothing more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

QUERIES, KEYS, WIDTH = (9, 12), (3, 4), 64  # heads before and after, numbers of each


def widened(model: Path, folder: Path) -> Path:
    """The same function in another shape: the new heads are zeros, and nobody reads what they give.

    Args:
        model: SmolLM2-135M-Instruct.
        folder: Where the new one goes.
    """
    target = folder / "SmolLM2-135M-widened"
    shutil.copytree(model, target, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((model / "config.json").read_text("utf-8"))
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (QUERIES[0], KEYS[0])
    config |= {"num_attention_heads": QUERIES[1], "num_key_value_heads": KEYS[1], "head_dim": WIDTH}
    (target / "config.json").write_text(json.dumps(config), "utf-8")
    tensors = load_file(model / "model.safetensors")
    rows = {"q_proj.weight": QUERIES[1], "k_proj.weight": KEYS[1], "v_proj.weight": KEYS[1]}
    for name, tensor in tensors.items():
        kind = ".".join(name.split(".")[-2:])
        missing = rows.get(kind, 0) * WIDTH - tensor.shape[0]
        if kind in rows:
            tensors[name] = torch.nn.functional.pad(tensor, (0, 0, 0, missing))
        elif kind == "o_proj.weight":
            tensors[name] = torch.nn.functional.pad(tensor, (0, QUERIES[1] * WIDTH - tensor.shape[1]))
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target
