"""docs/lora.md: its tables are those of the package, its programs run, what it shows is what is said."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interpreters import clean_environment, shared_import_root
from lora_lab import adapter
from sites import build
from vplug_rs import env
from vplug_rs.lora import adapter as rules
from vplug_rs.lora import names
from vplug_rs.lora.filesystem import FilesystemResolver
from vplug_rs.lora.refusal import CODES
from vplug_rs.lora.resolver import Registry, Request

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "lora.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
SOURCES = Path(names.__file__).parent


def test_the_table_of_codes_is_the_packages() -> None:
    table = "| code | meaning |\n| --- | --- |\n" + "".join(f"| `{code}` | {says} |\n" for code, says in CODES.items())
    assert table in PAGE


def test_every_code_is_given_somewhere() -> None:
    source = "".join(path.read_text("utf-8") for path in SOURCES.glob("*.py") if path.name != "refusal.py")
    assert [code for code in CODES if f'"{code}"' not in source] == []


def test_the_variables_are_those_that_are_read() -> None:
    section = PAGE.partition("\n## Variables\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, flags=re.MULTILINE)) == {
        name for name in env.VARIABLES if name.startswith("VPLUG_LORA")
    }


def test_its_limits_are_the_packages() -> None:
    assert f"at most {names.MOST_PARTS} parts and {names.MOST_BYTES} bytes" in PAGE
    assert f"at most {rules.MOST_DEPTH} deep" in PAGE
    assert rules.MOST_CONFIG_BYTES == 1 << 20
    shown = re.search(r"and `([^`]+)` and inner blanks", PAGE)
    assert shown
    assert set(shown[1].split()) | {" "} == names.SIGNS


def test_it_shows_what_a_refusal_says(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    build(tmp_path, {"summaries": adapter(base_model_name_or_path="acme/base")})
    said = asyncio.run(Registry([FilesystemResolver(tmp_path)]).resolve(Request("summaries", "acme/base-7b")))
    assert str(said) == shown.strip()


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(program: str, tmp_path: Path) -> None:
    build(tmp_path / "adapters", {"team": {"summaries": adapter(base_model_name_or_path="acme/base")}})
    assert "/srv/adapters" in program
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.replace("/srv/adapters", str(tmp_path / "adapters"))],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(shared_import_root()), TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\S+/vplug-lora-\w+/\w+ 4\n", done.stdout)
