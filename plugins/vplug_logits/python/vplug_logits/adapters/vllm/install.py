"""What happens when vLLM registers us: nothing yet, but that its logits layer is patched as soon as it is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vplug_logits.adapters.vllm import figures
from vplug_logits.adapters.vllm.log import log
from vplug_logits.adapters.vllm.watch import when_imported
from vplug_logits.config import Config

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from vplug_logits.adapters.vllm.heads import Heads
    from vplug_logits.adapters.vllm.patching import Applied

LAYER = "vllm.model_executor.layers.logits_processor"
METRICS = "prometheus_client"


class Installation:
    """What became of the patch in this process.

    Attributes:
        config: What is asked for.
        state: "waiting" (the layer is not imported), "patched", "refused" or "undone".
        reason: In one sentence.
        heads: The heads, once it is patched.
        patches: What was replaced.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.state, self.reason = "waiting", f"{LAYER} is not imported in this process"
        self.heads: Heads | None = None
        self.patches: list[Applied] = []

    def undo(self) -> None:
        """Give vLLM its own functions back; heads that were active are dense again."""
        for patch in reversed(self.patches):
            patch.undo()
        self.patches.clear()
        self.state, self.reason = "undone", "it was undone"


_installed: Installation | None = None


def installation() -> Installation | None:
    """What became of the patch in this process, or None where nobody asked for it."""
    return _installed


def install() -> None:
    """Read the settings, and have the layer patched when it is imported; once.

    Raises:
        ConfigError: A setting that means nothing.
    """
    global _installed  # noqa: PLW0603  # one process, one installation
    if _installed is not None:
        return
    config = Config.from_environment()
    if config is None:
        return
    made = Installation(config)
    when_imported(LAYER, lambda module: _patch(module, made))
    try:
        folder = figures.prepare()
        when_imported(METRICS, lambda module: _show(module, folder))
    except OSError as error:
        log.warning("vplug_logits is not shown by the metrics: %s", error)
    _installed = made


def _patch(module: ModuleType, made: Installation) -> None:
    """Patch the layer; inside an import of vLLM, which goes on whatever happens."""
    try:
        from vplug_logits.adapters.vllm import origin, patching, sources
        from vplug_logits.adapters.vllm.heads import Heads

        heads = Heads(made.config)
        layer = module.LogitsProcessor
        made.patches.append(patching.replace(layer, "_apply_head", heads.replacement, _takes_head))
        observer = origin.observer(lambda born: sources.wait(made.config, born))
        made.patches.append(patching.replace(layer, "__init__", observer))
        made.heads = heads
        made.state, made.reason = "patched", f"by {made.patches[0].by}"
    except Exception as error:  # noqa: BLE001  # vLLM lives, and is told
        made.undo()
        made.state, made.reason = "refused", f"{type(error).__name__}: {error}"
        log.warning("vplug_logits is not active, every head stays dense: %s", made.reason)


def _show(module: ModuleType, folder: str) -> None:
    try:
        from vplug_logits.adapters.vllm import metrics

        metrics.add(module, folder)
    except Exception as error:  # noqa: BLE001  # the same
        log.warning("vplug_logits is not shown by the metrics: %s: %s", type(error).__name__, error)


def _takes_head(self: Any, lm_head: Any, hidden_states: Any, embedding_bias: Any) -> None:
    """The signature that is expected; the same in vLLM 0.32 and 0.33."""
