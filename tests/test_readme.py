"""The README holds: its programs run, its commands and its links exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interpreters import clean_environment, import_root

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_there_is_something_to_check() -> None:
    assert len(PROGRAMS) >= 2
    assert "import vplug_rs" in PROGRAMS[0]


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_its_programs_run(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_it_shows_what_vplug_why_says(tmp_path: Path) -> None:
    shown = re.search(r"^```console\n\$ vplug why colours\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    assert shown
    for folder, version in (("vendor", "1.0"), ("site", "1.2")):
        info = tmp_path / folder / f"acme_colours-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-colours\nVersion: {version}\n", "utf-8")
        (info / "entry_points.txt").write_text("[myapp.plugins]\ncolours = acme_colours:register\n", "utf-8")
        module = tmp_path / folder / "acme_colours" / "__init__.py"
        module.parent.mkdir()
        module.touch()
    root = import_root(tmp_path / "root")
    path = os.pathsep.join(str(tmp_path / folder) for folder in ("vendor", "site")) + os.pathsep + str(root)
    done = subprocess.run(
        [sys.executable, "-m", "vplug_rs", "why", "colours"],
        cwd=root,
        env=clean_environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).replace(str(tmp_path), "/srv/app") == shown[1]


def test_it_shows_what_the_report_says(tmp_path: Path) -> None:
    shown = re.search(
        r"^```console\n\$ MYAPP_PLUGINS=\"([^\"]*)\" python myapp.py\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE
    )
    assert shown
    for name, version, source in (
        ("colours", "1.0", "def register(app): pass\n"),
        ("export", "0.3", "import openpyxl\n"),
        ("telemetry", "2.1", "raise SystemExit('imported')\n"),
    ):
        info = tmp_path / f"acme_{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: {version}\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[myapp.plugins]\n{name} = acme_{name}:register\n", "utf-8")
        (tmp_path / f"acme_{name}.py").write_text(source, "utf-8")
    (tmp_path / "myapp.py").write_text(PROGRAMS[0], "utf-8")
    done = subprocess.run(
        [sys.executable, tmp_path / "myapp.py"],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(import_root(tmp_path / "root")), MYAPP_PLUGINS=shown[1]),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    def masked(text: str) -> list[list[str]]:
        return [re.sub(r"\b\d+\.\d  ", "MS  ", line).split() for line in text.splitlines()]

    assert masked(done.stderr.replace(str(tmp_path), "/srv/app") + done.stdout) == masked(shown[2])


def test_its_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    pages = README + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    asked = set(re.findall(r"(?:`|^    )make ([a-z-]+)", pages, flags=re.MULTILINE))
    assert asked >= {"demo", "test", "lint"}
    assert [name for name in asked if not re.search(rf"^{name}:.* ## ", makefile, flags=re.MULTILINE)] == []


def test_its_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
