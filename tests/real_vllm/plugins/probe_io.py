"""An IO processor: the text goes in backwards, and what comes out is told by its size."""

from __future__ import annotations

from typing import Any

from vllm.plugins.io_processors.interface import IOProcessor
from vllm.pooling_params import PoolingParams

from probe import tell


class Backwards(IOProcessor[Any, Any]):
    def parse_data(self, data: Any) -> str:
        return str(data["text"])

    def merge_pooling_params(self, params: PoolingParams | None = None) -> PoolingParams:
        return PoolingParams(task="embed")

    def pre_process(self, prompt: Any, request_id: str | None = None, **kwargs: Any) -> str:
        tell("io_pre_process", prompt=prompt)
        return str(prompt)[::-1]

    def post_process(self, model_output: Any, request_id: str | None = None, **kwargs: Any) -> dict[str, Any]:
        return {"tokens": list(model_output[0].prompt_token_ids), "width": len(model_output[0].outputs.data)}
