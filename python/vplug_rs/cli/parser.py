"""The words of the command line: which sub-command, its parser, the help texts.

It imports a sub-command's module only when asked for that sub-command.
"""

from __future__ import annotations

import argparse
import sys

from vplug_rs import _core, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Protocol

    class Command(Protocol):
        """What each sub-command's module offers."""

        HELP: str

        def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...  # noqa: D102
        def run(self, args: argparse.Namespace) -> int: ...  # noqa: D102

    class Options(argparse.Namespace):
        """The options in front of the sub-command."""

        version: bool
        verbose: bool
        traceback: bool


COMMANDS = {
    "list": ("listing", "list the entry points of this environment"),
    "why": ("why", "explain one entry point or distribution"),
    "doctor": ("doctor", "find what is damaged, hidden or left over"),
    "probe": ("probe", "say which accelerators are here, with the evidence"),
    "bench": ("bench", "time this environment beside importlib.metadata"),
    "run": ("run", "run a program with the fast metadata, unchanged"),
    "trace": ("trace", "show what a program's processes load, and what it costs"),
    "new": ("new", "write the folder of a new plugin for vLLM"),
    "check": ("check", "check a plugin of your own for vLLM, without importing it"),
}
"""Sub-command -> (module, one line). The line is repeated here so that `vplug --help` imports no module."""

WIDTH = 80  # fixed, so that help reads the same in every terminal and can be compared in a test

EXIT_STATUS = """\
exit status:
  0    done, and nothing is wrong with what was asked for
  1    done, and something is: `vplug COMMAND --help` says what counts
  2    the command line is wrong; doctor: platforms that contradict
  3    there is nothing of that name; doctor, probe: a driver does not answer
  70   internal error (`vplug --traceback COMMAND` shows it whole)
  74   the output cannot be written
  130  interrupted
  141  the reader of the output has gone away
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors look like all other messages."""

    def __init__(self, prog: str, description: str, epilog: str | None = None) -> None:
        """Make a parser without arguments.

        Args:
            prog: The words that call it.
            description: The text under the usage line.
            epilog: The text at the end.
        """
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=WIDTH),
            allow_abbrev=False,
        )
        self.color = False  # read by 3.14 and later; plain text is the same everywhere

    def error(self, message: str) -> NoReturn:
        """Report a usage error and stop.

        Args:
            message: What is wrong, in argparse's words.

        Raises:
            SystemExit: Always, with status 2.
        """
        report.message("error", message, f"see `{self.prog} --help`")
        raise SystemExit(2)


def top_parser() -> Parser:
    """The parser of what stands in front of the sub-command; it writes `vplug --help`."""
    lines = "".join(f"  {name:<8} {text}\n" for name, (_, text) in COMMANDS.items())
    parser = Parser(
        "vplug",
        "Find the plugins that are installed in this Python, and explain them.\n"
        "No plugin is imported by the command itself. Processes of their own import some\n"
        "if you ask for it (list --timings, why --load, check --load), and platform\n"
        "plugins where a platform is needed (doctor; run, if VPLUG_VLLM is on); they also\n"
        "ask drivers, for these and for probe.\n"
        "No command but `run` and `trace` starts a program of yours.\n\n"
        f"commands:\n{lines}\n"
        "`vplug COMMAND --help` says more.",
        EXIT_STATUS,
    )
    parser.usage = "vplug [-h] [--version] [--verbose] [--traceback] COMMAND ..."
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    parser.add_argument("--verbose", action="store_true", help="with --version: how and where it was built")
    parser.add_argument("--traceback", action="store_true", help="on an internal error, show the whole traceback")
    return parser


def split(words: list[str]) -> tuple[Options, str | None, list[str]]:
    """Take the command line apart at the sub-command, so that its own words are read by its own parser.

    Args:
        words: What follows `vplug`.

    Returns:
        The options in front, the sub-command or `None`, and the words after it.

    Raises:
        SystemExit: For `--help` (0) and for an unknown option (2).
    """
    at = next((number for number, word in enumerate(words) if not word.startswith("-")), len(words))
    options = top_parser().parse_args(words[:at])
    return options, (words[at] if at < len(words) else None), words[at + 1 :]  # type: ignore[return-value]


def load(command: str) -> Command:
    """Import the module of a sub-command.

    Args:
        command: The word that was given.

    Raises:
        UsageError: There is no such sub-command.
    """
    if command not in COMMANDS:
        from difflib import get_close_matches

        from vplug_rs.errors import UsageError

        near = get_close_matches(command, COMMANDS, 1)
        hint = f"did you mean `{near[0]}`?" if near else "see `vplug --help`"
        raise UsageError(f"there is no command `{command}`", hint=hint)
    from importlib import import_module

    module: Command = import_module(f"vplug_rs.cli.{COMMANDS[command][0]}")
    return module


def command_parser(command: str, module: Command) -> Parser:
    """The parser of one sub-command.

    Args:
        command: Its word.
        module: Its module.
    """
    parser = Parser(f"vplug {command}", module.HELP)
    module.add_arguments(parser)
    return parser


def declare(parser: argparse.ArgumentParser, epilog: str, json: str = "print one JSON object") -> None:
    """Add what all commands have that answer with data.

    Args:
        parser: The command's parser.
        epilog: The text at the end of its help.
        json: What `--json` does.
    """
    parser.epilog = epilog
    parser.add_argument("--json", action="store_true", help=json)


def version_text(*, verbose: bool) -> str:
    """What `vplug --version` prints.

    Args:
        verbose: Also how the core was built, and for which interpreter it answers.
    """
    build = _core.build_info()
    first = f"vplug {build['version']}"
    if not verbose:
        return first
    system = sys.implementation
    rows = [(key, value) for key, value in build.items() if key != "version"]
    rows.append(("python", f"{system.name} {'.'.join(map(str, sys.version_info[:3]))}"))
    rows.append(("executable", sys.executable or "unknown"))
    rows.append(("core", _core.__file__ or "built in"))
    return f"{first}\n{report.fields(rows)}"
