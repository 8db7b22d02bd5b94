"""Every environment variable that this package reads: name, meaning, and how its text is read."""

from __future__ import annotations

import os

ON, OFF = ("1", "on", "true", "yes"), ("0", "off", "false", "no")

VLLM, STRICT, REQUIRE, POLICY = "VPLUG_VLLM", "VPLUG_STRICT", "VPLUG_REQUIRE", "VPLUG_POLICY"

VARIABLES = {
    VLLM: "on: take part in a vLLM (see docs/vllm.md); off: never, whatever else asks for it; unset: no",
    STRICT: "on: in a vLLM, faults of the policy and failures of plugins stop the start",
    REQUIRE: "names of vLLM plugins, separated by commas, without which the start stops",
    POLICY: "a TOML file with the policy for vLLM's groups, in place of VLLM_PLUGINS",
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
