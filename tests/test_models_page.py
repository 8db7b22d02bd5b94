"""docs/models.md: its programs run and say what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from interpreters import clean_environment, shared_import_root
from sites import build, dist
from vplug_rs.groups import GENERAL
from vplug_rs.interfaces._models import diagnosis

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "models.md").read_text("utf-8")
PLUGIN, SCRIPT, ALONE = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
ACME = {"acme_models": {"__init__.py": "", "causal.py": "class AcmeForCausalLM: ...\n"}}


def run(folder: Path, source: str) -> str:
    site = build(folder / "site", {**ACME, "acme_models_plugin.py": PLUGIN})
    (point,) = re.findall(r"^```toml\n.*?^(acme_models = )\"(.*?)\"\n```", PAGE, flags=re.DOTALL | re.MULTILINE)
    build(site, dist("acme-models", "1.0", f"[{GENERAL}]\n{point[0]}{point[1]}\n"))
    (folder / "serve.py").write_text(source, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", folder / "serve.py"],
        cwd=folder,
        env=clean_environment(PYTHONPATH=f"{site}:{shared_import_root()}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(folder), "/srv/app")


def test_its_plugin_registers_the_model(tmp_path: Path) -> None:
    source = "from vplug_rs import load_general_plugins\nload_general_plugins()\n"
    said = run(tmp_path, source + "from vplug_rs.interfaces.model_registry import *\nprint(*MODELS.models())\n")
    place = "acme-models 1.0 (`/srv/app/site/acme_models_plugin.py:5`)"
    assert said == f"AcmeForCausalLM = acme_models.causal:AcmeForCausalLM, registered by {place}\n"


def test_its_diagnosis_is_what_is_said(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert run(tmp_path, SCRIPT).strip() == shown.strip()


def test_it_works_alone(tmp_path: Path) -> None:
    assert run(tmp_path, ALONE) == "['AcmeForCausalLM'] AcmeForCausalLM\n"


def test_its_codes_are_those_of_the_package() -> None:
    codes = {value for name, value in vars(diagnosis).items() if name.isupper() and isinstance(value, str)}
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, flags=re.MULTILINE)) == codes - {diagnosis._HINT}
