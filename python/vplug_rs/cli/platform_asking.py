"""The options of the commands that ask for platforms, and the asking.

Nothing of a driver and no plugin comes into this process: drivers and plugins are asked by processes of their own.
"""

from __future__ import annotations

import os

from vplug_rs import env
from vplug_rs.errors import UsageError, VplugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence
    from typing import Any

    from vplug_rs.platforms.model import Probe


def add_options(parser: argparse.ArgumentParser, who: str = "a driver may take (10)") -> None:
    """Add what says where to look and how far to go.

    Args:
        parser: The command's parser.
        who: Who may take how long.
    """
    parser.add_argument(
        "--root", metavar="DIR", help="look below this folder instead of / (a container's, a test's); asks no driver"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--passive", action="store_true", help="files and variables only; no driver, no plugin is asked")
    how.add_argument("--active", action="store_true", help="ask drivers and plugins although --root is given")
    parser.add_argument("--timeout", metavar="SECONDS", type=_seconds, help=f"how long {who}; 0 means --passive")


def _seconds(word: str) -> float:
    import argparse

    number = env.number_of_seconds(word)
    if number is None:
        raise argparse.ArgumentTypeError(f"`{word}` is no number of seconds")
    return number


def root_of(args: argparse.Namespace) -> str:
    """The folder to look below.

    Args:
        args: The parsed arguments.

    Raises:
        UsageError: There is no such folder.
    """
    if args.root is None:
        return "/"
    if not os.path.isdir(args.root):
        raise UsageError(f"`{args.root}` is no folder", hint="--root wants the folder that stands for /")
    root: str = os.path.abspath(args.root)
    return root


def is_active(args: argparse.Namespace) -> bool:
    """Whether drivers and plugins are asked.

    Args:
        args: The parsed arguments.
    """
    return not args.passive and args.timeout != 0 and (args.active or root_of(args) == "/")


def ask(args: argparse.Namespace, *, both: bool = False, libraries: Collection[str] = ()) -> list[Probe]:
    """Ask for all platforms.

    Args:
        args: The parsed arguments.
        both: Ask NVML in both ways and compare.
        libraries: Which vendors' libraries are asked besides NVML.
    """
    root = root_of(args)
    active = False if args.passive else True if args.active else None

    from vplug_rs.platforms import probing

    return probing.probe(root, timeout=args.timeout, active=active, both=both, ask=libraries)


def resolution_of(probes: Sequence[Probe]) -> dict[str, Any]:
    """Which of the built-in platforms counts, as plain data; of a conflict its text and hint.

    Args:
        probes: What was found.
    """
    from vplug_rs.platforms import outside, resolution

    try:
        # what is installed and not asked: VPLUG_PLATFORM may name it
        return resolution.resolve(probes=list(probes), plugins=outside.listed().probes).as_dict()
    except VplugError as error:
        return {"error": str(error), "hint": error.hint}
