"""`vplug check PLUGIN`: an author's own plugin against the rules for vLLM's plugins; nothing of it is imported."""

from __future__ import annotations

import os

from vplug_rs import report
from vplug_rs.authoring import lint, loaded, project
from vplug_rs.authoring.rules import SEVERITIES, Finding, in_order
from vplug_rs.cli import inventory
from vplug_rs.cli.findings import read_text
from vplug_rs.cli.locate import Locator, module_of
from vplug_rs.cli.parser import declare
from vplug_rs.errors import NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

HELP = """\
Check a plugin for vLLM against the rules that docs/authoring.md lists: its
metadata, what runs when it is imported, and what its functions do. Each finding
says where, what happens then, and what to do.

The sources are read and parsed; nothing is imported, built or started, but with
--load. What only running the plugin could tell is not reported."""

EPILOG = """\
exit status:
  0  no rule is broken; notes do not count
  1  at least one error or warning
  2  the command line or the plugin's pyproject.toml is wrong
  3  there is no such plugin, or it declares no entry point of vLLM's groups
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.add_argument(
        "--load", action="store_true", help="also import each entry point, in a process of its own, and call nothing"
    )
    parser.add_argument(
        "plugin", metavar="PLUGIN", help="a folder with a pyproject.toml, or the name of an installed distribution"
    )


def run(args: argparse.Namespace) -> int:
    """Print the findings.

    Args:
        args: The parsed arguments.

    Returns:
        1 when there is an error or a warning, else 0.

    Raises:
        NotFoundError: There is nothing to check.
        UsageError: pyproject.toml cannot be read.
    """
    is_path = os.sep in args.plugin or os.path.exists(args.plugin)
    found = lint.check(project.read(args.plugin) if is_path else _installed(args.plugin))
    if args.load:
        known = {each.code for each in found.findings}  # where the sources show it, they show the line too
        seen = [each for point in found.targets for each in _loaded(point, found.roots) if each.code not in known]
        found.findings = in_order([*found.findings, *seen])
    counts = {severity: sum(each.rule.severity == severity for each in found.findings) for severity in SEVERITIES}
    if args.json:
        body: dict[str, object] = {
            "plugin": found.label,
            "entry_points": found.points,
            "files": found.files,
            "counts": counts,
            "findings": [_as_dict(each) for each in found.findings],
        }
        report.emit(report.json_text("check", body))
    else:
        checked = (
            f"{report.count(found.points, 'entry point')} and {report.count(found.files, 'source')} of {found.label}"
        )
        parts = [report.count(number, severity) for severity, number in counts.items() if number]
        summary = f"{checked}: {', '.join(parts) or 'no findings'}"
        report.emit("\n\n".join([*map(_text, found.findings), summary]))
    return int(bool(counts["error"] + counts["warning"]))


def _installed(name: str) -> project.Project:
    """An installed distribution, the copy that hosts see."""
    site = inventory.load()
    copies = [copy for copy in site.copies_of(name) if copy.state == "live"]
    if not copies:
        raise NotFoundError(
            f"there is no folder `{name}`, and no distribution of that name is installed",
            hint="`vplug list` shows what is installed; a folder's name may begin with `./`",
        )
    copy, locator = copies[0], Locator(site.paths)
    points, roots, whole = [], [], True
    for entry in site.entries:
        if entry.copy is not copy:
            continue
        points.append(project.Point(entry.group, entry.name, entry.value, entry.file, entry.line))
        module = module_of(entry.value)
        place = None if module is None else locator.find(module.partition(".")[0])
        whole = whole and (place is None or place.state != "unknown")
        if place is not None and place.path is not None:
            inside = os.path.basename(place.path).startswith("__init__.") or os.path.isdir(place.path)
            folder = os.path.dirname(place.path)
            roots.append(os.path.dirname(folder) if inside and not os.path.isdir(place.path) else folder)
    return project.Project(copy.label, points, list(_requirements(copy)), roots, whole=whole)


def _loaded(point: project.Point, roots: list[str]) -> list[Finding]:
    """What importing an entry point shows."""
    from vplug_rs.testing import plugins

    try:
        outcome = plugins.call(point.value.partition("[")[0].strip(), path=roots, times=0)
    except (TimeoutError, ChildProcessError) as error:
        return [Finding("import-fails", point.file, point.line, f"{point}: {error}")]
    return list(loaded.judge(point, outcome))


def _requirements(copy: inventory.Copy) -> Iterator[project.Requirement]:
    file = next(
        (path for name in ("METADATA", "PKG-INFO") if os.path.exists(path := os.path.join(copy.path, name))), ""
    )
    for number, line in enumerate((read_text(file) or "").splitlines() if file else (), 1):
        if not line.strip():  # the description begins
            return
        header, _, value = line.partition(":")
        if header.lower() == "requires-dist" and "extra" not in value.partition(";")[2]:
            yield project.Requirement(value.strip(), file, number)


def _text(found: Finding) -> str:
    place = found.path if found.line is None else f"{found.path}:{found.line}"
    rule = found.rule
    return f"{rule.severity}[{rule.code}]: {found.message}\n  --> {place}\nwhy: {rule.why}\nhint: {rule.fix}"


def _as_dict(found: Finding) -> dict[str, object]:
    rule = found.rule
    return {
        "code": rule.code,
        "severity": rule.severity,
        "path": found.path,
        "line": found.line,
        "message": found.message,
        "why": rule.why,
        "fix": rule.fix,
    }
