"""What importing a plugin in a process of its own has shown, as findings. Whoever calls this started the process."""

from __future__ import annotations

import re

from vplug_rs.authoring.at_import import FUNCTIONS, HEAVY
from vplug_rs.authoring.rules import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Protocol

    from vplug_rs.authoring.project import Point

    class Outcome(Protocol):
        """That of `vplug_rs.testing.plugins`."""

        environment: list[str]
        error: str | None
        frameworks: list[str]
        printed: str


_ABSENT = re.compile(r"ModuleNotFoundError: No module named '(\w+)[\w.]*'")
_MOST_NAMES = 3


def judge(point: Point, outcome: Outcome) -> Iterator[Finding]:
    """What an import has shown, at the line of the entry point.

    Args:
        point: The entry point whose value was imported, and not called.
        outcome: What became of it.
    """
    if outcome.error is not None:
        absent = _ABSENT.match(outcome.error)
        code = "import-not-tried" if absent and absent[1] in HEAVY else "import-fails"
        yield Finding(code, point.file, point.line, f"{point}: {outcome.error}")
    if outcome.frameworks and point.group in FUNCTIONS:
        text = f"{point}: its import brings {', '.join(outcome.frameworks)}"
        yield Finding("heavy-import", point.file, point.line, text)
    if outcome.printed:
        yield Finding("print-at-import", point.file, point.line, f"{point}: its import writes to stdout")
    if outcome.environment:
        names = ", ".join(f"`{name}`" for name in outcome.environment[:_MOST_NAMES])
        more = " and others" if len(outcome.environment) > _MOST_NAMES else ""
        text = f"{point}: its import changes {names}{more}"
        yield Finding("environment-at-import", point.file, point.line, text)
