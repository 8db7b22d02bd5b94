"""The `vplug-logits` command.

A sub-command is a module of this package with `HELP`, `add_arguments(parser)` and `run(arguments) -> int`. Modules
import torch when they run, so `--help` does not wait for it.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from vplug_logits.errors import ConfigError, LogitsError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = ("build", "inspect", "check", "evaluate", "doctor", "bench")

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The words after `vplug-logits`; by default those of this process.

    Returns:
        The exit status: 0, 1 where something went wrong (one line on stderr says what, and what to do), 2 for words
        or settings that mean nothing, 130 when interrupted.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: threads that wait leave the cores to others
    try:
        status = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit has nowhere to fail
        return FAILED
    except LogitsError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        return USAGE if isinstance(error, ConfigError) else FAILED
    return status


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse: --help, or a usage error that it has printed
        return stop.code if isinstance(stop.code, int) else USAGE
    status: int = import_module(f"{__name__}.{arguments.command}").run(arguments)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vplug-logits",
        description="Sketches of LM heads: build, inspect and check them, count what they miss, and say what computes.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = import_module(f"{__name__}.{name}")
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.HELP))
    return parser
