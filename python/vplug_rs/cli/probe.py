"""`vplug probe`: what speaks for and against each platform on this machine, and what its driver says."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import platform_asking, platform_text
from vplug_rs.cli.parser import declare
from vplug_rs.errors import UsageError
from vplug_rs.platforms import model

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from vplug_rs.platforms.model import Probe

HELP = """\
Say which accelerators are here, with the evidence for and against each.

Files and variables are looked at first. Only where they speak for an NVIDIA
GPU, its driver is asked, by a process of its own that has a time limit; this
one opens no driver library and imports no framework. `vplug probe rocm` asks
AMD's library (amdsmi) in the same way. Platform plugins are left alone:
`vplug doctor --platform` asks those too, and says which one counts."""

EPILOG = """\
Status of a platform:
  present  it is here
  masked   it is here, and a variable hides all of its devices
  absent   it is not here, or cannot be used, and that is certain
  unknown  the driver did not answer: it hung, crashed or failed in a way that
           says nothing, or under WSL was not asked or not found; this is never
           taken for absent
  skipped  nobody asked

Marks of evidence:
  yes   a device was seen                     no    speaks against using it
  weak  often comes with one                  info  neither

exit status:
  0  one of the platforms asked for is present or masked
  1  none of them is
  2  the command line is wrong
  3  a driver did not answer, is broken, or has lost all of its devices
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.usage = (
        "vplug probe [-h] [--json] [--root DIR] [--passive | --active]\n"
        "                   [--timeout SECONDS] [PLATFORM ...]"
    )
    parser.add_argument(
        "platforms", nargs="*", metavar="PLATFORM", help="only these: cuda, rocm, xpu, tpu, cpu, neuron, ..."
    )
    platform_asking.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Print what the probes found.

    Args:
        args: The parsed arguments.

    Returns:
        0 when one of the platforms is here, 3 when a driver is broken, or none is here and one is unknown, else 1.

    Raises:
        UsageError: There is no such platform, or no such folder.
    """
    wanted = _known(args.platforms)
    probes = platform_asking.ask(args, libraries={"amdsmi"} if "rocm" in wanted else ())
    shown = [probe for probe in probes if not wanted or probe.platform in wanted]
    if args.json:
        body: dict[str, object] = {
            "root": platform_asking.root_of(args),
            "probes": [probe.as_dict() for probe in shown],
            "resolution": platform_asking.resolution_of(probes),
        }
        report.emit(report.json_text("probe", body))
    else:
        report.emit("\n\n".join("\n".join(block) for block in blocks(shown, everything=bool(wanted))))
    return status_of(shown)


def _known(words: Sequence[str]) -> list[str]:
    """The platforms that were named, as they are spelled here."""
    names = list(platform_text.NAMES)
    for word in words:
        if word.lower() in names:
            continue
        from difflib import get_close_matches

        near = get_close_matches(word.lower(), names, 1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(f"there is no platform `{word}`", hint=f"{hint}there are {', '.join(names)}")
    return [word.lower() for word in words]


def blocks(probes: Sequence[Probe], *, everything: bool) -> list[list[str]]:
    """The text in blocks of lines: the platforms that have something to say, then the others in one line.

    Args:
        probes: What to show.
        everything: Show all of them whole.
    """
    whole = [probe for probe in probes if everything or platform_text.says_something(probe)]
    # who is here stands first, what is not known comes next
    rank = (model.PRESENT, model.MASKED, model.UNKNOWN, model.ABSENT, model.SKIPPED)
    told = [platform_text.probe_lines(probe) for probe in sorted(whole, key=lambda probe: rank.index(probe.status))]
    cpu = [probe for probe in probes if probe not in whole and probe.platform == "cpu"]
    told += [platform_text.probe_lines(probe)[:1] for probe in cpu]  # it is always there: only whether it counts
    nothing = [platform_text.title(probe) for probe in probes if probe not in whole and probe not in cpu]
    if nothing:
        told.append([f"nothing seen of: {', '.join(nothing)}"])
    return told


def status_of(probes: Sequence[Probe]) -> int:
    """The exit status for what was found.

    Args:
        probes: Those that were asked for.
    """
    from vplug_rs.platforms import advice

    found = {probe.status for probe in probes}
    broken = any(map(advice.is_broken, probes))
    if found & {model.PRESENT, model.MASKED} and not broken:
        return 0
    return 3 if broken or model.UNKNOWN in found else 1
