"""The README holds: its programs and commands run, its links exist, its figures are those that were measured."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from models import tiny_that_reads
from vplug_logits.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "evaluation.md").read_text("utf-8")
MEASURED = json.loads((ROOT / "docs" / "evaluation.json").read_text("utf-8"))
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
OF_VLLM = [program for program in PROGRAMS if "from vllm" in program]
COMMANDS = re.findall(r"^\$ (.*)$", README, flags=re.MULTILINE)
NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's model is a tiny one."""
    folder = tmp_path_factory.mktemp("readme")
    tiny_that_reads(folder / NAME)
    return folder


def environment(place: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VPLUG", "VLLM", "PYTHON"))}
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(place / "cache")}
    return {**kept, **quiet, "PYTHONPATH": str(ROOT / "python"), **more}


def ran(place: Path, words: list[str], **more: str) -> str:
    done = subprocess.run(
        words,
        cwd=place,
        env=environment(place, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_is_a_program_or_a_command() -> None:
    assert set(re.findall(r"^```(\w+)$", README, flags=re.MULTILINE)) == {"python", "console"}
    assert len(OF_VLLM) == 1 and len(PROGRAMS) >= 3 and len(COMMANDS) >= 4


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program not in OF_VLLM])
def test_its_programs_run(place: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})  # they assert what they show


def test_its_commands_run_one_after_the_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("VPLUG_LOGITS_CACHE", str(place / "kept"))
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # what the command sets would stay
    for command in COMMANDS:
        name, *words = command.split()
        assert (name, main(words)) == ("vplug-logits", 0)
    assert json.loads((place / "results.json").read_text("utf-8"))["states"] == 250


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_its_program_for_vllm_runs_and_the_head_serves_it(place: Path) -> None:
    pytest.importorskip("vllm")
    information = place / "site" / "vplug_logits-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: vplug_logits\nVersion: 1.0\n", "utf-8")
    (information / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nvplug_logits = vplug_logits.plugin:register\n", "utf-8"
    )
    asked = "\n    from vplug_logits.plugin import state\n    print(state())\n"
    settings = {
        "PYTHONPATH": os.pathsep.join((str(place / "site"), str(ROOT / "python"))),
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_USE_AOT_COMPILE": "0",
        "VLLM_CACHE_ROOT": str(place / "vllm"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VPLUG_LOGITS_BUILD": "wait",
    }
    said = ran(place, [sys.executable, "-c", OF_VLLM[0] + asked], **settings)
    assert "state='patched'" in said and "'state': 'active'" in said, said


def test_its_links_exist() -> None:
    for text, folder in ((README, ROOT), (PAGE, ROOT / "docs")):
        links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
        assert links
        assert all((folder / link).is_file() for link in links)


def method(name: str) -> dict[str, Any]:
    (found,) = (one for one in MEASURED["methods"] if one["name"] == name)
    return dict(found)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("exact", "`exact`"),
        ("safe", "`safe` (default)"),
        ("fast", "`fast`"),
        ("clusters", "`clusters`"),
        ("dense", "`dense`"),
        ("dense-bf16", "dense head in bfloat16"),
        ("int8", "int8, a scale for each row"),
        ("int4", "int4, a scale for each 32 weights"),
        ("cosine-clusters", "clusters by cosine, the published rule"),
    ],
)
def test_its_figures_are_those_that_were_measured(name: str, label: str) -> None:
    modes = README.partition("## Modes\n")[2].partition("\n## ")[0]
    (row,) = (line for line in modes.splitlines() if line.startswith("|") and f"| {label} |" in line)
    *_, share, misses = (cell.strip() for cell in row.strip("|").split("|"))
    found = method(name)
    assert share == f"{100 * found['bytes'] / MEASURED['dense_bytes']:.1f}"
    rate = 100 * found["all"]["miss_rate"]
    assert misses == ("0" if found["all"]["misses"] == 0 else f"{found['all']['misses']:,} ({rate:.3g} %)")
    assert f"misses of {MEASURED['states']:,}" in README


def test_its_times_are_those_that_were_measured_and_the_page_shows_all_of_them() -> None:
    from vplug_logits.benchmark.report import markdown, short

    measured = json.loads((ROOT / "docs" / "bench.json").read_text("utf-8"))
    assert short(measured) in README
    assert (ROOT / "docs" / "bench.md").read_text("utf-8") == markdown(measured, plot=True)


def test_the_page_shows_the_tables_of_the_same_run() -> None:
    from vplug_logits.evaluation.report import tables

    assert tables(MEASURED).strip() in PAGE
