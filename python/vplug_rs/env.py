"""Every environment variable that this package reads: name, meaning, and how its text is read."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ON, OFF = ("1", "on", "true", "yes"), ("0", "off", "false", "no")

VLLM, STRICT, REQUIRE, POLICY = "VPLUG_VLLM", "VPLUG_STRICT", "VPLUG_REQUIRE", "VPLUG_POLICY"
PLATFORM, PLATFORM_FORCE = "VPLUG_PLATFORM", "VPLUG_PLATFORM_FORCE"
ON_UNKNOWN, PLATFORM_RESULT = "VPLUG_ON_UNKNOWN", "VPLUG_PLATFORM_RESULT"
PROBE_TIMEOUT = "VPLUG_PROBE_TIMEOUT"
LORA_DIR, LORA_BASE_ALIASES, LORA_ALLOW_PICKLE = "VPLUG_LORA_DIR", "VPLUG_LORA_BASE_ALIASES", "VPLUG_LORA_ALLOW_PICKLE"

ON_UNKNOWN_WORDS = ("none", "error", "assume")

VARIABLES = {
    VLLM: "on: take part in a vLLM (see docs/vllm.md); off: never, whatever else asks for it; unset: no",
    STRICT: "on: in a vLLM, faults of the policy and failures of plugins stop the start",
    REQUIRE: "names of vLLM plugins, separated by commas, without which the start stops",
    POLICY: "a TOML file with the policy for vLLM's groups, in place of VLLM_PLUGINS",
    PLATFORM: "the platform that is meant: a name, `distribution:name` of a plugin, or a class's dotted name",
    PLATFORM_FORCE: "on: the platform of VPLUG_PLATFORM counts although nothing of it is seen here",
    ON_UNKNOWN: "where a driver does not answer; none: no platform (default), error: stop, assume: what is seen counts",
    PLATFORM_RESULT: "set by vplug_rs for child processes: the platform that was found, with what it was found by",
    PROBE_TIMEOUT: "seconds that a driver may take to answer a platform probe (10); 0: none is asked",
    LORA_DIR: "a folder whose LoRA adapters a vLLM serves by name; unset: none",
    LORA_BASE_ALIASES: "other names of the served model, separated by commas, that adapters may have been made for",
    LORA_ALLOW_PICKLE: "on: LoRA weights may be pickled (`.bin`, `.pt`); otherwise safetensors alone",
}


def switch(name: str, environment: Mapping[str, str] | None = None) -> bool | None:
    """A switch: True, False, or None where it is unset, empty or no word that is known.

    Args:
        name: The variable.
        environment: Where it stands, if not in this process's environment; so everywhere here.
    """
    word = _text(name, environment).strip().lower()
    return True if word in ON else False if word in OFF else None


def unknown_word(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The text of a switch that is neither on nor off, or None."""
    text = _text(name, environment)
    return text if text.strip() and switch(name, environment) is None else None


def choice(name: str, words: tuple[str, ...], environment: Mapping[str, str] | None = None) -> tuple[str, str | None]:
    """One of some words, the first where it is unset or empty; and what stands there if it is none of them, or None."""
    text = _text(name, environment)
    word = text.strip().lower()
    return (word, None) if word in words else (words[0], text if word else None)


def word(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """A word without the blanks around it, or None where it is unset or empty."""
    return _text(name, environment).strip() or None


def names(name: str) -> tuple[str, ...]:
    """A list of names; blanks around them do not count."""
    return tuple(word for word in (part.strip() for part in os.environ.get(name, "").split(",")) if word)


def path(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """A path, or None where it is unset or empty."""
    return _text(name, environment) or None


def seconds(name: str, default: float, environment: Mapping[str, str] | None = None) -> float:
    """A number of seconds; the default where it is unset, empty, or no such number (`unknown_seconds` tells)."""
    number = number_of_seconds(_text(name, environment))
    return default if number is None else number


def unknown_seconds(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The text where a number of seconds is wanted and something else stands, or None."""
    text = _text(name, environment)
    return text if text.strip() and number_of_seconds(text) is None else None


def number_of_seconds(text: str) -> float | None:
    """A text as a number of seconds, 0 or more; None where it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None  # neither holds for nan


def _text(name: str, environment: Mapping[str, str] | None) -> str:
    return (os.environ if environment is None else environment).get(name, "")
