"""Loading on demand: the arguments that name a policy, and a child process that tries plugins under it.

Only what says so (`list --timings`, `why --load`) imports plugins, and never into the command's own process.
"""

from __future__ import annotations

import os
import sys

from vplug_rs.errors import UsageError, VplugError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from vplug_rs.policy import Policy

SECONDS = 60.0
MOST_SECONDS = 1e6
# written out, for releases of Python break the line in different places
USAGE = "[--policy FILE | --env VARIABLE | --vllm] [--seconds S]"
_STDERR = 2
# the asker's path first, for it leads to us
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])['path']; from vplug_rs.loading.trial import main; main()"
)


class TrialError(VplugError):
    """The process that tried plugins ended without an answer."""

    exit_status = 1


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
        "--seconds", type=_seconds, default=SECONDS, metavar="S", help="how long loading may take (default 60)"
    )


def _seconds(text: str) -> float:
    import argparse

    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < MOST_SECONDS:
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


def load_group(group: str, args: argparse.Namespace) -> dict[str, Any]:
    """Load a group; where a plugin takes the process down, each one in a process of its own.

    Args:
        group: The entry point group.
        args: The parsed arguments.

    Returns:
        As `load`; a plugin that ended its process has the state "crashed" and a failure of the phase "process". Each
        plugin has its `order`, its place among those that are loaded, or None.
    """
    try:
        found = load(group, None, args)
    except TrialError:
        found = _one_by_one(group, args)
    _number(group, found["plugins"], args)
    return found


def _one_by_one(group: str, args: argparse.Namespace) -> dict[str, Any]:
    found = _unloaded(group, args)
    for number, plugin in enumerate(found["plugins"]):
        if plugin["state"] == "filtered":
            continue
        try:
            alone = load(group, plugin["name"], args)["plugins"]
        except TrialError as error:
            failure = {"phase": "process", "exception": str(error), "hint": error.hint, "traceback": ""}
            plugin.update(state="crashed", failure=failure)
        else:
            found["plugins"][number] = next((row for row in alone if _same(row, plugin)), plugin)
    return found


def _number(group: str, plugins: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Gives each plugin its place in the loading order, by the same judgement as the loader's."""
    from vplug_rs.policy import Policy

    filtered = {number for number, plugin in enumerate(plugins) if plugin["state"] == "filtered"}
    # the losers among doubles take part: where they stand may decide where the one that counts is loaded
    apart = {number: ("", "") for number in filtered if plugins[number]["reason"] != "collision"}
    candidates = [(plugin["name"], plugin["distribution"] or "") for plugin in plugins]
    judgement = (policy(args) or Policy()).judge(group, candidates, refused=apart)
    places = {number: place for place, number in enumerate((n for n in judgement.order if n not in filtered), 1)}
    for number, plugin in enumerate(plugins):
        plugin["order"] = places.get(number)


def _unloaded(group: str, args: argparse.Namespace) -> dict[str, Any]:
    from vplug_rs.loader import PluginLoader

    return {**PluginLoader(group, policy=policy(args)).report().data, "error": None}


def _same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return all(one[key] == two[key] for key in ("name", "value", "metadata_path"))


def load(group: str, name: str | None, args: argparse.Namespace) -> dict[str, Any]:
    """Load a group, or one plugin of it, in a process of its own; what they print goes to stderr.

    Args:
        group: The entry point group.
        name: One plugin, or None for all.
        args: The parsed arguments.

    Returns:
        The loader's report as plain data, with `error` where it refused as a whole.

    Raises:
        TrialError: the process crashed, ended itself or took too long.
    """
    import json
    import subprocess
    import tempfile

    if not sys.executable:
        raise UsageError("this interpreter does not know its own path, so no other one can be started")
    with tempfile.TemporaryDirectory(prefix="vplug-") as folder:
        out = os.path.join(folder, "answer.json")
        wish = {"group": group, "name": name, "path": sys.path, "policy": words(args), "out": out}
        command = [sys.executable, "-c", _START, json.dumps(wish)]
        try:
            done = subprocess.run(command, stdout=_STDERR, timeout=args.seconds, check=False)  # noqa: S603  # our own words
        except subprocess.TimeoutExpired:
            raise TrialError(
                f"loading {_what(group, name)} took more than {args.seconds:g} s and was ended",
                hint="`vplug why NAME --load` tries one plugin at a time; --seconds gives more time",
            ) from None
        try:
            with open(out, encoding="utf-8") as stream:
                found: dict[str, Any] = json.load(stream)
        except (OSError, ValueError):
            raise TrialError(
                f"the process that loaded {_what(group, name)} ended by itself, {_ending(done.returncode)}",
                hint="a plugin ends or crashes whatever process loads it: report it to its author",
            ) from None
    return found


def _what(group: str, name: str | None) -> str:
    return f"group `{group}`" if name is None else f"`{name}` of group `{group}`"


def _ending(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    import signal

    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
