"""One head of this worker: left dense, waiting for its sketch, or answered in two stages.

    looking -> active | building | dense        at the first call, when the weights are there
    building -> active | dense                  looked at once a second at most; dense answers meanwhile
    active -> dense                             after `PATIENCE` exceptions in a row

Nothing here raises into vLLM, and nothing is dense in silence: each row that the dense head answers is counted under a
reason, and each change of state is a line in the log and a row of `vplug_logits.plugin.state()`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from vplug_logits.adapters.vllm import judge, origin, requests, sources
from vplug_logits.adapters.vllm.log import log
from vplug_logits.config import Mode
from vplug_logits.counters import Counters
from vplug_logits.errors import ArtefactForeignError, LogitsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vplug_logits.adapters.vllm.requests import Asked
    from vplug_logits.adapters.vllm.spread import Spread
    from vplug_logits.config import Config
    from vplug_logits.head import Head
    from vplug_logits.server_build import BackgroundBuild

LOOKING, BUILDING, ACTIVE, DENSE = "looking", "building", "active", "dense"
PATIENCE = 8  # exceptions in a row, each answered densely, before the head is left alone
POLL_SECONDS = 1.0


class Serving:
    """What is done about one head.

    Attributes:
        name: The head's name in the model, or its class where it has none.
        rank: Of this process among those that share the vocabulary.
        state: "looking", "building", "active" or "dense".
        reason: Why it is not active, in one sentence; else what it is active with.
        errors: Exceptions that the dense head answered for.

    Args:
        processor: vLLM's `LogitsProcessor`.
        lm_head: The head; not kept.
        config: What is asked for.
        dense: The dense answer to hidden states `(n, d)`.
    """

    def __init__(
        self, processor: Any, lm_head: Any, config: Config, dense: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        self.name = str(getattr(lm_head, "prefix", "") or type(lm_head).__name__)
        self.rank = int(getattr(lm_head, "tp_rank", 0))
        self.state, self.reason, self.errors = LOOKING, "it has not been asked for logits yet", 0
        self._config, self._dense = config, dense
        self._origin = origin.of(processor)
        self._counters = Counters()  # until there is a head, which then goes on with them
        self._head: Head | None = None
        self._spread: Spread | None = None
        self._has_told = False
        self._build: BackgroundBuild | None = None
        self._in_a_row = 0
        self._next_look = 0.0

    def logits(self, processor: Any, lm_head: Any, states: torch.Tensor, bias: Any) -> torch.Tensor | None:
        """Logits of this rank's rows for each state, or None: the dense head is to answer, and that is counted."""
        if self.state in {LOOKING, BUILDING}:
            self._look(processor, lm_head)
        reason = self._not_now(lm_head, states, bias)
        wanted = requests.asked(_rows(states)) if self._head is not None and reason is None else requests.Asked()
        if wanted.prompt:
            reason = "prompt"
        elif not wanted.known:
            reason = self._unknown_caller()
        elif wanted.altered and len(wanted.altered) == states.shape[0]:
            reason = "altered"
        if self._head is None or reason is not None:
            self._counters.fallback(reason or ("building" if self.state == BUILDING else "inactive"), _rows(states))
            return None
        try:
            answer = self._answered(self._head, states, wanted)
        except Exception as error:  # noqa: BLE001  # the server lives: dense answers, and it is counted and told
            self._counters.fallback("error", _rows(states))
            self._failed(error)
            return None
        wrong_weights = self._head.drifted
        if self._head.error is None:
            self._in_a_row = 0
        else:
            self._failed(self._head.error)  # it has answered densely, and counted that
        if wrong_weights and self.state == ACTIVE:
            self._head = None
            self._stay_dense("its weights were changed since the sketch was checked against them")
        return answer

    def changed_rows(self) -> int | None:
        """How many of this rank's rows are not those of the sketch any more; None where it is not active."""
        return None if self._head is None else self._head.changed_rows()

    def snapshot(self) -> dict[str, Any]:
        """What is told about it, as plain data."""
        counters = self._counters.snapshot()
        counters["errors"] = self.errors
        return {
            "name": self.name,
            "rank": self.rank,
            "mode": str(self._config.mode),
            "backend": "" if self._head is None else self._head.backend,
            "state": self.state,
            "reason": self.reason,
            "counters": counters,
        }

    def _answered(self, head: Head, states: torch.Tensor, wanted: Asked) -> torch.Tensor:
        """Two stages for the states that may have them, the dense head for the others."""
        if not wanted.altered and not wanted.drawn:
            return head.logits(states)
        free = [row for row in range(states.shape[0]) if row not in wanted.altered]
        fine = head.logits(states[free])
        answer = fine.new_empty((states.shape[0], fine.shape[1]))
        answer[free] = fine
        self._redo(answer, states, sorted(wanted.altered), "altered")
        drawn = [row for row in free if row in wanted.drawn]
        if drawn and self._spread is not None:
            heat = [wanted.drawn[row] for row in drawn]
            wide = self._spread.too_wide(states[drawn], answer[drawn], heat).tolist()
            self._redo(answer, states, [row for row, is_wide in zip(drawn, wide, strict=True) if is_wide], "spread")
        return answer

    def _unknown_caller(self) -> str:
        """Nobody says what the requests do with their logits, so estimates may be wrong for them."""
        if not self._has_told:
            self._has_told = True
            log.warning(
                "vplug_logits: %s is asked by no model runner that is known, so nobody says what its requests do with "
                "the logits: the dense head answers",
                self.name,
            )
        return "caller"

    def _redo(self, answer: torch.Tensor, states: torch.Tensor, rows: list[int], reason: str) -> None:
        if rows:
            answer[rows] = self._dense(states[rows])
            self._counters.fallback(reason, len(rows))

    def _not_now(self, lm_head: Any, states: torch.Tensor, bias: Any) -> str | None:
        """Why this one call is dense, as a slug of `counters.REASONS`."""
        if self._head is None:
            return None
        if bias is not None:
            return "bias"
        if torch.compiler.is_compiling() or (states.is_cuda and torch.cuda.is_current_stream_capturing()):
            return "capture"  # a selection has a size that only the states know
        if states.dim() != 2:  # noqa: PLR2004  # (n, d)
            return "shape"
        return None if self._head.weight is lm_head.weight else "weight"

    def _look(self, processor: Any, lm_head: Any) -> None:
        """One step on the way to being active, if it is time for one."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + POLL_SECONDS
        try:
            if self.state == LOOKING:
                self._begin(processor, lm_head)
            elif self._build is not None:
                self._follow(self._build, processor, lm_head)
        except LogitsError as error:
            self._stay_dense(str(error))
        except Exception as error:  # noqa: BLE001  # the same: no fault of ours stops the server
            self._stay_dense(f"{type(error).__name__}: {error}")

    def _begin(self, processor: Any, lm_head: Any) -> None:
        if self._config.mode is Mode.DENSE:
            self._stay_dense("the mode is dense", expected=True)
            return
        why = judge.objection(processor, lm_head, self._origin)
        if why is not None:
            self._stay_dense(why)
            return
        path = sources.find(self._config, self._origin, lm_head.weight.dtype)
        if path is None:
            self._begin_build(lm_head, "there is no sketch of this model yet")
            return
        try:
            self._activate(path, processor, lm_head)
        except ArtefactForeignError as error:
            # the model's folder has other weights than when it was built, or this is a drafter's own head
            if self._config.artefact is not None or self._origin is None or self._origin.speculative:
                raise
            self._begin_build(lm_head, str(error))

    def _begin_build(self, lm_head: Any, why: str) -> None:
        if self._config.build == "never":
            self._stay_dense(f"{why}; VPLUG_LOGITS_BUILD is never. `vplug-logits build MODEL` makes one.")
        elif self._origin is None:
            self._stay_dense(f"{why}, and vLLM did not tell which model this is; VPLUG_LOGITS_ARTEFACT names a file")
        else:
            self._build = sources.build(self._config, self._origin, lm_head.weight.dtype)
            self._now(BUILDING, f"{why}; a child process builds it, and dense answers meanwhile")

    def _follow(self, build: BackgroundBuild, processor: Any, lm_head: Any) -> None:
        done = sources.outcome(build)
        if done is None:
            return
        self._build = None
        self._activate(done, processor, lm_head)

    def _activate(self, path: str, processor: Any, lm_head: Any) -> None:
        rows = judge.shard(lm_head)
        head, spread, told = sources.head(path, self._config, processor, lm_head, rows, self._dense, self._counters)
        self._head, self._spread = head, spread
        self._now(ACTIVE, told)

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self._in_a_row += 1
        if self.errors == 1:
            log.warning("vplug_logits: %s failed, and the dense head answers: %s", self.name, _told(error))
        if self._in_a_row >= PATIENCE:
            self._head = None
            self._stay_dense(f"it failed {self._in_a_row} times in a row, last with {_told(error)}")

    def _stay_dense(self, reason: str, *, expected: bool = False) -> None:
        self._build = None
        self._now(DENSE, reason, warn=not expected)

    def _now(self, state: str, reason: str, *, warn: bool = False) -> None:
        self.state, self.reason = state, reason
        (log.warning if warn else log.info)(
            "vplug_logits: %s of rank %d is %s: %s", self.name, self.rank, state, reason
        )


def _rows(states: torch.Tensor) -> int:
    return states.numel() // states.shape[-1] if states.dim() and states.shape[-1] else 0


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
