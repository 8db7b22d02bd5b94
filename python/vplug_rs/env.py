"""Every environment variable that this package reads: name, meaning, and how its text is read."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ON, OFF = ("1", "on", "true", "yes"), ("0", "off", "false", "no")

VLLM, STRICT, REQUIRE, POLICY = "VPLUG_VLLM", "VPLUG_STRICT", "VPLUG_REQUIRE", "VPLUG_POLICY"
PROBE_TIMEOUT = "VPLUG_PROBE_TIMEOUT"

VARIABLES = {
    VLLM: "on: take part in a vLLM (see docs/vllm.md); off: never, whatever else asks for it; unset: no",
    STRICT: "on: in a vLLM, faults of the policy and failures of plugins stop the start",
    REQUIRE: "names of vLLM plugins, separated by commas, without which the start stops",
    POLICY: "a TOML file with the policy for vLLM's groups, in place of VLLM_PLUGINS",
    PROBE_TIMEOUT: "seconds that a driver may take to answer a platform probe (10); 0: none is asked",
}


def switch(name: str) -> bool | None:
    """A switch: True, False, or None where it is unset, empty or no word that is known."""
    word = os.environ.get(name, "").strip().lower()
    return True if word in ON else False if word in OFF else None


def unknown_word(name: str) -> str | None:
    """The text of a switch that is neither on nor off, or None."""
    text = os.environ.get(name, "")
    return text if text.strip() and switch(name) is None else None


def names(name: str) -> tuple[str, ...]:
    """A list of names; blanks around them do not count."""
    return tuple(word for word in (part.strip() for part in os.environ.get(name, "").split(",")) if word)


def path(name: str) -> str | None:
    """A path, or None where it is unset or empty."""
    return os.environ.get(name) or None


def seconds(name: str, default: float, environment: Mapping[str, str] | None = None) -> float:
    """A number of seconds; the default where it is unset, empty, or no such number (`unknown_seconds` tells)."""
    number = _seconds((os.environ if environment is None else environment).get(name, ""))
    return default if number is None else number


def unknown_seconds(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The text where a number of seconds is wanted and something else stands, or None."""
    text = (os.environ if environment is None else environment).get(name, "")
    return text if text.strip() and _seconds(text) is None else None


def _seconds(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None  # neither holds for nan
