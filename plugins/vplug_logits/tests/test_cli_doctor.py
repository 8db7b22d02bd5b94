from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from vplug_logits.cli import doctor, main
from vplug_logits.config import VARIABLES
from vplug_logits.kernels import choose

PACKAGE = Path(__file__).resolve().parent.parent / "python"
Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No setting of ours, and a cache of this test."""
    for name in [name for name in os.environ if name.startswith("VPLUG_LOGITS") or name in doctor.OTHERS]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # what the command sets would stay
    return tmp_path / "vplug_logits"


@pytest.fixture(scope="module")
def computing() -> dict[str, Any]:
    return doctor.examined()


def as_json(capsys: Said) -> tuple[int, dict[str, Any]]:
    status = main(["doctor", "--json"])
    return status, dict(json.loads(capsys.readouterr().out))


def text(**more: Any) -> str:
    return "\n".join(doctor.lines(doctor.look(os.environ) | more))


def test_it_says_what_a_head_would_compute_with(capsys: Said) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    active = choose(torch.device("cpu")).name
    assert f"cpu: backend {active} is active\n" in out
    assert torch.__version__ in out and "Triton" in out and "extension" in out
    for name in ("cpu", "triton", "torch"):
        (row,) = [line for line in out.splitlines() if line.split()[1:2] == [name] and line.startswith("  ")]
        assert row.split()[0] in {"active", "could", "no"} and (row.split()[0] == "active") == (name == active)
        assert len(row.split()) > 3 or row.split()[0] != "no", "why not is said"


def test_no_gpu_is_asked_in_this_process_and_no_torch_is_loaded() -> None:
    program = "import sys; from vplug_logits.cli import main; main(['doctor']); print('torch' in sys.modules)"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VPLUG")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept | {"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False" and "is active" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"), [("triton", "serves no device of type cpu"), ("tritn", "Is 'triton' meant?")]
)
def test_a_backend_that_is_named_and_cannot_serve_is_a_failure(
    name: str, said: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VPLUG_LOGITS_BACKEND", name)
    status, found = as_json(capsys)
    cpu = found["computing"]["devices"]["cpu"]
    assert status == 1
    assert cpu["active"] is None and said in cpu["error"]
    assert cpu["backends"]["torch"] is None, "torch could serve"


def test_a_torch_that_cannot_be_loaded_is_told_with_its_reason(
    tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no such library: libfoo.so')")
    monkeypatch.syspath_prepend(str(tmp_path))
    status, found = as_json(capsys)
    assert status == 1 and "libfoo.so" in found["computing"]["error"]
    assert "nothing computes: the process that loads torch ended with status 1" in text()


def test_a_torch_that_ends_its_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("import os; os.kill(os.getpid(), 9)")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "ended with signal 9" in doctor.examined()["error"]


def test_a_torch_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("import time; time.sleep(100)")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "within 0.3 s" in doctor.examined(0.3)["error"]


def test_what_libraries_print_is_no_part_of_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("import os; os.write(1, b'hello'); raise ImportError('stop')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert doctor.examined()["error"].endswith("stop")


def test_a_gpu_and_an_extension_that_is_missing_are_shown(computing: dict[str, Any]) -> None:
    gpu = {"active": "torch", "error": None, "backends": {"cpu": "no.", "triton": "it is too old.", "torch": None}}
    more = {
        "torch": {"version": "2", "threads": 3, "gpus": ["A GPU"]},
        "triton": None,
        "extension": {"error": "no file"},
        "devices": computing["devices"] | {"cuda": gpu},
    }
    shown = text(computing=computing | more)
    assert "torch 2, 3 threads; GPUs: A GPU\nTriton is not installed\nextension cannot be imported: no file\n" in shown
    assert "\ncuda: backend torch is active\n" in shown and "  no     triton  it is too old.\n" in shown


def test_a_build_without_optimisation_is_told(computing: dict[str, Any]) -> None:
    debug = {"error": None, "version": "0", "profile": "debug", "isa": "avx2", "available": ["portable", "avx2"]}
    assert "extension 0, debug build, which is slow; avx2 of portable, avx2\n" in text(
        computing=computing | {"extension": debug}
    )


def test_settings_are_shown_with_their_meaning_and_near_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examined", lambda: {"error": "not asked"})
    for name, value in (("VPLUG_LOGITS", "Fast"), ("VPLUG_LOGITS_RWS", "3"), ("OMP_NUM_THREADS", "2")):
        monkeypatch.setenv(name, value)
    shown = text()
    meaning = VARIABLES[0].meaning
    assert f"settings: mode fast, backend auto\n  VPLUG_LOGITS=Fast   {meaning}\n" in shown
    assert "VPLUG_LOGITS_RWS=3   no such setting; is VPLUG_LOGITS_ROWS meant?" in shown
    assert "OMP_NUM_THREADS=2   threads" in shown
    monkeypatch.setenv("VPLUG_LOGITS", "0")
    assert "settings: off, by VPLUG_LOGITS=0" in text()
    monkeypatch.setenv("VPLUG_LOGITS", "fst")
    assert "settings: error: VPLUG_LOGITS: 'fst'" in text()


def test_whether_vllm_finds_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examined", lambda: {"error": "not asked"})
    information = tmp_path / "site" / "vplug_logits-7.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: vplug_logits\nVersion: 7.0\n", "utf-8")
    monkeypatch.syspath_prepend(str(information.parent))
    assert "no entry point vplug_logits in vllm.general_plugins" in text()
    (information / "entry_points.txt").write_text(
        "[vllm.general_plugins]\nvplug_logits = vplug_logits.plugin:register\n", "utf-8"
    )
    assert "vplug_logits = vplug_logits.plugin:register is found" in text()
    assert text().startswith("vplug_logits 7.0, Python ")
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    assert "VLLM_PLUGINS leaves vplug_logits out" in text()
    monkeypatch.setenv("VLLM_PLUGINS", "other,vplug_logits")
    assert doctor.look(os.environ)["vllm"]["finds_the_plugin"]


def test_the_artefacts_in_the_cache_are_listed(nothing_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examined", lambda: {"error": "not asked"})
    assert f"artefacts: 0 in {nothing_set}" in text()
    nothing_set.mkdir(mode=0o700)
    (nothing_set / "one.safetensors").write_bytes(bytes(2_345_678))
    (nothing_set / ".one.safetensors.part-7.safetensors").touch()
    (nothing_set / "one.safetensors.lock").touch()
    assert text().endswith(f"artefacts: 1 in {nothing_set}\n  one.safetensors   2.3 MB")
    nothing_set.chmod(0o777)
    assert "artefacts: " in text() and "can be written by others" in text()
