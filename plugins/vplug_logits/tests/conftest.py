"""What the tests share: seeds, small heads."""

from __future__ import annotations

pytest_plugins = ("smollm2",)

collect_ignore = ["real_vllm_logits"]  # real engines, in an environment of their own
