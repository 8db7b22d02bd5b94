"""`vplug bench`: what discovery costs in this environment, beside the standard library.

Every figure is taken in processes of its own, so that nothing is warm that is not warm for a user.
"""

from __future__ import annotations

import argparse
import sys

from vplug_rs import _core, report
from vplug_rs.cli import measure
from vplug_rs.cli.parser import declare
from vplug_rs.errors import UsageError, VplugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.cli.measure import Result

HELP = """\
Time the discovery of this environment's entry points, with vplug_rs and with
importlib.metadata, in fresh processes that take turns. No plugin is imported."""

EPILOG = """\
What is timed (medians, minima in brackets):
  import         the import alone
  first call     entry_points() in a process that has not asked before
  later call     the same again, nothing having changed on disk
  whole process  importing and asking once, less a process that does nothing
Byte code is kept in a temporary folder meanwhile, so that no time is spent on
compiling. System calls are counted with strace, where it is installed.

exit status:
  0  done
  1  the two answers differ: `vplug doctor` says which package is at fault
  2  the command line is wrong, or this is a debug build
"""

SIDES = ("importlib.metadata", "vplug_rs")
MILLI = 1e-6  # nanoseconds -> milliseconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    declare(parser, EPILOG, "print one JSON object; times are in nanoseconds")
    parser.add_argument("--rounds", type=whole_number, default=20, metavar="N", help="processes of each kind (20)")
    parser.add_argument("--group", metavar="G", help="ask for this group instead of for all")


def run(args: argparse.Namespace) -> int:
    """Measure and print.

    Args:
        args: The parsed arguments.

    Returns:
        0, or 1 when the two answers differ.

    Raises:
        UsageError: The core is a debug build, or this interpreter does not know its own path.
        VplugError: Discovery by vplug_rs fails, which it never should.
    """
    if _core.build_info().get("profile") == "debug":
        raise UsageError("this is a debug build; its times mean nothing", hint="build it with `make dev`")
    if not sys.executable:
        raise UsageError("this interpreter does not know its own path, so it cannot start another")
    with measure.Children() as children:
        answers = {side: children.answer(side, args.group) for side in SIDES}
        if answers["vplug_rs"].error:
            raise VplugError(f"vplug_rs cannot answer here: {answers['vplug_rs'].error}")
        results = children.timings(SIDES, args.group, args.rounds)
        calls, why_not = children.system_calls(SIDES, args.group)
    if args.json:
        report.emit(report.json_text("bench", _body(args, answers, results, calls, why_not)))
    else:
        report.emit(_text(args, answers, results, calls))
    if why_not:
        report.message("note", f"{why_not}: system calls not counted")
    return _compare(answers)


def whole_number(text: str) -> int:
    """Read a number of rounds.

    Args:
        text: What was given.

    Raises:
        argparse.ArgumentTypeError: It is no number, or less than 1.
    """
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is no whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _body(
    args: argparse.Namespace,
    answers: dict[str, measure.Answer],
    results: dict[str, dict[str, Result]],
    calls: dict[str, dict[str, int]],
    why_not: str | None,
) -> dict[str, object]:
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "group": args.group,
        "rounds": args.rounds,
        "entry_points": {side: answer.count for side, answer in answers.items()},
        "errors": {side: answer.error for side, answer in answers.items()},
        "equal": answers[SIDES[0]].digest == answers[SIDES[1]].digest,
        "times_ns": {
            row: {side: {"median": result.median, "minimum": result.minimum} for side, result in sides.items()}
            for row, sides in results.items()
        },
        "system_calls": calls or None,
        "system_calls_missing": why_not,
    }


def _text(
    args: argparse.Namespace,
    answers: dict[str, measure.Answer],
    results: dict[str, dict[str, Result]],
    calls: dict[str, dict[str, int]],
) -> str:
    python = ".".join(map(str, sys.version_info[:3]))
    number = report.count(answers[SIDES[1]].count or 0, "entry point")
    where = f" in group `{args.group}`" if args.group else ""
    title = f"Python {python}, {number}{where}, {report.count(args.rounds, 'round')}; medians (minima), milliseconds\n"
    rows = []
    for row, sides in results.items():
        cells = [_time(sides[side]) if side in sides else "-" for side in SIDES]
        ratio = sides[SIDES[0]].median / sides[SIDES[1]].median if len(sides) == len(SIDES) else 0.0
        rows.append([row, *cells, f"{ratio:.1f}" if ratio > 0 else "-"])
    for row, numbers in calls.items():
        theirs, ours = (numbers.get(side) for side in SIDES)
        ratio = theirs / ours if theirs and ours else 0.0
        rows.append([row, *(("-" if n is None else str(n)) for n in (theirs, ours)), f"{ratio:.1f}" if ratio else "-"])
    return f"{title}\n{report.table(('', *SIDES, 'times less'), rows, right=(1, 2, 3))}"


def _time(result: Result) -> str:
    return f"{result.median * MILLI:.3f} ({result.minimum * MILLI:.3f})"


def _compare(answers: dict[str, measure.Answer]) -> int:
    theirs, ours = (answers[side] for side in SIDES)
    if theirs.error:
        hint = "`vplug doctor` names the package at fault; vplug_rs goes on without its damaged line"
        report.message("warning", f"importlib.metadata cannot answer here: {theirs.error}", hint)
        return 1
    if theirs.digest != ours.digest:
        text = f"the answers differ: {theirs.count} entry points from importlib.metadata, {ours.count} from vplug_rs"
        report.message("warning", text, "`vplug doctor` says why")
        return 1
    return 0
