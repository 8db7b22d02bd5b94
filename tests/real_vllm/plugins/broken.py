"""A general plugin that fails when it is called."""

from __future__ import annotations

from probe import tell


def register() -> None:
    tell("broken")
    raise RuntimeError("this plugin was made for another vLLM")
