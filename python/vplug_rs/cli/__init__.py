"""The `vplug` command: finds the sub-command, and turns every way to end into an exit status.

A sub-command is a module of this package with `HELP`, `add_arguments(parser)` and `run(args) -> int`; it is imported
only when it is the one that runs.
"""

from __future__ import annotations

import os
import sys

from vplug_rs import report
from vplug_rs.cli import parser as _parser
from vplug_rs.errors import VplugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

INTERRUPTED = 130
BROKEN_PIPE = 141
CANNOT_WRITE = 74
INTERNAL_ERROR = 70


def main(argv: Sequence[str] | None = None) -> int:
    """Run one `vplug` command.

    Args:
        argv: The words after `vplug`; by default those of this process.

    Returns:
        The exit status; `vplug --help` lists them. The process is not ended.

    Raises:
        Exception: An internal error, only with `--traceback`; without it, it is a message and a status.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    traceback = False
    try:
        options, command, rest = _parser.split(words)
        traceback = options.traceback
        status = _dispatch(options, command, rest)
        _flush()
    except SystemExit as stop:  # argparse: --help, or a usage error that it has printed
        return _finish(stop)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        drop_output(sys.stdout)
        return BROKEN_PIPE
    except VplugError as error:
        report.message("error", str(error), error.hint)
        return error.exit_status
    except Exception as error:
        if traceback:
            raise
        return _unexpected(error, words)
    return status


def _dispatch(options: _parser.Options, command: str | None, rest: list[str]) -> int:
    if options.version:
        report.emit(_parser.version_text(verbose=options.verbose))
        return 0
    if command is None:
        report.emit(_parser.top_parser().format_help().rstrip("\n"))
        return 0
    module = _parser.load(command)
    arguments = _parser.command_parser(command, module).parse_args(rest)
    return module.run(arguments)


def _finish(stop: SystemExit) -> int:
    """The status of a `SystemExit`, once what argparse has printed is out."""
    try:
        _flush()
    except BrokenPipeError:
        drop_output(sys.stdout)
        return BROKEN_PIPE
    return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output(stream: TextIO | None) -> None:
    """Point a stream at the null device, so that the interpreter's own flush at exit finds nothing to fail on.

    Args:
        stream: stdout or stderr; None if the caller closed it.
    """
    try:
        descriptor = stream.fileno()  # type: ignore[union-attr]  # caught below
    except (AttributeError, OSError, ValueError):
        return  # closed, or a stream of the caller's without a descriptor: nothing is left to flush
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def _unexpected(error: Exception, words: list[str]) -> int:
    if isinstance(error, OSError) and error.filename is None and error.errno is not None:
        # Reads are contained where they happen, and name their file: what is left is a full disk under stdout.
        drop_output(sys.stdout)
        report.message("error", f"cannot write the output: {error.strerror}")
        return CANNOT_WRITE
    again = " ".join(["vplug", "--traceback", *words])
    report.message(
        "error",
        f"internal error: {type(error).__name__}: {error}",
        f"this is a fault in vplug, not in your environment; `{again}` shows where",
    )
    return INTERNAL_ERROR
