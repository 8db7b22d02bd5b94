"""The entry point in `vllm.general_plugins`: has the head put in when vLLM's layer is imported, or says why not.

Every process of vLLM comes here, also those that never see a head, so nothing of vLLM or torch is imported for it.
Standard library only, and next to nothing of that where the head is switched off.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_logits.adapters.vllm.state import State

# `config` has the same words, and costs a process that is switched off more than all the rest
_SWITCH, _OFF = "VPLUG_LOGITS", ("0", "off", "false", "no")

_known: tuple[str, str] = ("unregistered", "vLLM has not called the plugin in this process")


def register() -> None:
    """Have the head put in when this process imports vLLM's logits layer.  May be called again; never raises."""
    global _known  # noqa: PLW0603  # one process, one state
    if _known[0] == "registered":
        return
    word = os.environ.get(_SWITCH, "").strip()
    if word.lower() in _OFF:
        _known = ("off", f"{_SWITCH} is {word}")
        return
    try:
        from vplug_logits.adapters.vllm import install

        install.install()
        _known = ("registered", "")
    except Exception as error:  # noqa: BLE001  # a plugin never stops its host; vLLM would not catch it
        _known = ("refused", f"{type(error).__name__}: {error}")
        from vplug_logits.adapters.vllm.log import log

        log.warning("vplug_logits is not active in process %d: %s", os.getpid(), _known[1])


def state() -> State:
    """What became of the head in this process, and why, as data."""
    from vplug_logits.adapters.vllm.state import current

    return current(*_known)


def changed_rows() -> dict[str, int]:
    """Whether weights were changed under the sketch: for each active head of this process, by name, how many rows.

    All rows are hashed, so ask after a reload, in the worker: `llm.collective_rpc(...)`. A head with any is dense from
    then on.
    """
    from vplug_logits.adapters.vllm import state

    return state.changed_rows()
