"""Programs in a real vLLM: started with and without us, with our test plugins, and what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PLUGINS, PROGRAMS = HERE / "plugins", HERE / "programs"
VPLUG = Path(sys.executable).parent / "vplug"

ON = {"VPLUG_VLLM": "1"}
PROBE = {
    "vllm.general_plugins": "probe:register",
    "vllm.platform_plugins": "probe:platform",
    "vllm.io_processor_plugins": "probe:io_processor",
    "vllm.stat_logger_plugins": "probe_stats:Stats",
    "vllm.endpoint_plugins": "probe:Endpoint",
    "vllm.logits_processors": "probe_logits:Unchanged",
}
BROKEN = {"vllm.general_plugins": "broken:register"}


def plant(folder: Path, project: str, points: dict[str, str], *, version: str = "1.0", name: str = "") -> Path:
    """Put a distribution with one entry point for each group into a folder, and give the folder."""
    information = folder / f"{project}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n", "utf-8")
    lines = [f"[{group}]\n{name or project} = {value}\n" for group, value in points.items()]
    (information / "entry_points.txt").write_text("\n".join(lines), "utf-8")
    return folder


def environment(folder: Path, *sites: Path, **more: str) -> dict[str, str]:
    """The environment of a program: nothing of ours, nothing that steers Python, and settings for a small machine."""
    steering = ("PYTHON", "VPLUG", "VLLM", "COV", "PYTEST")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(steering)}
    settings = {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CACHE_ROOT": str(folder / "cache"),
        "VLLM_CONFIG_ROOT": str(folder / "config"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "PROBE": str(folder / "events"),
    }
    if sites:
        settings["PYTHONPATH"] = os.pathsep.join(map(str, (*sites, PLUGINS)))
    return {**kept, **settings, **more}


@dataclass
class Done:
    """A program that has ended.

    Attributes:
        status: Its exit status.
        log: What it wrote to stdout and stderr.
        seconds: How long it took.
        events: What the plugins told.
        processes: What `vplug trace` wrote of its processes, if it was asked to.
        answer: What the program wrote as its result, or None.
    """

    status: int
    log: str
    seconds: float
    events: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] = field(default_factory=list)
    answer: Any = None

    def calls(self, event: str) -> dict[int, int]:
        """How often a plugin told this, by process."""
        pids = [row["pid"] for row in self.events if row["event"] == event]
        return {pid: pids.count(pid) for pid in pids}


def events(folder: Path) -> list[dict[str, Any]]:
    """What the plugins told so far."""
    path = folder / "events"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def run(folder: Path, words: list[str], env: dict[str, str], *, limit: float = 300) -> Done:
    """Run a program in a folder; a `result` that it writes there is its answer, a `trace` that of `vplug trace`."""
    began = time.monotonic()
    with (folder / "log").open("wb") as log:
        done = subprocess.run(
            words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=limit, check=False
        )
    seconds = time.monotonic() - began
    result, trace = folder / "result", folder / "trace"
    return Done(
        done.returncode,
        (folder / "log").read_text("utf-8", "replace"),
        seconds,
        events(folder),
        json.loads(trace.read_text("utf-8"))["processes"] if trace.is_file() else [],
        json.loads(result.read_text("utf-8")) if result.is_file() else None,
    )


def program(name: str, *words: str | Path) -> list[str]:
    """The command line of one of our programs."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, words)]
