"""`vplug doctor`: what is damaged, hidden, left over or runs code unasked in this environment, and its platform."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import editable, headers, inventory, platform_asking, platform_part, pth
from vplug_rs.cli.findings import SEVERITIES, as_dict, in_order, make, place
from vplug_rs.cli.locate import Locator, module_of
from vplug_rs.cli.parser import declare
from vplug_rs.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from vplug_rs import _core
    from vplug_rs.cli.inventory import Entry, Site

HELP = """\
Find what is wrong with the metadata of this environment, and with its platform:
the accelerator that a vLLM would run on. Nothing is imported here.

Looks for damaged, shadowed, doubled and left-over metadata, lists of files that
cannot be used, entry points that collide or whose module does not exist,
editable installs whose folder is gone, and .pth files that run code. Each
finding says where, how bad and what to do; docs/diagnostics.md explains each
code.

The platform follows where something asks for one (vllm, torch, a platform
plugin, VPLUG_PLATFORM), and alone with --platform: which one counts, on what
evidence, why not the others, and what to do. Drivers and platform plugins are
asked by processes of their own."""

EPILOG = """\
exit status:
  0  healthy; notes do not count: a copy that another one shadows is a note
  1  at least one error or warning
  2  the command line is wrong
With --platform, and else where vLLM is installed and the metadata is healthy:
  0  there is a platform
  1  nothing can be used, or not what was named
  2  several can, and nothing says which; or nothing is called what was named
  3  a driver did not answer, is broken, or has lost all of its devices
"""


REPEATABLE = frozenset({"pyinstaller40"})
"""Groups in which a name says what kind of thing it is, so that every distribution uses the same ones."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.usage = (
        "vplug doctor [-h] [--json]\n"
        "       vplug doctor [-h] [--json] --platform [--root DIR] [--passive | --active]\n"
        "                    [--timeout SECONDS]"
    )
    parser.add_argument("--platform", action="store_true", help="only the platform")
    platform_asking.add_options(parser, "a driver (10) or a plugin (60) may take")


def run(args: argparse.Namespace) -> int:
    """Print the findings, and what there is to say of the platform.

    Args:
        args: The parsed arguments.

    Returns:
        1 when there is an error or a warning; else the platform's status, where it counts; else 0.

    Raises:
        UsageError: An option that would have no effect.
    """
    if args.platform:
        part = platform_part.examine(args)
        report.emit(report.json_text("doctor", {"platform": part.as_dict()}) if args.json else part.text())
        return part.status
    if args.root is not None or args.passive or args.active or args.timeout is not None:
        raise UsageError("where and how to look for a platform wants --platform")
    site = inventory.load()
    findings = examine(site)
    found = platform_part.examine(args) if platform_part.expected(site) else None
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in SEVERITIES}
    distributions = len({copy.key for copy in site.copies if copy.state == "live"})
    if args.json:
        body: dict[str, object] = {
            "distributions": distributions,
            "counts": counts,
            "findings": [as_dict(finding) for finding in findings],
            **({"platform": found.as_dict()} if found else {}),
        }
        report.emit(report.json_text("doctor", body))
    else:
        blocks = [*map(text_of, findings), _summary(counts, distributions)]
        report.emit("\n\n".join([*blocks, found.text()] if found else blocks))
    if counts["error"] + counts["warning"]:
        return 1
    return found.status if found and platform_part.counts(site) else 0


def examine(site: Site) -> list[_core.Diagnostic]:
    """All findings of a site, the worst first.

    Args:
        site: The environment.
    """
    found = list(site.diagnostics)
    known = {(finding.path, finding.line) for finding in found}
    found += [f for f in modules(site) if (f.path, f.line) not in known]  # a bad reference is reported as that
    found += [*headers.check(site.copies), *collisions(site.live), *editable.check(site), *pth.check(site)]
    return in_order(found)


def modules(site: Site) -> Iterator[_core.Diagnostic]:
    """Yield a finding for each live entry point whose module does not exist, or cannot be checked.

    Args:
        site: The environment.
    """
    locator = Locator(site.paths)
    for entry in site.live:
        module = module_of(entry.value)
        if module is None:
            continue
        found = locator.find(module)
        if found.state == "found":
            continue
        yield make(
            "module-missing" if found.state == "missing" else "module-unchecked",
            entry.file,
            f"`{entry.name} = {entry.value}` in group `{entry.group}`: {found.detail}",
            line=entry.line,
            copy=entry.copy,
        )


def collisions(entries: list[Entry]) -> Iterator[_core.Diagnostic]:
    """Yield a finding for each entry point that a distribution before it offers under the same group and name.

    Args:
        entries: The live ones, in order.
    """
    first: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        if entry.group in REPEATABLE:
            continue
        other = first.setdefault((entry.group, entry.name), entry)
        if other.copy is not entry.copy:
            yield make(
                "entry-point-name-collision",
                entry.file,
                f"`{entry.copy.label}` and `{other.copy.label}` both offer `{entry.name}` in group `{entry.group}`; "
                f"the other one is in `{other.file}`, line {other.line}",
                line=entry.line,
                copy=entry.copy,
            )


def text_of(finding: _core.Diagnostic) -> str:
    """A finding in three lines: what, where, what to do.

    Args:
        finding: What was found.
    """
    lines = [f"{finding.severity}[{finding.code}]: {finding.message}", f"  --> {place(finding)}"]
    if finding.advice:
        lines.append(f"hint: {finding.advice}")
    return "\n".join(lines)


def _summary(counts: dict[str, int], distributions: int) -> str:
    where = report.count(distributions, "distribution")
    if not any(counts.values()):
        return f"{where}, no findings"
    parts = [report.count(number, severity) for severity, number in counts.items() if number]
    return f"{where}: {', '.join(parts)}"
