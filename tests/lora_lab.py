"""Adapters made for the tests: small, whole, and damaged on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE = "acme/base-7b"
LIST = {"peft_type": "LORA", "base_model_name_or_path": BASE, "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}


def config(**changes: Any) -> bytes:
    """A configuration; a change to `...` takes the key out."""
    found = {key: value for key, value in {**LIST, **changes}.items() if value is not ...}
    return json.dumps(found).encode()


def weights(mark: bytes = b"in", header: Any = None, *, length: int | None = None, data: bytes | None = None) -> bytes:
    """A safetensors file of one tensor, whose data is 16 times `mark`."""
    content = (mark * 16)[:32] if data is None else data
    entry = {"a.lora_A.weight": {"dtype": "F16", "shape": [4, 4], "data_offsets": [0, 32]}}
    text = header if isinstance(header, bytes) else json.dumps(entry if header is None else header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + content


def adapter(**changes: Any) -> dict[str, bytes]:
    """The tree of a whole adapter, with changes to its configuration."""
    return {"adapter_config.json": config(**changes), "adapter_model.safetensors": weights()}


def content(path: str | Path) -> dict[str, bytes]:
    """What lies in a folder."""
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}
