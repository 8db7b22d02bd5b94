"""`vplug new plugin NAME`: the folder of a new plugin for vLLM, to start from."""

from __future__ import annotations

import os

from vplug_rs import report
from vplug_rs.authoring.skeleton import KINDS, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

HELP = """\
Write the folder of a new plugin for vLLM: a pyproject.toml with its entry
point, a package, a self-test and a test that passes at once. It keeps every
rule of `vplug check`: it can be switched off, imports nothing heavy before it
is needed, contains its failures, and is marked as done after its work.

No file is ever overwritten."""

EPILOG = """\
kinds:
  general        a model architecture, registered in every process
  platform       a hardware platform
  io-processor   what comes in and goes out of a pooling model
  stat-logger    what an engine did, step by step
  endpoint       routes on the API server
  lora-resolver  LoRA adapters, found on request

exit status:
  0  the plugin is written
  2  the command line is wrong, a file is there already or cannot be written
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments.

    Args:
        parser: The command's parser.
    """
    parser.epilog = EPILOG
    parser.usage = "vplug new plugin NAME [-h] [--kind KIND]"
    parser.add_argument("what", metavar="plugin", choices=["plugin"], help="what to write")
    parser.add_argument("name", metavar="NAME", help="the distribution's name; its folder is made here")
    parser.add_argument(
        "--kind", metavar="KIND", choices=list(KINDS), default="general", help="one of those below (default general)"
    )


def run(args: argparse.Namespace) -> int:
    """Write the files, and say what comes next.

    Args:
        args: The parsed arguments.

    Returns:
        0.

    Raises:
        UsageError: The name cannot be used, or a file is in the way.
    """
    written = write(args.name, args.kind, os.curdir)
    lines = [os.path.normpath(path) for path in written]
    report.emit("\n".join([*lines, "", f"next: cd {args.name}, pip install -e '.[test]', pytest, vplug check ."]))
    return 0
