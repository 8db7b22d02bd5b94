"""The frame around the sub-commands: help texts, exit statuses, streams that break."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import interpreters
from cli_lab import CommandLab, lab
from vplug_rs import cli
from vplug_rs.cli import parser as cli_parser
from vplug_rs.cli.codes import render

__all__ = ["lab"]

HERE = Path(__file__).parent
HELP = HERE / "data" / "help"
PAGE = HERE.parent / "docs" / "cli.md"
COMMANDS = ["", *cli_parser.COMMANDS]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux's devices and signals")


def help_of(command: str, lab: CommandLab, python: str = sys.executable) -> str:
    done = lab.run(lab.site(), *([command] if command else []), "--help", python=python, COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command or "vplug")
def test_help_is_what_is_checked_in(lab: CommandLab, command: str) -> None:
    """After a wanted change: `python tests/test_cli_main.py` writes the files anew."""
    assert help_of(command, lab) == (HELP / f"{command or 'vplug'}.txt").read_text()


@pytest.mark.every_python
@interpreters.each_minor()
def test_help_is_the_same_on_every_python(lab: CommandLab, minor: int) -> None:
    python = interpreters.need(minor).executable
    for command in COMMANDS:
        assert help_of(command, lab, python) == (HELP / f"{command or 'vplug'}.txt").read_text(), command


def test_no_help_line_is_too_long() -> None:
    for file in HELP.iterdir():
        assert max(map(len, file.read_text().splitlines())) <= cli_parser.WIDTH, file


def test_every_command_is_in_the_readers_page() -> None:
    page = PAGE.read_text()
    for command in COMMANDS:
        words = f"vplug {command}".strip()
        help_text = (HELP / f"{command or 'vplug'}.txt").read_text()
        assert f"```text\n$ {words} --help\n{help_text}```" in page


def test_the_page_of_codes_is_the_table() -> None:
    """After a change of the table: `python -m vplug_rs.cli.codes > docs/diagnostics.md`."""
    assert (HERE.parent / "docs" / "diagnostics.md").read_text() == render()


def test_without_words_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert capsys.readouterr().out == (HELP / "vplug.txt").read_text()


def test_version(lab: CommandLab) -> None:
    short = lab.run(lab.site(), "--version")
    assert short.returncode == 0
    assert short.stdout.split()[0] == "vplug"
    long = lab.run(lab.site(), "--version", "--verbose").stdout
    assert long.startswith(short.stdout)
    executable = next(line.split(maxsplit=1)[1] for line in long.splitlines() if "executable" in line)
    assert Path(executable).samefile(sys.executable)
    assert "profile" in long


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lst"], "error: there is no command `lst`\nhint: did you mean `list`?\n"),
        (["zzz"], "error: there is no command `zzz`\nhint: see `vplug --help`\n"),
        (["--nonsense"], "error: unrecognized arguments: --nonsense\nhint: see `vplug --help`\n"),
        (["list", "--jsn"], "error: unrecognized arguments: --jsn\nhint: see `vplug list --help`\n"),
        (["why"], "error: the following arguments are required: NAME\nhint: see `vplug why --help`\n"),
        (
            ["bench", "--rounds", "0"],
            "error: argument --rounds: must be at least 1\nhint: see `vplug bench --help`\n",
        ),
        (
            ["bench", "--rounds", "many"],
            "error: argument --rounds: `many` is no whole number\nhint: see `vplug bench --help`\n",
        ),
    ],
)
def test_a_wrong_command_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", message)


def test_an_internal_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(command: str) -> object:
        raise RuntimeError(command)

    monkeypatch.setattr(cli_parser, "load", fail)
    assert cli.main(["list"]) == 70
    assert capsys.readouterr().err == (
        "error: internal error: RuntimeError: list\n"
        "hint: this is a fault in vplug, not in your environment; `vplug --traceback list` shows where\n"
    )
    with pytest.raises(RuntimeError):
        cli.main(["--traceback", "list"])


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(command: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_parser, "load", interrupt)
    assert cli.main(["list"]) == 130


@LINUX
def test_ctrl_c_during_a_bench(lab: CommandLab) -> None:
    child = subprocess.Popen(
        [*lab.command(), "bench", "--rounds", "100000"],
        env=lab.environment(lab.site()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    deadline = time.monotonic() + 60
    while not children.read_text() and time.monotonic() < deadline:  # a child of its own shows that it measures
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, "", "")


@LINUX
@pytest.mark.parametrize("words", [["list"], ["list", "--help"], ["doctor", "--json"]])
def test_a_reader_that_goes_away(lab: CommandLab, words: list[str]) -> None:
    site = lab.site()
    lab.plugin(site, "acme", "[demo.plugins]\n" + "".join(f"n{n} = acme_mod:run\n" for n in range(20000)))
    lab.plugin(site, "beta", "[demo.plugins]\n" + "".join(f"n{n} = beta_mod:run\n" for n in range(2000)))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*lab.command(), *words],
        env=lab.environment(site),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@LINUX
def test_a_full_disk(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*lab.command(), "list"],
            env=lab.environment(site),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 74
    assert done.stderr == "error: cannot write the output: No space left on device\n"


@LINUX
def test_a_closed_stdout(lab: CommandLab) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    line = " ".join([*lab.command(), "list", ">&-"])
    done = subprocess.run(
        ["sh", "-c", line], env=lab.environment(site), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@LINUX
@pytest.mark.parametrize("words", [["list"], ["why", "acme"], ["doctor"], ["bench", "--rounds", "1"]])
def test_a_current_folder_that_was_deleted(lab: CommandLab, words: list[str]) -> None:
    site = lab.site()
    lab.plugin(site, "acme")
    gone = lab.site("gone")
    line = f"rmdir {gone} && exec " + " ".join([*lab.command(), *words])
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=gone,
        env=lab.environment(site),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def rewrite() -> None:
    """Write the help files and the help in the reader's page anew."""
    HELP.mkdir(parents=True, exist_ok=True)
    text = PAGE.read_text()
    for name in COMMANDS:
        line = [sys.executable, "-m", "vplug_rs", *([name] if name else []), "--help"]
        shown = subprocess.run(line, capture_output=True, text=True, check=True).stdout
        (HELP / f"{name or 'vplug'}.txt").write_text(shown)
        head, start, rest = text.partition(f"```text\n$ {f'vplug {name}'.strip()} --help\n")
        if start:
            text = head + start + shown + rest[rest.index("```") :]
    PAGE.write_text(text)


if __name__ == "__main__":
    rewrite()
