"""A host of two plugins, and programs traced on its site."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cli_lab import CommandLab

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


def timeline_of(lab: CommandLab, site: Path, code: str, *words: str, status: int = 0) -> list[dict[str, Any]]:
    """Trace a program given as text: its processes."""
    out = lab.root / "timeline.json"
    done = lab.run(site, "trace", "--json", str(out), "--", lab.command()[0], "-P", "-c", code, *words)
    assert done.returncode == status, done.stderr
    found: list[dict[str, Any]] = json.loads(out.read_text(encoding="utf-8"))["processes"]
    return found


def events_of(lab: CommandLab, site: Path, code: str, *words: str, status: int = 0) -> list[list[str]]:
    """Trace a program given as text: for each process, what was recorded but the import of `importlib.metadata`."""
    found = timeline_of(lab, site, code, *words, status=status)
    return [calls_of(process) for process in found]


def calls_of(process: dict[str, Any]) -> list[str]:
    """What a process was recorded to do, but for imports of metadata modules."""
    told = [event["what"].removeprefix("importlib.metadata.") for event in process["events"]]
    return [what for what in told if not what.startswith("import ")]
