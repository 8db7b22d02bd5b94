"""docs/platforms.md: its tables are those of the package, its programs run, what it shows is what is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli_lab import CommandLab, lab
from interpreters import clean_environment, shared_import_root
from vplug_rs import env
from vplug_rs.cli import platform_part, platform_text
from vplug_rs.platforms import hints, judges, model
from vplug_rs.testing import roots

__all__ = ["lab"]

FILE = Path(__file__).resolve().parent.parent / "docs" / "platforms.md"
PAGE = FILE.read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
HEAD = "| name | when | advice |\n| --- | --- | --- |\n"


def given() -> list[str]:
    """Name the hints that some code gives."""
    folder = Path(judges.__file__).parent.parent
    code = "".join(path.read_text("utf-8") for path in folder.rglob("*.py") if path.name != "hints.py")
    return [name for name in hints.HINTS if f'"{name}"' in code]


def table_of_hints() -> str:
    rows = [(f"`{name}`", *hints.HINTS[name]) for name in given()]
    return HEAD + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def names_in_column(title: str) -> set[str]:
    """Give the names in the first column of the table under a title."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_table_of_hints_is_the_packages() -> None:
    """After a change of the hints: `python tests/test_platforms_page.py` writes the table anew."""
    assert len(given()) > 15
    assert table_of_hints() in PAGE


def test_all_platforms_and_statuses_are_explained() -> None:
    assert names_in_column("What is looked at") == set(platform_text.NAMES)
    statuses = {model.PRESENT, model.ABSENT, model.MASKED, model.UNKNOWN, model.SKIPPED}
    assert names_in_column("Statuses") == statuses
    assert all(f"`{weight}`" in PAGE for weight in platform_text.MARKS)
    assert all(f"`{mark}`" in PAGE for mark in platform_text.MARKS.values())


def test_the_variables_are_those_that_are_read() -> None:
    named = names_in_column("Variables")
    assert named >= {"VPLUG_PLATFORM", "VPLUG_PROBE_TIMEOUT"}
    assert {name for name in env.VARIABLES if "PLATFORM" in name or "PROBE" in name or "UNKNOWN" in name} == named
    assert {name for name in named if name != env.PLATFORM_RESULT} <= set(platform_part.VARIABLES)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-W", "error", "-c", program],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(shared_import_root())),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


SHOWN = re.compile(r"^```console\n\$ vplug doctor --platform\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(sys.platform != "linux", reason="one line tells of mappings, which are read from /proc")
def test_it_and_the_readme_show_what_doctor_says(lab: CommandLab) -> None:
    root = roots.build("driver-mismatch", lab.root)
    told = lab.run(lab.site(), "doctor", "--platform", "--root", root).stdout
    (shown,) = SHOWN.findall(PAGE)
    assert told.startswith(shown)
    (lines,) = SHOWN.findall((FILE.parent.parent / "README.md").read_text("utf-8"))
    assert len(lines.splitlines()) > 3
    assert [line for line in lines.splitlines() if line not in told.splitlines()] == []


def test_its_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if "://" not in link]
    assert [link for link in links if not (FILE.parent / link).exists()] == []


def rewrite() -> None:
    """Write the table of hints anew."""
    head, _, rest = PAGE.partition(HEAD)
    FILE.write_text(head + table_of_hints() + rest[re.match(r"(\|.*\n)*", rest).end() :], "utf-8")  # type: ignore[union-attr]  # it matches nothing, too


if __name__ == "__main__":
    rewrite()
