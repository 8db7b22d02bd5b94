"""What a worker knows of the model whose logits a layer makes, noted when the layer is made.

`_apply_head` is given a head and hidden states and nothing else, and vLLM's configuration is current while models are
made and not while they run. `LogitsProcessor.__init__` asks for it itself in both releases that are known, so there it
is always current, in every runner and executor; the process's own globals (`sys.argv`, the engine) are not there in a
worker, and a model runner found by its callers' frames would be another class for each runner and each drafter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from vplug_logits.adapters.vllm.log import log

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


@dataclass(frozen=True, slots=True)
class Origin:
    """The model that a layer belongs to, as the engine was told.

    Attributes:
        model: Folder or name on a hub.
        revision: Of the hub, or None.
        dtype: What the model runs in.
        lora: The modules that adapters may change, or None where LoRA is off; empty: all that can be.
        speculative: Whether a drafter belongs to the engine, whose head may be one of its own.
        generates: Whether tokens are made at all: a pooling model has the layer, too.
    """

    model: str
    revision: str | None
    dtype: torch.dtype
    lora: tuple[str, ...] | None
    speculative: bool
    generates: bool


_origins: WeakKeyDictionary[Any, Origin] = WeakKeyDictionary()


def of(processor: Any) -> Origin | None:
    """What was noted of a layer, or None for one that was made before us or without a configuration."""
    return _origins.get(processor)


def observer(then: Callable[[Origin], None]) -> Callable[[Any], Callable[..., None]]:
    """Make the replacement of `LogitsProcessor.__init__`: the original, and then a note.

    Args:
        then: Called with each new origin.
    """

    def make(original: Any) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  # it stands for one
            original(self, *args, **kwargs)
            try:
                origin = _current()
                if origin is not None:
                    _origins[self] = origin
                    then(origin)
            except Exception as error:  # noqa: BLE001  # the model is made, and its head stays dense or is found out later
                log.warning("vplug_logits: the model was not noted: %s: %s", type(error).__name__, error)

        return __init__

    return make


def _current() -> Origin | None:
    from vllm.config import get_current_vllm_config_or_none

    config = get_current_vllm_config_or_none()
    if config is None or config.model_config is None:
        return None
    model: Any = config.model_config
    lora = config.lora_config
    return Origin(
        model=str(model.model),
        revision=model.revision,
        dtype=model.dtype,
        lora=None if lora is None else tuple(lora.target_modules or ()),
        speculative=config.speculative_config is not None,
        generates=model.runner_type == "generate",
    )
