"""`vplug trace`: one timeline over started and forked processes, in a table, as JSON and as a page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from cli_lab import CommandLab, lab

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["lab"]

HOST = """
import os, subprocess, sys
from importlib.metadata import distributions, entry_points, version

def work():
    for point in entry_points(group="demo.plugins"):
        try:
            point.load()
        except ImportError:
            pass

if __name__ == "__main__":
    work()
    import vplug_rs
    vplug_rs.PluginLoader("demo.plugins", call=True, policy=vplug_rs.Policy(["good"])).load()
    child = os.fork()
    if not child:
        version("good")
        os._exit(0)
    os.waitpid(child, 0)
    sys.stdout.flush()
    subprocess.run([sys.executable, "-S", "-c", "print('not reached')"], check=True)
    subprocess.run([sys.executable, "-c", "import importlib.metadata as m; print(len(list(m.distributions())) > 1)"])
    print("host ends", len(sys.argv))
    sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def host(lab: CommandLab) -> Path:
    """A site with two plugins and a program that loads them in several processes."""
    site = lab.site()
    lab.plugin(site, "good", module=False)
    (site / "good_mod.py").write_text("import time\ntime.sleep(0.05)\ndef run(): pass\n", encoding="utf-8")
    lab.plugin(site, "bad", module=False)
    (site / "bad_mod.py").write_text("import zzz_missing\n", encoding="utf-8")
    (site / "host.py").write_text(HOST, encoding="utf-8")
    return site


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
    assert [event["what"] for event in forked["events"]] == ["importlib.metadata.version('good')"]
    assert [event["what"] for event in started["events"]] == ["importlib.metadata.distributions()"]
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
    assert [event["what"] for event in process["events"]] == ["importlib.metadata.version('good')"]


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
