"""The page of all codes: `python -m vplug_rs.cli.codes` writes docs/diagnostics.md.

In: the table. Out: Markdown.
"""

from __future__ import annotations

from vplug_rs import _core, report
from vplug_rs.cli.findings import SEVERITIES

HEAD = """\
# Diagnostics

Everything that `vplug doctor`, `vplug why` and `vplug_rs.diagnostics()` can report. A code keeps its meaning between
releases; the wording of a message may change. Written by `python -m vplug_rs.cli.codes`, so change the table, not
this page.

An *error* loses something that was asked for. With a *warning* the answer is complete but may not be the wanted one.
A *note* needs no action, and does not count for the exit status of `vplug doctor`.
"""


def render() -> str:
    """The text of the page."""
    rows = _core.diagnostic_codes()
    parts = [HEAD]
    for severity in SEVERITIES:
        parts.append(f"\n## {severity.capitalize()}s\n")
        parts += [
            f"\n### `{slug}`\n\n{title}.\n\n{advice}\n" for slug, level, title, advice in rows if level == severity
        ]
    return "".join(parts)


if __name__ == "__main__":
    report.emit(render().rstrip("\n"))
