"""The passive pass: the core looks at files and variables, and its rows become records, by platform."""

from __future__ import annotations

import os
import time

from vplug_rs import _core
from vplug_rs.platforms.model import Device, Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

_FIELDS = ("name", "pci", "memory_bytes", "memory_source", "capability", "driver", "integrated")


class Seen:
    """What the pass saw.

    Attributes:
        facts: What is known besides evidence, as `cuda.kernel`.
        ms: What it took, in milliseconds.
    """

    def __init__(
        self, evidence: Iterable[tuple[Any, ...]], devices: Iterable[tuple[Any, ...]], facts: Mapping[str, str]
    ) -> None:
        self.facts = dict(facts)
        self.ms = 0.0
        self._evidence: dict[str, list[Evidence]] = {}
        self._devices: dict[str, list[Device]] = {}
        for platform, *fields in evidence:
            self._evidence.setdefault(platform, []).append(Evidence(*fields))
        for platform, index, *values in devices:
            self._devices.setdefault(platform, []).append(Device(index, **dict(zip(_FIELDS, values, strict=True))))

    def evidence(self, platform: str) -> list[Evidence]:
        """A platform's evidence, in the order of looking."""
        return self._evidence.get(platform, [])

    def devices(self, platform: str) -> list[Device]:
        """A platform's devices."""
        return self._devices.get(platform, [])


def look(root: str, environment: Mapping[str, str]) -> Seen:
    """One pass over the files below a root, and over the variables.

    Args:
        root: The folder that stands for "/".
        environment: The variables.
    """
    began = time.perf_counter()
    # a name that is not ASCII names nothing that counts
    pairs = [(name, encodable(value)) for name, value in environment.items() if name.isascii()]
    seen = Seen(*_core.probe_passive(root, pairs))
    seen.ms = (time.perf_counter() - began) * 1000
    return seen


def encodable(text: str) -> str:
    """A text as the system could have given it: bytes that are no UTF-8 are kept, other surrogates not."""
    if text.isascii():
        return text
    try:
        os.fsencode(text)
    except UnicodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text
