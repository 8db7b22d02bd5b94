"""`vplug trace -- PROGRAM ARGS`: which processes of a program ask for metadata and load plugins, and at what cost."""

from __future__ import annotations

import os
import sys

from vplug_rs import report
from vplug_rs.cli import BROKEN_PIPE, CANNOT_WRITE, drop_output
from vplug_rs.cli.child import Child
from vplug_rs.cli.run import NOT_EXECUTABLE, NOT_FOUND, program_of, reaching

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from vplug_rs.tracing.timeline import Event, Process

HELP = """\
Run a program and show, over all its Python processes, every metadata call with
its caller, every plugin that is imported or called, and their share of each
process's start-up.

The program runs as it would without us, with the importlib.metadata that it
has. Reached are the same processes as by `vplug run`. The table goes to stderr
when the program has ended, the program's own output stays where it was.
"""

EPILOG = """\
START-UP lasts until the last metadata call or plugin before the first quiet
time: more than a second without any, more than half of what had passed, and few
imports. METADATA, PLUGINS and SHARE are those of the start-up, LATER is both
after it. All times are in ms.

The exit status is the program's own; 127 means that it was not found, 126 that
it cannot be executed.
"""

SHOWN = 15
HEADERS = ("PROCESS", "PARENT", "HOW", "MS", "START-UP", "METADATA", "PLUGINS", "SHARE", "LATER", "COMMAND")
CALLS = ("MS", "KIND", "WHAT", "ASKED BY", "PROCESS")
_MOST_WIDTH = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the words of `vplug trace`.

    Args:
        parser: The parser of this sub-command.
    """
    parser.usage = "vplug trace [-h] [--json FILE] [--html FILE] -- PROGRAM ARGS"
    parser.epilog = EPILOG
    parser.add_argument("--json", metavar="FILE", help="write the timeline as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the timeline as one page for a browser")
    parser.add_argument("program", nargs="...", metavar="-- PROGRAM ARGS", help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    """Run the program and show its timeline.

    Args:
        args: What `add_arguments` declared.

    Returns:
        The program's exit status; 128 and the signal's number if one ended it.

    Raises:
        UsageError: No program was named, a file will not be writable or is named twice, or PYTHONPATH cannot hold our
            folder.
    """
    words = program_of(args.program, "trace")
    _check_files(args.json, args.html)
    with Child() as child:
        return _run(words, args, child)


def _run(words: list[str], args: argparse.Namespace, child: Child) -> int:
    import tempfile

    # A process that outlives the program may still write there.
    with tempfile.TemporaryDirectory(prefix="vplug-trace-", ignore_cleanup_errors=True) as folder:
        status, seconds = child.run(words, {**reaching(os.environ), "VPLUG_TRACE": folder})
        if status in {NOT_FOUND, NOT_EXECUTABLE} and not os.listdir(folder):
            return status
        from vplug_rs.tracing import timeline

        processes = timeline.read(folder)
    failed = _show(text_of(processes))
    # the files are wanted even if nobody reads the table: `2>&1 | head`
    if args.json:
        body = {"program": words, **timeline.as_dict(processes, status, seconds)}
        failed = _write(args.json, report.json_text("trace", body)) or failed
    if args.html:
        from vplug_rs.tracing.page import page

        failed = _write(args.html, page(words, processes, status, seconds)) or failed
    return status or failed


def _show(text: str) -> int:
    """Write the table to stderr; what became of that is a status."""
    try:
        report._write(sys.stderr, text)
    except OSError as error:
        drop_output(sys.stderr)  # what cannot be written there cannot be said there either
        return BROKEN_PIPE if isinstance(error, BrokenPipeError) else CANNOT_WRITE
    return 0


def _check_files(*paths: str | None) -> None:
    """Find out before the program runs whether the files can be written, each of them."""
    from vplug_rs.errors import UsageError

    named = [path for path in paths if path]
    for path in named:
        _check(path)
    regular = [os.path.realpath(path) for path in named if os.path.isfile(path) or not os.path.exists(path)]
    if len(set(regular)) < len(regular):
        raise UsageError("--json and --html name the same file", hint="the page would take the place of the timeline")


def _check(path: str) -> None:
    """Find out whether a file can be written; it stays as it is."""
    import stat

    from vplug_rs.errors import UsageError

    target = os.path.realpath(path)  # what a link leads to, there or not
    folder = os.path.dirname(target)
    if not os.path.exists(path) and not os.path.isdir(folder):
        raise UsageError(f"there is no folder `{folder}` to write `{os.path.basename(path)}` in")
    try:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(target)
            return
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # opening a pipe would wait for its reader
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error


def _write(path: str, text: str) -> int:
    """Write a file, or say why it cannot be and give a status; what is left of one is taken away."""
    data = (text + "\n").encode("utf-8", "backslashreplace")  # arguments may be any bytes
    opened = False
    try:
        with open(path, "wb") as stream:
            opened = True
            stream.write(data)
    except OSError as error:
        report.message("error", f"`{path}` cannot be written: {error.strerror}")
        if opened and os.path.isfile(path):
            os.unlink(os.path.realpath(path))
        return CANNOT_WRITE
    return 0


def text_of(processes: list[Process]) -> str:
    """The timeline as tables.

    Args:
        processes: The processes.
    """
    if not processes:
        return "no Python process was reached: see `vplug trace --help`"
    from vplug_rs.tracing.timeline import CALL, IMPORT, METADATA, busy

    rows = [
        (
            str(process.pid),
            str(process.parent),
            process.how,
            f"{(process.end - process.start) * 1e3:.0f}",
            f"{process.startup * 1e3:.0f}",
            f"{process.busy(METADATA) * 1e3:.1f}",
            f"{process.busy(IMPORT, CALL) * 1e3:.1f}",
            f"{process.share:.0%}",
            f"{busy(process.later) * 1e3:.1f}",
            _cut(" ".join(process.words)),
        )
        for process in processes
    ]
    events = [(process, event) for process in processes for event in process.events]
    text = report.table(HEADERS, rows, right=(0, 1, 3, 4, 5, 6, 7, 8))
    if not events:
        return f"{text}\n\nnothing asked for metadata, and no plugin was loaded"
    events.sort(key=lambda pair: -pair[1].seconds)
    calls = [_call(process, event) for process, event in events[:SHOWN]]
    more = f"\nand {len(events) - SHOWN} more; --json has all" if len(events) > SHOWN else ""
    return f"{text}\n\n{report.table(CALLS, calls, right=(0, 4))}{more}"


def _call(process: Process, event: Event) -> tuple[str, ...]:
    what = _cut(event.told) + (f" raised {event.error}" if event.error else "")
    return (f"{event.seconds * 1e3:.2f}", event.kind, what, _cut(event.caller, end=True), str(process.pid))


def _cut(text: str, *, end: bool = False) -> str:
    if len(text) <= _MOST_WIDTH:
        return text
    return "…" + text[1 - _MOST_WIDTH :] if end else text[: _MOST_WIDTH - 1] + "…"
