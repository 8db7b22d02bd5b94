"""`vplug why NAME`: where one entry point or distribution comes from, and why it is not there."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import inventory, trial, verdict
from vplug_rs.cli.evidence import ABSENT, LIVE, Answer
from vplug_rs.cli.explain import text_of
from vplug_rs.cli.parser import declare
from vplug_rs.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

HELP = """\
Explain one entry point or distribution: which file declares it, whether hosts
see it, and if not, what hides it and what to delete. With --policy, --env or
--vllm also whether a host with that policy may load it, and by which rule; of a
distribution each of its entry points is judged, or with --load loaded.
Nothing is imported, but with --load."""

EPILOG = """\
exit status:
  0  it is live and nothing is wrong with it
  1  it is there, but damaged, ambiguous, without its module, refused by the
     policy, failing (--load), or hidden: only a copy has it that another copy
     shadows
  2  the command line is wrong
  3  there is nothing of that name
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.usage = (
        "vplug why [-h] [--json] [--group G] [--load [--seconds S]]\n"
        f"                 {trial.USAGE}\n"
        "                 NAME"
    )
    parser.add_argument("name", metavar="NAME", help="an entry point, or a distribution in any spelling")
    parser.add_argument("--group", metavar="G", help="only entry points of this group")
    parser.add_argument("--load", action="store_true", help="load it, in a process of its own, and say how that went")
    trial.add_policy(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation.

    Args:
        args: The parsed arguments.

    Returns:
        0 when it is live and whole, 1 when something is in its way, 3 when it is absent.

    Raises:
        UsageError: `--seconds` without anything to limit.
        PolicyError: The policy's file is broken.
    """
    if args.seconds is not None and not args.load:
        raise UsageError("--seconds limits loading, so it wants --load")
    asked = args.load or trial.policy(args) is not None  # a policy that cannot be read is told whatever the name is
    answer = Answer(inventory.load(), args.name, args.group)
    entries = [case.entry for case in answer.entries]
    entries += [entry for case in answer.distributions for entry in case.entries]
    verdicts = [verdict.judge(entry, args) for entry in entries if asked and entry.order is not None]
    if args.json:
        loading = {"loading": [found.data for found in verdicts]} if asked else {}
        report.emit(report.json_text("why", {**answer.as_dict(), **loading}))
    else:
        report.emit("\n\n".join([text_of(answer), *map(str, verdicts)]))
    status = {LIVE: 0, ABSENT: 3}.get(answer.status, 1)
    return status or int(any(not found.good for found in verdicts))
