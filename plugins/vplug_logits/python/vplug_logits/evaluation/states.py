"""Hidden states as the head meets them: while the model reads the texts, and while it continues them.

A state is what the head is given, taken by a hook in front of it.  States are counted by a digest of their bytes, so
that no position counts twice.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import torch

from vplug_logits.errors import BuildError
from vplug_logits.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vplug_logits.evaluation.texts import Text

SOURCES = ("text", "greedy", "sampled")
TEXT_SHARE = 0.6  # of the states of a domain, as far as its text is long enough
WINDOW = 256  # tokens that are read in one piece
PROMPT = 32  # tokens of a text that a continuation starts from
LENGTH = 64  # tokens of a continuation
BATCH = 4  # continuations of each domain and source in one batch
BARREN = 3  # rounds that may add nothing before that is an error


@dataclass(frozen=True, slots=True)
class States:
    """Distinct hidden states and where they come from.

    Attributes:
        states: `(N, d)`, in the dtype that the head is given.
        domains: The names of the domains.
        domain: int64 `(N,)`: index into `domains`.
        source: int64 `(N,)`: index into `SOURCES`.
    """

    states: torch.Tensor
    domains: tuple[str, ...]
    domain: torch.Tensor
    source: torch.Tensor

    def __len__(self) -> int:
        return int(self.states.shape[0])

    def count(self, domain: str, source: str) -> int:
        """How many states a domain has from a source."""
        mine = (self.domain == self.domains.index(domain)) & (self.source == SOURCES.index(source))
        return int(mine.sum())


@contextmanager
def watched(model: Any) -> Iterator[list[torch.Tensor]]:
    """Inside, each call of the model leaves the `(batch, positions, d)` states that its head was given.

    Raises:
        BuildError: The model has no head.
    """
    head = model.get_output_embeddings()
    if head is None:
        raise BuildError(f"{type(model).__name__} has no output embeddings: give a model that generates text.")
    seen: list[torch.Tensor] = []

    def keep(_: Any, arguments: tuple[Any, ...]) -> None:
        seen.append(arguments[0].detach())

    handle = head.register_forward_pre_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()


@dataclass(slots=True)
class _Gathered:
    """The distinct states of one domain and source."""

    quota: int
    rows: list[torch.Tensor] = field(default_factory=list)

    @property
    def lacking(self) -> int:
        return self.quota - len(self.rows)

    def add(self, states: torch.Tensor, seen: set[bytes]) -> None:
        digests = states.contiguous().cpu().view(torch.uint8).numpy()
        for index in range(states.shape[0]):
            if not self.lacking:
                return
            digest = blake2b(digests[index].tobytes(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                self.rows.append(states[index].cpu().clone())


def collect(  # noqa: PLR0913  # three of them have defaults
    model: Any,
    tokenizer: Any,
    texts: Sequence[Text],
    *,
    count: int,
    seed: int = 0,
    progress: Progress = silent,
) -> States:
    """`count` distinct states, as many of each domain: 60 % of reading, the rest of continuations, half of them greedy.

    Args:
        model: A causal language model of transformers, in evaluation mode.
        tokenizer: Its tokenizer.
        texts: One for each domain.
        count: N.
        seed: Of the prompts and of sampling (temperature 1).
        progress: Called with "states".

    Raises:
        BuildError: A text is too short to start from, or the model gives the same states again and again.
    """
    generator = torch.Generator().manual_seed(seed)
    seen: set[bytes] = set()
    gathered: dict[tuple[int, str], _Gathered] = {}
    tokens = [torch.tensor(text.token_ids(tokenizer), dtype=torch.int64) for text in texts]
    done = 0
    with torch.inference_mode(), watched(model) as states:
        for index, (text, ids) in enumerate(zip(texts, tokens, strict=True)):
            if len(ids) <= PROMPT:
                raise BuildError(f"the text of {text.domain!r} has {len(ids)} tokens; it must have over {PROMPT}.")
            share = count // len(texts) + (index < count % len(texts))
            mine = gathered[index, "text"] = _Gathered(min(len(ids), round(share * TEXT_SHARE)))
            for window in torch.split(ids, WINDOW):
                if mine.lacking:
                    mine.add(_read(model, window[None], states)[0], seen)
                    progress("states", done + len(mine.rows), count)
            mine.quota = len(mine.rows)  # what came twice is made up for by continuing
            done += mine.quota
            left = share - mine.quota
            gathered[index, "greedy"] = _Gathered(left // 2)
            gathered[index, "sampled"] = _Gathered(left - left // 2)
        _continue_all(
            model, tokens, gathered, seen, states, generator, lambda: progress("states", _total(gathered), count)
        )
    return _joined(gathered, tuple(text.domain for text in texts))


def _read(model: Any, ids: torch.Tensor, seen: list[torch.Tensor]) -> torch.Tensor:
    seen.clear()
    model(input_ids=ids.to(model.device), use_cache=False)
    return _last(seen, ids.shape[1])


def _last(seen: list[torch.Tensor], positions: int) -> torch.Tensor:
    if not seen or seen[-1].dim() != 3 or seen[-1].shape[1] != positions:  # noqa: PLR2004
        raise BuildError("the model does not call its output embeddings with all states: they cannot be watched.")
    return seen[-1]


def _continue_all(  # noqa: PLR0913, PLR0917
    model: Any,
    tokens: list[torch.Tensor],
    gathered: dict[tuple[int, str], _Gathered],
    seen: set[bytes],
    states: list[torch.Tensor],
    generator: torch.Generator,
    told: Callable[[], None],
) -> None:
    """Continue prompts of all domains, in one batch, until every domain has what it lacks."""
    barren = 0
    while wanted := [key for key, mine in gathered.items() if mine.lacking]:
        keys = [key for key in wanted for _ in range(BATCH)]
        starts = [int(torch.randint(len(tokens[index]) - PROMPT, (), generator=generator)) for index, _ in keys]
        prompts = torch.stack([tokens[key[0]][at : at + PROMPT] for key, at in zip(keys, starts, strict=True)])
        sampled = torch.tensor([source == "sampled" for _, source in keys])
        before = _total(gathered)
        rows, lengths = _continuations(model, prompts, sampled, states, generator)
        for row, key in enumerate(keys):
            gathered[key].add(rows[row, : lengths[row]], seen)
        told()
        barren = barren + 1 if _total(gathered) == before else 0
        if barren == BARREN:
            raise BuildError("the continuations bring no new states: give longer texts, or ask for fewer states.")


def _continuations(
    model: Any, prompts: torch.Tensor, sampled: torch.Tensor, states: list[torch.Tensor], generator: torch.Generator
) -> tuple[torch.Tensor, list[int]]:
    """The states of `LENGTH` generated positions, and how many of each row come before its end of text."""
    ends = _end_tokens(model)
    states.clear()
    output = model(input_ids=prompts.to(model.device), use_cache=True)
    rows, lengths = [], [LENGTH] * len(prompts)
    for step in range(LENGTH):
        logits = output.logits[:, -1].float().cpu()
        drawn = torch.multinomial(torch.softmax(logits, -1), 1, generator=generator)[:, 0]
        token = torch.where(sampled, drawn, logits.argmax(-1))
        for row in torch.isin(token, ends).nonzero()[:, 0].tolist():
            lengths[row] = min(lengths[row], step)
        states.clear()
        output = model(
            input_ids=token[:, None].to(model.device), past_key_values=output.past_key_values, use_cache=True
        )
        rows.append(_last(states, 1)[:, 0])
    return torch.stack(rows, 1), lengths


def _end_tokens(model: Any) -> torch.Tensor:
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = configured if isinstance(configured, list) else [] if configured is None else [configured]
    return torch.tensor(ends, dtype=torch.int64)


def _total(gathered: dict[tuple[int, str], _Gathered]) -> int:
    return sum(len(mine.rows) for mine in gathered.values())


def _joined(gathered: dict[tuple[int, str], _Gathered], domains: tuple[str, ...]) -> States:
    rows = [row for mine in gathered.values() for row in mine.rows]
    where = [(index, SOURCES.index(source)) for (index, source), mine in gathered.items() for _ in mine.rows]
    if not rows:
        raise BuildError("no states were asked for: give a number above 0.")
    domain, source = torch.tensor(where, dtype=torch.int64).unbind(1)
    return States(torch.stack(rows), domains, domain, source)
