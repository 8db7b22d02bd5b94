"""`vplug trace -- PROGRAM ARGS`: which processes of a program ask for metadata and load plugins, and at what cost."""

from __future__ import annotations

import os
import sys

from vplug_rs import report
from vplug_rs.cli import CANNOT_WRITE
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
The exit status is the program's own; 127 means that it was not found, 126 that
it cannot be executed. start-up lasts until the last metadata call or plugin.
"""

SHOWN = 15
HEADERS = ("PROCESS", "PARENT", "HOW", "MS", "START-UP", "METADATA", "PLUGINS", "SHARE", "COMMAND")
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
        UsageError: No program was named, a file will not be writable, or PYTHONPATH cannot hold our folder.
    """
    import tempfile

    words = program_of(args.program, "trace")
    for path in filter(None, (args.json, args.html)):
        _check(path)
    # A process that outlives the program may still write there.
    with tempfile.TemporaryDirectory(prefix="vplug-trace-", ignore_cleanup_errors=True) as folder:
        environment = {**reaching(os.environ), "VPLUG_TRACE": folder}
        status, seconds = _wait_for(words, environment)
        if status in {NOT_FOUND, NOT_EXECUTABLE} and not os.listdir(folder):
            return status
        from vplug_rs.tracing import timeline

        processes = timeline.read(folder)
    written = True
    try:
        report._write(sys.stderr, text_of(processes))
    finally:  # the files are wanted even if nobody reads the table: `2>&1 | head`
        if args.json:
            body = {"program": words, **timeline.as_dict(processes, status, seconds)}
            written &= _write(args.json, report.json_text("trace", body))
        if args.html:
            from vplug_rs.tracing.page import page

            written &= _write(args.html, page(words, processes, status, seconds))
    return status if written else status or CANNOT_WRITE


def _wait_for(words: list[str], environment: dict[str, str]) -> tuple[int, float]:
    """Run to the end; interrupts are the program's to answer."""
    import signal
    import subprocess
    import time

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by the caller
            stream.flush()
    began = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = subprocess.Popen(  # noqa: S603  # the user's own program
            words,
            env=environment,
            preexec_fn=_restore,  # noqa: PLW1509  # no thread of ours runs
        )
        status = program.wait()
    except (FileNotFoundError, NotADirectoryError):
        report.message("error", f"`{words[0]}`: program not found")
        status = NOT_FOUND
    except OSError as error:
        report.message("error", f"`{words[0]}` cannot be executed: {error.strerror}")
        status = NOT_EXECUTABLE
    finally:
        signal.signal(signal.SIGINT, before)
    return (status if status >= 0 else 128 - status), time.monotonic() - began


def _restore() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _check(path: str) -> None:
    """Find out before the program runs whether a file can be written; it stays as it is."""
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


def _write(path: str, text: str) -> bool:
    """Write a file, or say why it cannot be; what is left of one is taken away."""
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
        return False
    return True


def text_of(processes: list[Process]) -> str:
    """The timeline as tables.

    Args:
        processes: The processes.
    """
    if not processes:
        return "no Python process was reached: see `vplug trace --help`"
    from vplug_rs.tracing.timeline import CALL, IMPORT, METADATA

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
            _cut(" ".join(process.words)),
        )
        for process in processes
    ]
    events = [(process, event) for process in processes for event in process.events]
    text = report.table(HEADERS, rows, right=(0, 1, 3, 4, 5, 6, 7))
    if not events:
        return f"{text}\n\nnothing asked for metadata, and no plugin was loaded"
    events.sort(key=lambda pair: -pair[1].seconds)
    calls = [_call(process, event) for process, event in events[:SHOWN]]
    more = f"\nand {len(events) - SHOWN} more; --json has all" if len(events) > SHOWN else ""
    return f"{text}\n\n{report.table(CALLS, calls, right=(0, 4))}{more}"


def _call(process: Process, event: Event) -> tuple[str, ...]:
    what = event.what + (f" raised {event.error}" if event.error else "")
    return (f"{event.seconds * 1e3:.2f}", event.kind, _cut(what), _cut(event.caller, end=True), str(process.pid))


def _cut(text: str, *, end: bool = False) -> str:
    if len(text) <= _MOST_WIDTH:
        return text
    return "…" + text[1 - _MOST_WIDTH :] if end else text[: _MOST_WIDTH - 1] + "…"
