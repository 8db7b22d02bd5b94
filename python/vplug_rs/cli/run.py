"""`vplug run -- PROGRAM ARGS`: start a program whose Python processes all have the fast importlib.metadata.

The environment is the only means: a folder with a `sitecustomize` of ours stands first in PYTHONPATH, and VPLUG_RUN
tells it what to do. We write nothing anywhere, and the process becomes the program.
"""

from __future__ import annotations

import os
import signal
import sys

import vplug_rs
from vplug_rs import env, report
from vplug_rs.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Mapping

    from vplug_rs.platforms.outside import Asked

HELP = """\
Run a program with a fast importlib.metadata, in all its Python processes.

PROGRAM is started as the shell would start it, with one more folder in front of
PYTHONPATH, and VPLUG_RUN=1. Every Python process below it that has vplug_rs
calls `vplug_rs.install()` first: same answers, sooner. A Python that does not
have vplug_rs, or an older one, runs as before. Nothing is written to disk, save
the byte code that Python keeps of what it imports. Where VPLUG_VLLM is on, the
platform is looked for once and handed on in VPLUG_PLATFORM_RESULT, unless
platform plugins are installed: those the program asks itself.

Not reached: Python started with -I, -E or -S (they ignore PYTHONPATH or skip
`site`), and processes that are given a PYTHONPATH of their own.

The exit status and the signals are the program's own; 127 means that it was not
found, 126 that it cannot be executed.
"""

NOT_FOUND = 127
NOT_EXECUTABLE = 126


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the words of `vplug run`.

    Args:
        parser: The parser of this sub-command.
    """
    parser.add_argument("program", nargs="...", metavar="-- PROGRAM ARGS", help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    """Become the program.

    Args:
        args: What `add_arguments` declared.

    Returns:
        An exit status, only if the program could not be started.

    Raises:
        UsageError: No program was named, or PYTHONPATH cannot hold our folder.
    """
    words = program_of(args.program, "run")
    environment = {**reaching(os.environ), "VPLUG_RUN": "1"}
    if env.switch(env.VLLM) is True:
        environment |= platform(environment)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by the caller
            stream.flush()
    # Python ignores these two, and an ignored signal stays ignored in the program.
    for ignored in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, ignored):
            signal.signal(getattr(signal, ignored), signal.SIG_DFL)
    try:
        os.execvpe(words[0], words, environment)  # noqa: S606 (no shell is wanted)
    except (FileNotFoundError, NotADirectoryError):
        report.message("error", f"`{words[0]}`: program not found")
        return NOT_FOUND
    except OSError as error:
        report.message("error", f"`{words[0]}` cannot be executed: {error.strerror}")
        return NOT_EXECUTABLE


def platform(environment: Mapping[str, str]) -> dict[str, str]:
    """The variable by which the program's processes know the platform without looking.

    Args:
        environment: The program's.

    Returns:
        Nothing, where it is known already, is not certain, cannot be found, or is a plugin's to say: then the program
        looks itself, and says what is the matter.
    """
    from vplug_rs.platforms import handover, resolution

    try:
        if handover.from_environment(environment) is not None:
            return {}
        found = resolution.resolve(asker=_listed)
        if not resolution.is_certain(found):
            for warning in found.warnings:
                report.message("warning", warning)
        return handover.to_environment(found, environment)
    except Exception:  # noqa: BLE001  # a reason of the program's own to fail, or none
        return {}


class _PluginsError(Exception):
    """Plugins have to be asked: that is done once, by the program, and not twice."""


def _listed(only: Collection[tuple[str, str]] | None) -> Asked:
    from vplug_rs.platforms import outside

    found = outside.listed()
    if any(outside.may_be_asked(probe, only) for probe in found.probes):
        raise _PluginsError
    return found


def program_of(words: list[str], command: str) -> list[str]:
    """The program and its arguments.

    Args:
        words: What argparse left.
        command: The sub-command, for the message.

    Raises:
        UsageError: There is none.
    """
    if words[:1] == ["--"]:  # some releases of argparse leave it in
        words = words[1:]
    if not words:
        raise UsageError(f"`vplug {command}` needs a program", hint=f"for example: vplug {command} -- pytest -q")
    return words


def reaching(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Python processes find our `sitecustomize`.

    Args:
        environment: The one to start from; it is not changed.

    Raises:
        UsageError: The path of this package holds the separator of PYTHONPATH.
    """
    folder = os.path.join(os.path.dirname(os.path.abspath(vplug_rs.__file__)), "_run")
    if os.pathsep in folder:
        raise UsageError(
            f"PYTHONPATH cannot name `{folder}`", hint=f"install vplug_rs where no `{os.pathsep}` is in the path"
        )
    before = environment.get("PYTHONPATH", "")
    entries = before.split(os.pathsep) if before else []  # an empty one means nothing; an empty entry means here
    if entries[:1] != [folder]:
        entries.insert(0, folder)
    return {**environment, "PYTHONPATH": os.pathsep.join(entries)}
