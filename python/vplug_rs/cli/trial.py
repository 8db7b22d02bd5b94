"""Loading on demand: the arguments that name a policy, and a child process that tries plugins under it.

Only what says so (`list --timings`, `why --load`) imports plugins, and never into the command's own process.
"""

from __future__ import annotations

import os
import sys

from vplug_rs import env
from vplug_rs.errors import UsageError, VplugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from vplug_rs.policy import Policy

SECONDS = 60.0
MOST_SECONDS = 1e6
# written out, for releases of Python break the line in different places
USAGE = "[--policy FILE | --env VARIABLE | --vllm]"
CRASHED = "crashed"
TIMED_OUT = "timed out"
_STDERR = 2
# the asker's path first, for it leads to us
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; from vplug_rs.loading.trial import main; main()"
)


class TrialError(VplugError):
    """The process that tried plugins ended without an answer.

    Attributes:
        state: What a plugin is called that does this alone: "crashed" or "timed out".
        failure: The record of it, with the keys of the loader's own records.
        loading: The plugin that the process was loading, or None where that is not known.
    """

    exit_status = 1

    def __init__(self, message: str, state: str, hint: str, end: _End, loading: str | None) -> None:
        super().__init__(message, hint=hint)
        self.state = state
        self.loading = loading
        self.failure = {
            "phase": "process",
            "exception": message,
            "hint": hint,
            "traceback": "",
            "seconds": end.seconds,
            "process": end.process,
            "thread": None,
            "attempts": 1,
        }


class _End:
    """How a process ended: its status, or None if its time was up."""

    def __init__(self, status: int | None, process: int, seconds: float) -> None:
        self.status, self.process, self.seconds = status, process, seconds


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a policy.

    Args:
        parser: The command's parser.
    """
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--policy", metavar="FILE", help="judge by this pyproject.toml or vplug.toml")
    which.add_argument("--env", metavar="VARIABLE", help="judge by the allowlist in this environment variable")
    which.add_argument("--vllm", action="store_true", help="judge by VLLM_PLUGINS, as vLLM reads it")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="S", help=f"how long loading may take (default {SECONDS:g})"
    )


def _seconds(text: str) -> float:
    import argparse

    seconds = env.number_of_seconds(text)
    if seconds is None or not 0 < seconds < MOST_SECONDS:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return seconds


def words(args: argparse.Namespace) -> list[str]:
    """The policy that the arguments name, for another process.

    Args:
        args: The parsed arguments.
    """
    if args.policy is not None:
        return ["file", os.path.abspath(args.policy)]
    if args.env is not None:
        return ["env", args.env]
    return ["vllm"] if args.vllm else ["open"]


def policy(args: argparse.Namespace) -> Policy | None:
    """The policy that the arguments name, or None.

    Args:
        args: The parsed arguments.

    Raises:
        PolicyError: its file is broken.
    """
    named = words(args)
    if named == ["open"]:
        return None
    from vplug_rs.loading.trial import policy_of

    return policy_of(named)


def unloaded(group: str, args: argparse.Namespace) -> dict[str, Any]:
    """The loader's report of a group under the policy that the arguments name, nothing being imported.

    Args:
        group: The entry point group.
        args: The parsed arguments.
    """
    from vplug_rs.loader import PluginLoader

    return {**PluginLoader(group, policy=policy(args)).report().data, "error": None}


def load(group: str, names: list[str] | None, args: argparse.Namespace) -> dict[str, Any]:
    """Load a group, or some plugins of it, in a process of its own; what they print goes to stderr.

    Args:
        group: The entry point group.
        names: The plugins, in the order in which they are to be loaded, or None for the group as a host loads it.
        args: The parsed arguments.

    Returns:
        The loader's report as plain data, with `error` where it refused as a whole.

    Raises:
        TrialError: the process crashed, ended itself or took too long.
    """
    import json
    import tempfile

    if not sys.executable:
        raise UsageError("this interpreter does not know its own path, so no other one can be started")
    with tempfile.TemporaryDirectory(prefix="vplug-") as folder:
        out = os.path.join(folder, "answer.json")
        wish = {"group": group, "names": names, "path": sys.path, "policy": words(args), "out": out}
        seconds = SECONDS if args.seconds is None else args.seconds
        # -P: until the path is set, the current folder would stand in front
        end = _ended([sys.executable, "-P", "-c", _START, json.dumps(wish)], seconds)
        try:
            with open(out, encoding="utf-8") as stream:
                found: dict[str, Any] = json.load(stream)
        except (OSError, ValueError):
            found = {}
    if "plugins" in found:
        return found
    what = f"group `{group}`" if names is None else f"`{'`, `'.join(names)}` of group `{group}`"
    if end.status is None:
        text, state = f"loading {what} took more than {seconds:g} s and was ended", TIMED_OUT
        hint = "`--seconds` gives more time"
    else:
        text, state = f"the process that loaded {what} ended by itself, {_ending(end.status)}", CRASHED
        hint = "a plugin ends or crashes whatever process loads it: report it to its author"
    raise TrialError(text, state, hint, end, found.get("loading"))


def _ended(command: list[str], most: float) -> _End:
    """Runs a command until it ends, or for so many seconds; stdin is the user's, and no plugin's to read."""
    import subprocess
    from time import monotonic

    began = monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=_STDERR) as child:  # noqa: S603  # our own words
        try:
            status: int | None = child.wait(most)
        except subprocess.TimeoutExpired:
            child.kill()
            status = None
        except BaseException:
            child.kill()
            raise
    return _End(status, child.pid, monotonic() - began)


def _ending(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    import signal

    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
