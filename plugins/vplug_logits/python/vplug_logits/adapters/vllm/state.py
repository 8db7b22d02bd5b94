"""Whether the head is active in this process, and why not, as data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class State:
    """What became of the head in one process.

    Attributes:
        pid: The process.
        state: "unregistered" (vLLM has not called the plugin), "off" (switched off), "waiting" (the layer is not
            imported), "patched" (see `heads`) or "refused".
        reason: In one sentence.
        mode: What is asked for, or None.
        heads: For each head that has made logits: name, rank, mode, backend ("" while it is not active), state
            ("looking", "building", "active", "dense"), reason, counters.
        failures: Calls in which the patch itself failed and vLLM's own function answered.
    """

    pid: int
    state: str
    reason: str
    mode: str | None = None
    heads: tuple[dict[str, Any], ...] = ()
    failures: int = 0


def changed_rows() -> dict[str, int]:
    """For each active head of this process, by name, how many rows are not those of its sketch any more."""
    from vplug_logits.adapters.vllm.install import installation

    made = installation()
    return {} if made is None or made.heads is None else made.heads.changed_rows()


def current(word: str, reason: str) -> State:
    """The state of this process.

    Args:
        word: What the entry point knows: "unregistered", "off", "refused" or "registered".
        reason: The same.
    """
    pid = os.getpid()
    if word != "registered":
        return State(pid, word, reason)
    from vplug_logits.adapters.vllm.install import installation

    made = installation()
    if made is None:
        return State(pid, "off", "the settings switch it off")
    heads = made.heads
    return State(
        pid,
        made.state,
        made.reason,
        str(made.config.mode),
        () if heads is None else tuple(heads.snapshot()),
        0 if heads is None else heads.failures,
    )
