"""Lines for people.  vLLM shows what its own loggers say, so ours is one of them."""

from __future__ import annotations

import logging

log = logging.getLogger("vllm.vplug_logits")
