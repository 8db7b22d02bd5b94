"""The texts that states come from.  They were written for this package, one file for each domain."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vplug_logits.errors import BuildError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

DOMAINS = {
    "prose": "prose.txt",
    "code": "code.txt",
    "languages": "languages.txt",
    "format": "format.json",
    "rare": "rare.txt",
}
"""Domain -> file.  `code`: seven programming languages; `languages`: German, French, Spanish, Russian, Chinese,
Japanese, Arabic, Hindi; `format`: conversations with tool calls, JSON, YAML, CSV, as messages; `rare`: odd words,
identifiers, emoji, numbers, many scripts."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text.

    Attributes:
        domain: What results are grouped by.
        content: Plain text, or conversations: lists of messages with `role` and `content`.
    """

    domain: str
    content: str | list[list[dict[str, str]]]

    def token_ids(self, tokenizer: Any) -> list[int]:
        """The text as tokens, conversations in the shape of the tokenizer's chat template where it has one.

        Args:
            tokenizer: One of transformers.
        """
        if isinstance(self.content, str):
            whole = self.content
        elif getattr(tokenizer, "chat_template", None):
            whole = "".join(tokenizer.apply_chat_template(messages, tokenize=False) for messages in self.content)
        else:
            whole = "\n".join(f"{message['role']}: {message['content']}" for each in self.content for message in each)
        ids = tokenizer(whole, add_special_tokens=False, verbose=False)["input_ids"]
        return [int(token) for token in ids]


def shipped(domains: Sequence[str] = tuple(DOMAINS)) -> list[Text]:
    """The texts of this package.

    Args:
        domains: Which, of `DOMAINS`.

    Raises:
        ConfigError: An unknown domain.
    """
    unknown = [domain for domain in domains if domain not in DOMAINS]
    if unknown:
        raise ConfigError(f"domains: {unknown[0]!r} is no domain; possible: {', '.join(DOMAINS)}.")
    folder = resources.files(__package__) / "texts"
    return [Text(domain, _content(DOMAINS[domain], (folder / DOMAINS[domain]).read_bytes())) for domain in domains]


def read(path: str) -> Text:
    """A text of the user's own: UTF-8, plain; a `.json` file holds conversations.  Its domain is the file's name.

    Raises:
        ConfigError: The file cannot be read, is not UTF-8, or holds no text.
    """
    try:
        content = _content(path, Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"texts: {path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"texts: {path} is not what its name says: {error}.") from error
    if not content:
        raise ConfigError(f"texts: {path} is empty.")
    return Text(Path(path).stem, content)


def tokenizer(model: str) -> Any:
    """The tokenizer of a model, from local files alone.

    Args:
        model: A folder or a hub id that is in the local cache.

    Raises:
        BuildError: It cannot be loaded.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, local_files_only=True)
    except Exception as error:
        cause = str(error).strip().partition("\n")[0]
        raise BuildError(f"{model}: its tokenizer cannot be loaded ({type(error).__name__}: {cause}).") from error


def _content(name: str, raw: bytes) -> Any:
    text = raw.decode("utf-8")
    if not name.endswith(".json"):
        return text.strip()
    conversations = json.loads(text)
    messages = [message for each in conversations for message in each] if isinstance(conversations, list) else [None]
    if not all(isinstance(message, dict) and {"role", "content"} <= message.keys() for message in messages):
        raise ConfigError(f"texts: {name} must hold a list of conversations, each a list of role and content.")
    return conversations
