"""`adapter_config.json`: read within bounds, held against what vLLM will ask of it, and against the served base model.

Bytes come in; what they say, or a refusal, comes out. It opens nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from vplug_rs import env
from vplug_rs.lora.refusal import Refusal, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

CONFIG = "adapter_config.json"
SAFETENSORS = "adapter_model.safetensors"
PICKLED = ("adapter_model.bin", "adapter_model.pt")  # those that vLLM would load, in its order
MOST_CONFIG_BYTES = 1 << 20
MOST_DEPTH = 32
EXACT, ALIAS = "exact", "alias"
# possessive, and its end may be missing: one pass, whatever it is given
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")
_BAD_CONFIG = f"Save the adapter again with PEFT, or mend its `{CONFIG}`."


@dataclass(frozen=True, slots=True)
class Config:
    """What an `adapter_config.json` says, as far as it decides anything here.

    Attributes:
        base: `base_model_name_or_path`: what the adapter was made for.
        rank: `r`.
    """

    base: str
    rank: int


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter that can be served.

    Attributes:
        name: As it was asked for.
        path: An absolute path to a folder with the configuration and the weights.
        config: What its configuration says.
        matched: How its base model was recognised: "exact" or "alias".
        resolver: The name of the resolver that found it.
    """

    name: str
    path: str
    config: Config
    matched: str
    resolver: str


def read(data: bytes, where: str) -> Config:
    """Reads a configuration.

    Args:
        data: The bytes of the file.
        where: What to call it in a message.

    Raises:
        Refusal: `config-too-large`, `config-invalid`, `config-key` or `peft-type`.
    """
    if len(data) > MOST_CONFIG_BYTES:
        raise too_large(where, len(data))
    found = document(data, lambda fault: Refusal("config-invalid", f"{where}: {fault}", hint=_BAD_CONFIG))
    kind = _value(found, "peft_type", where, "text", lambda value: isinstance(value, str))
    if kind != "LORA":
        raise Refusal(
            "peft-type", f"{where}: `peft_type` is {shown(kind)}", hint="vLLM serves adapters of the type `LORA` alone."
        )
    base = _value(found, "base_model_name_or_path", where, "text", lambda value: isinstance(value, str) and value != "")
    rank = _value(found, "r", where, "a whole number above 0", _is_rank)
    _value(found, "lora_alpha", where, "a number", _is_number)
    _value(found, "target_modules", where, "text, or a list of texts", _is_modules)
    for key, wanted in (("rank_pattern", _is_rank), ("alpha_pattern", _is_number)):
        if found.get(key) is not None:
            _value(found, key, where, "an object of numbers", partial(_all, wanted=wanted))
    return Config(str(base), int(rank))


def too_large(where: str, size: int) -> Refusal:
    """The refusal of a configuration that is not even read."""
    return Refusal(
        "config-too-large",
        f"{where} has {size} bytes, and {MOST_CONFIG_BYTES} are allowed",
        hint=f"No configuration that PEFT writes is that large: look at what is in it. {_BAD_CONFIG}",
    )


def match(config: Config, base: str, aliases: Collection[str], where: str) -> str:
    """How the adapter's base model is the served one: "exact" or "alias".

    The names have to be equal, or the adapter's has to stand in the list of aliases. Nothing else counts: no folder's
    last part, no difference in case, no slash at the end. Weights for another model load without an error where the
    shapes happen to fit, and what is generated is wrong.

    Args:
        config: The adapter's.
        base: The served model, as vLLM names it: what was given as `--model`.
        aliases: Other names of the served model.
        where: What to call the adapter in a message.

    Raises:
        Refusal: `base-mismatch`.
    """
    if config.base == base:
        return EXACT
    if config.base in aliases:
        return ALIAS
    raise Refusal(
        "base-mismatch",
        f"{where} was made for {shown(config.base)}, and {shown(base)} is served",
        hint=f"If both are the same model, add {shown(config.base)} to `{env.LORA_BASE_ALIASES}`.",
    )


def document(data: bytes, refusal: Callable[[str], Refusal]) -> dict[str, Any]:
    """The object in a JSON text, strictly: UTF-8, each key once, finite numbers, bounded depth.

    Args:
        data: The text, of a length that the caller has bounded.
        refusal: Makes the error of a fault in words.
    """
    depth = _depth(data)
    if depth > MOST_DEPTH:
        raise refusal(f"it is nested more than {MOST_DEPTH} deep")
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:  # those of the hooks and of the encoding are ValueErrors
        raise refusal(f"it is no JSON that can be trusted: {error}") from error
    if not isinstance(found, dict):
        raise refusal(f"it is JSON, but no object: {type(found).__name__}")
    return found


def _depth(data: bytes) -> int:
    """How deep brackets nest outside strings, as far as a damaged text lets that be told."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRING.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
        if deepest > MOST_DEPTH:
            break
    return deepest


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {shown(twice)} stands there twice")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"`{word}` is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{shown(text)} is beyond what a number can be")
    return number


def _value(found: dict[str, Any], key: str, where: str, wanted: str, is_right: Callable[[Any], bool]) -> Any:
    if key not in found:
        raise Refusal("config-key", f"{where}: there is no `{key}`", hint=_BAD_CONFIG)
    value = found[key]
    if not is_right(value):
        raise Refusal("config-key", f"{where}: `{key}` is {shown(value)}, and {wanted} is wanted", hint=_BAD_CONFIG)
    return value


def _is_rank(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1 << 31


def _is_modules(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def _all(value: Any, wanted: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(wanted(one) for one in value.values())
