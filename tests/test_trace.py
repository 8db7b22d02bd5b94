"""`vplug trace`: one timeline over started and forked processes, in a table, as JSON and as a page."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import time
import zipfile
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from cli_lab import CommandLab, lab
from trace_lab import calls_of, events_of, host
from vplug_rs.tracing.page import page
from vplug_rs.tracing.timeline import Event, Process

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["host", "lab"]


def traced(lab: CommandLab, host: Path, *options: str, status: str = "7") -> subprocess.CompletedProcess[str]:
    python = lab.command()[0]
    return lab.run(host, "trace", *options, "--", python, "-P", str(host / "host.py"), status)


def test_all_processes_are_on_one_timeline(lab: CommandLab, host: Path) -> None:
    out = lab.root / "timeline.json"
    done = traced(lab, host, "--json", str(out))
    assert done.returncode == 7, done.stderr
    assert done.stdout.split() == ["not", "reached", "True", "host", "ends", "2"]
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["kind"], found["status"]) == ("trace", 7)
    first, forked, started = found["processes"]
    assert [p["how"] for p in found["processes"]] == ["started", "forked", "started"]
    assert forked["parent"] == started["parent"] == first["pid"]
    events = [(event["kind"], event["what"].split(" = ")[0], event["error"]) for event in first["events"]]
    assert [event for event in events if event[0] != "metadata"] == [
        ("import", "demo.plugins: bad", "ModuleNotFoundError"),
        ("import", "demo.plugins: good", None),
        ("import", "demo.plugins: good", None),
        ("call", "demo.plugins: good", None),
    ]
    assert ("metadata", "importlib.metadata.entry_points(group='demo.plugins')", None) in events
    assert ("metadata", "vplug_rs.PluginLoader('demo.plugins')", None) in events
    assert [event["what"] for event in forked["events"]] == ["importlib.metadata.version('good')"]
    assert calls_of(started) == ["distributions()"]
    slow = next(event for event in first["events"] if event["what"].startswith("demo.plugins: good"))
    assert slow["end"] - slow["start"] >= 0.05
    assert slow["caller"].startswith(f"{host / 'host.py'}:")
    assert slow["caller"].endswith(" in work")
    assert 0.05 <= first["plugin_seconds"] <= first["startup_seconds"]
    assert 0 < first["share"] <= 1


def test_the_table_goes_to_stderr(lab: CommandLab, host: Path) -> None:
    done = traced(lab, host, status="0")
    lines = done.stderr.splitlines()
    assert lines[0].split()[:3] == ["PROCESS", "PARENT", "HOW"]
    assert "good = good_mod:run" in done.stderr
    assert "raised ModuleNotFoundError" in done.stderr


def test_a_long_name_does_not_hide_the_failure(lab: CommandLab, host: Path) -> None:
    name = "a-name-of-a-plugin-that-is-much-longer-than-the-column"
    (host / "bad-1.0.dist-info" / "entry_points.txt").write_text(f"[demo.plugins]\n{name} = bad_mod:run\n")
    done = traced(lab, host, status="0")
    assert re.search(r"import +demo\.plugins: a-name-of-a-plugin-\S*… raised ModuleNotFoundError ", done.stderr)


class Page(HTMLParser):
    """What a page refers to, and whether its elements close."""

    VOID = frozenset({"meta", "br", "line", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [str(value) for key, value in attrs if key in {"src", "href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_stands_alone_and_shows_every_process(lab: CommandLab, host: Path) -> None:
    out = lab.root / "timeline.html"
    (host / "bad-1.0.dist-info" / "entry_points.txt").write_text(
        "[demo.plugins]\n<script>alert(1)</script> = bad_mod:run\n", encoding="utf-8"
    )
    traced(lab, host, "--html", str(out), status="0")
    text = out.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.outside == []
    assert "<script" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert "http" not in text
    assert sum(text.count(f'fill="var(--{kind})"') for kind in ("metadata", "import", "call")) >= 8
    assert len(re.findall(r"<tr><td class=\"number\">\d+</td><td class=\"number\">\d+</td><td>", text)) == 3
    assert any("<script>alert(1)</script>" in data for data in page.texts)


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no headless browser is installed")
def test_a_browser_shows_the_page(lab: CommandLab, host: Path) -> None:
    out, picture = lab.root / "timeline.html", lab.root / "timeline.png"
    traced(lab, host, "--html", str(out), status="0")
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={picture}", "--dump-dom"]
    done = subprocess.run([browser, *options, out.as_uri()], capture_output=True, text=True, timeout=60, check=False)
    assert "<svg" in done.stdout
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["trace"], 2, "`vplug trace` needs a program"),
        (["trace", "--", "zzz-no-such-program"], 127, "program not found"),
        (["trace", "--json", "/no/such/folder/x", "--", "true"], 2, "there is no folder"),
        (["trace", "--", "true"], 0, "no Python process was reached"),
    ],
)
def test_what_cannot_be_traced_is_said(lab: CommandLab, words: list[str], status: int, text: str) -> None:
    done = lab.run(lab.site(), *words)
    assert done.returncode == status
    assert text in done.stderr


def test_a_program_ended_by_a_signal_keeps_its_events(lab: CommandLab, host: Path) -> None:
    out = lab.root / "timeline.json"
    code = "import importlib.metadata as m, os, signal; m.version('good'); os.kill(os.getpid(), signal.SIGKILL)"
    done = lab.run(host, "trace", "--json", str(out), "--", lab.command()[0], "-P", "-c", code)
    assert done.returncode == 128 + 9
    (process,) = json.loads(out.read_text(encoding="utf-8"))["processes"]
    assert calls_of(process) == ["version('good')"]


def test_the_program_sees_the_same_answers_and_signatures(lab: CommandLab, host: Path) -> None:
    code = """
import importlib.metadata as m, inspect, pickle, sys
points = m.entry_points(group='demo.plugins')
print(sorted(p.value for p in points), m.version('good'), type(m.distributions()).__name__ != '')
print(inspect.signature(m.version), m.version.__module__, m.entry_points.__qualname__, m.EntryPoint.load.__doc__[:5])
try:
    m.version('absent')
except m.PackageNotFoundError as error:
    print(error.name)
"""
    answers: list[Any] = []
    for words in ([], ["trace", "--"]):
        command = [lab.command()[0], "-P", "-c", code]
        run = [*lab.command(), *words, *command] if words else command
        done = subprocess.run(
            run, env=lab.environment(host), cwd=lab.root, capture_output=True, text=True, timeout=60, check=True
        )
        answers.append(done.stdout)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("taken", ["", "3", "all"])
def test_a_program_that_closes_our_descriptor_keeps_its_own_files_and_its_events(
    lab: CommandLab, host: Path, taken: str
) -> None:
    code = """
import importlib.metadata as m, os, sys
m.version('good')
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
numbers = [number for number in range(3, 4096) if is_open(number)]
os.closerange(3, 4096)
if sys.argv[1]:
    own = os.open('own', os.O_WRONLY | os.O_CREAT, 0o600)
    assert own == 3
    for number in numbers if sys.argv[1] == 'all' else ():
        if number != own:
            os.dup2(own, number)
m.version('bad')
if sys.argv[1]:
    os.write(own, b'mine')
child = os.fork()
m.version('good' if child else 'bad')
if child:
    os.waitpid(child, 0)
"""
    expected = [["version('good')", "version('bad')", "version('good')"], ["version('bad')"]]
    assert events_of(lab, host, code, taken) == expected
    if taken:
        assert (lab.root / "own").read_bytes() == b"mine"


def test_a_traced_program_gets_the_lowest_free_descriptor(lab: CommandLab, host: Path) -> None:
    code = "import os; os.close(0); assert os.open(os.devnull, os.O_RDONLY) == 0; assert os.dup(0) == 3"
    assert events_of(lab, host, code) == [[]]


def test_install_in_the_program_hides_no_event_and_works(lab: CommandLab, host: Path) -> None:
    code = """
import sys, vplug_rs
assert 'importlib.metadata' not in sys.modules
undo = vplug_rs.install()
import importlib.metadata as m, inspect
genuine = inspect.unwrap(m.version)
code = genuine.__code__
assert '_vplug_rs' in code.co_varnames
m.version('good')
m.entry_points(group='demo.plugins', name='good')
undo()
assert '_vplug_rs' not in genuine.__code__.co_varnames
assert m.version.__wrapped__ is genuine
assert 'exec_module' not in vars(m.__spec__.loader)
m.version('bad')
"""
    asked = ["version('good')", "entry_points(group='demo.plugins', name='good')", "version('bad')"]
    assert events_of(lab, host, code) == [asked]


def test_only_the_watched_module_of_an_archive_is_traced(lab: CommandLab, host: Path) -> None:
    with zipfile.ZipFile(lab.root / "both.zip", "w") as archive:
        archive.writestr("importlib_metadata.py", "def version(name): return 'theirs'\n")
        archive.writestr("other.py", "def version(name): return 'other'\n")
    code = """
import sys, importlib.util
sys.path.insert(0, 'both.zip')
loaders = {id(importlib.util.find_spec('importlib_metadata').loader) for _ in range(2)}
import other
print(len(loaders), hasattr(other.version, '__wrapped__'))
other.version('x')
import importlib_metadata
importlib_metadata.version('y')
assert 'exec_module' not in vars(importlib_metadata.__loader__)
"""
    assert events_of(lab, host, code) == [["importlib_metadata.version('y')"]]


def test_arguments_of_any_bytes_are_shown(lab: CommandLab, host: Path) -> None:
    out, data = lab.root / "timeline.html", lab.root / "timeline.json"
    command = [lab.command()[0], "-P", "-c", "import importlib.metadata as m; m.version('good')", "a\udcffb"]
    done = lab.run(host, "trace", "--html", str(out), "--json", str(data), "--", *command)
    assert done.returncode == 0, done.stderr
    assert "a\\udcffb</h1>" in out.read_text(encoding="utf-8")
    assert json.loads(data.read_text(encoding="ascii"))["program"] == command
    assert "version('good')" in done.stderr


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_a_file_that_cannot_be_written_is_said_before_the_program_starts(
    lab: CommandLab, host: Path, option: str
) -> None:
    for path in (lab.site("a-folder"), lab.root / ("x" * 300)):
        done = lab.run(host, "trace", option, str(path), "--", "touch", str(lab.root / "started"))
        assert done.returncode == 2
        assert "cannot be written" in done.stderr
        assert not (lab.root / "started").exists()


def test_a_program_that_is_not_found_leaves_the_files_as_they_are(lab: CommandLab, host: Path) -> None:
    old, new = lab.root / "old.json", lab.root / "new.html"
    old.write_text("before", encoding="utf-8")
    done = lab.run(host, "trace", "--json", str(old), "--html", str(new), "--", "zzz-no-such-program")
    assert done.returncode == 127
    assert old.read_text(encoding="utf-8") == "before"
    assert not new.exists()


@pytest.mark.parametrize(("own", "expected"), [(0, 74), (5, 5)])
def test_the_table_is_shown_even_if_a_file_fails_afterwards(
    lab: CommandLab, host: Path, own: int, expected: int
) -> None:
    folder = lab.site("goes-away")
    code = f"import importlib.metadata as m, os; m.version('good'); os.rmdir({str(folder)!r}); raise SystemExit({own})"
    out = lab.root / "timeline.html"
    files = ["--json", str(folder / "x.json"), "--html", str(out)]
    done = lab.run(host, "trace", *files, "--", lab.command()[0], "-P", "-c", code)
    assert done.returncode == expected
    assert "version('good')" in done.stderr
    assert "x.json` cannot be written: No such file or directory" in done.stderr
    assert out.stat().st_size > 0


def test_a_file_that_cannot_be_finished_is_taken_away(lab: CommandLab, host: Path) -> None:
    out = lab.root / "timeline.html"
    command = ["trace", "--html", str(out), "--", lab.command()[0], "-P", "-c", "pass"]
    done = subprocess.run(
        [*lab.command(), *command],
        env=lab.environment(host, PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    assert done.returncode == 74, done.stderr
    assert "File too large" in done.stderr
    assert "PROCESS" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_matter(lab: CommandLab, host: Path, closed: str) -> None:
    out = lab.root / "timeline.json"
    code = "import importlib.metadata as m; m.version('good'); raise SystemExit(3)"
    command = ["trace", "--json", str(out), "--", lab.command()[0], "-P", "-c", code]
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {closed}', "sh", *lab.command(), *command],
        env=lab.environment(host),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    (process,) = json.loads(out.read_text(encoding="utf-8"))["processes"]
    assert calls_of(process) == ["version('good')"]


@pytest.mark.parametrize(("own", "expected"), [(0, 74), (3, 3)])
def test_the_files_are_written_even_if_the_table_cannot_be(
    lab: CommandLab, host: Path, own: int, expected: int
) -> None:
    out, html = lab.root / "timeline.json", lab.root / "timeline.html"
    command = [*lab.command(), "trace", "--json", str(out), "--html", str(html), "--", lab.command()[0], "-P", "-c"]
    environment = lab.environment(host)
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" 2>/dev/full', "sh", *command, f"raise SystemExit({own})"],
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == expected
    assert len(json.loads(out.read_text(encoding="utf-8"))["processes"]) == 1
    assert html.stat().st_size > 0


@pytest.mark.parametrize("second", ["timeline", "link", "./timeline"])
def test_one_file_for_both_is_refused(lab: CommandLab, host: Path, second: str) -> None:
    (lab.root / "link").symlink_to("timeline")
    done = lab.run(host, "trace", "--json", "timeline", "--html", second, "--", "touch", "started")
    assert done.returncode == 2
    assert "name the same file" in done.stderr
    assert not (lab.root / "started").exists()


@pytest.mark.parametrize("seconds", [1e-6, 0.5])
def test_a_page_draws_a_bounded_number_of_calls_and_says_so(seconds: float) -> None:
    process = Process(1000.0, "started", 42, 1, ["program"], "3.11.7")
    process.events = [
        Event("metadata", 1000 + n / 2000, 1000 + n / 2000 + seconds, 1, f"version('p{n}')", "file.py:1 in f", None)
        for n in range(20_000)
    ]
    text = page(["program"], [process], 0, 10.0)
    drawn = text.count('fill="var(--metadata)"')
    assert 500 <= drawn <= 2000
    assert f"{20_000 - drawn} of 20000 calls of process 42" in text
    assert len(text) < 1_000_000
    assert text.count("<tr>") <= 203


def test_a_page_draws_all_calls_that_have_room() -> None:
    process = Process(1000.0, "started", 42, 1, ["program"], "3.11.7")
    process.events = [
        Event("metadata", 1000 + n, 1000.5 + n, 1, "version('p')", "file.py:1 in f", None) for n in (1, 2)
    ]
    text = page(["program"], [process], 0, 10.0)
    assert text.count('fill="var(--metadata)"') == 2
    assert "Not drawn" not in text


def test_a_daemon_that_outlives_the_program_is_not_disturbed(lab: CommandLab, host: Path) -> None:
    code = """
import importlib.metadata as m, os, subprocess, sys, time
folder = os.environ['VPLUG_TRACE']
if os.fork():
    os._exit(0)
os.setsid()
log = os.open('daemon.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
for number in (0, 1, 2):
    os.dup2(log, number)
while os.path.exists(folder):
    time.sleep(0.01)
m.version('good')
os.closerange(3, 4096)
m.version('good')
child = os.fork()
if not child:
    m.version('good')
    sys.exit()
os.waitpid(child, 0)
subprocess.run([sys.executable, '-P', '-c', "import importlib.metadata as m; m.version('good')"], check=True)
assert not os.path.exists(folder)
open('daemon.done', 'w').close()
"""
    assert len(events_of(lab, host, code)) in {1, 2}
    limit = time.monotonic() + 30
    while not (lab.root / "daemon.done").exists() and time.monotonic() < limit:
        time.sleep(0.02)
    assert (lab.root / "daemon.log").read_text(encoding="utf-8") == ""
    assert (lab.root / "daemon.done").exists()
