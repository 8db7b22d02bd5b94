"""`vplug why NAME`: where one entry point or distribution comes from, and why it is not there."""

from __future__ import annotations

from vplug_rs import report
from vplug_rs.cli import inventory
from vplug_rs.cli.evidence import ABSENT, LIVE, Answer
from vplug_rs.cli.explain import text_of
from vplug_rs.cli.parser import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

HELP = """\
Explain one entry point or distribution: which file declares it, whether hosts
see it, and if not, what hides it and what to delete. Nothing is imported."""

EPILOG = """\
exit status:
  0  it is live and nothing is wrong with it
  1  it is there, but damaged, ambiguous, without its module, or hidden: only a
     copy has it that another copy shadows
  2  the command line is wrong
  3  there is nothing of that name
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG)
    parser.add_argument("name", metavar="NAME", help="an entry point, or a distribution in any spelling")
    parser.add_argument("--group", metavar="G", help="only entry points of this group")


def run(args: argparse.Namespace) -> int:
    """Print the explanation.

    Args:
        args: The parsed arguments.

    Returns:
        0 when it is live and whole, 1 when something is in its way, 3 when it is absent.
    """
    answer = Answer(inventory.load(), args.name, args.group)
    report.emit(report.json_text("why", answer.as_dict()) if args.json else text_of(answer))
    return {LIVE: 0, ABSENT: 3}.get(answer.status, 1)
