"""docs/vllm-groups.md: its tables are those of the package, its programs run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from interpreters import clean_environment, shared_import_root
from sites import build
from vllm_bed import STAND_IN, VllmBed
from vplug_rs.groups import GROUPS, STAT_LOGGER

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "vllm-groups.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_its_tables_are_those_of_the_package() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `vllm.")]
    words = {True: "yes", False: "no"}
    who = [f"| `{g.name}` | {g.processes} | {g.when} | {g.value} | {words[g.called]} |" for g in GROUPS.values()]
    how = [f"| `{g.name}` | {g.unset} | {words[g.listed]} | {g.fatal} | {g.ours} |" for g in GROUPS.values()]
    assert rows == who + how


def test_each_interface_has_an_example() -> None:
    for group in GROUPS.values():
        if group.interface is not None:
            name = group.interface.rpartition(".")[2]
            assert any(f" {name}\n" in program and f"{name}.check(" in program for program in PROGRAMS), name


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(program: str, tmp_path: Path) -> None:
    site = build(tmp_path / "site", STAND_IN)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=f"{shared_import_root()}:{site}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_it_shows_what_a_refusal_says(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    bed = VllmBed(tmp_path, STAT_LOGGER)
    build(
        bed.site,
        {
            "acme_spool.py": "class Spool: ...\n",
            "acme_spool-1.2.dist-info": {
                "METADATA": "Metadata-Version: 2.1\nName: acme-spool\nVersion: 1.2\n",
                "entry_points.txt": f"[{STAT_LOGGER}]\nspool = acme_spool\n",
            },
        },
    )
    (program,) = [program for program in PROGRAMS if "groups.check" in program]
    done = bed.process(program)
    assert (done.stdout, done.stderr) == (shown, "")
