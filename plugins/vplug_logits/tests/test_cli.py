from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from models import tiny, tiny_folder
from vplug_logits import artefact, cache
from vplug_logits.cli import build as build_command
from vplug_logits.cli import main
from vplug_logits.config import Config

PACKAGE = Path(__file__).parent.parent / "python"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache of this test."""
    monkeypatch.setenv("VPLUG_LOGITS_CACHE", str(tmp_path / "kept"))
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # what the command sets would stay
    return tmp_path / "kept"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_folder(tmp_path_factory.mktemp("models") / "tiny-model")


Said = pytest.CaptureFixture[str]


def failed(capsys: Said, *words: str) -> tuple[int, str]:
    """The status and the one line of a command that fails."""
    status = main(words)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    return status, err


# build


def test_an_artefact_is_built_into_the_users_cache_in_the_type_of_the_checkpoint(model: str, capsys: Said) -> None:
    assert main(["build", model]) == 0
    out, err = capsys.readouterr()
    path = cache.place(model, Config.of("safe"), dtype="bfloat16")
    assert out == f"{path}\n" and "%" not in err
    assert cache.find(model, Config.of("safe"), dtype="bfloat16") == path
    artefact.check(artefact.read(path), tiny().lm_head.weight)
    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "bits", "clusters", "dtype"),
    [
        (["--mode", "exact"], 8, False, "bfloat16"),
        (["--mode", "fast", "--dtype", "float32"], 1, False, "float32"),
        (["--bits", "4", "--seed", "7"], 4, False, "bfloat16"),
        (["--clusters"], 2, True, "bfloat16"),
        (["--mode", "clusters", "--bits", "1"], 1, True, "bfloat16"),
    ],
)
def test_what_is_asked_for_is_built(
    model: str, tmp_path: Path, capsys: Said, words: list[str], bits: int, clusters: bool, dtype: str
) -> None:
    out = str(tmp_path / "made")
    assert main(["build", model, "--out", out, *words]) == 0
    read = artefact.read(out)
    assert (read.metadata.bits, read.clusters is not None, read.metadata.dtype) == (bits, clusters, dtype)
    assert read.metadata.seed == (7 if "--seed" in words else 0)
    assert capsys.readouterr().out == f"{out}\n" and os.listdir(tmp_path) == ["made"]


def test_an_artefact_can_lie_beside_its_model(tmp_path: Path, capsys: Said) -> None:
    model = tiny_folder(tmp_path / "own")
    assert main(["build", model, "--beside-model", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    found = cache.find(model, Config.of("safe"), dtype="bfloat16")
    assert found == os.path.join(model, "vplug_logits", "2bit-bfloat16-seed0.safetensors")


def test_building_by_hand_replaces_what_is_there(model: str, tmp_path: Path) -> None:
    out = tmp_path / "made"
    out.write_bytes(b"rubbish")
    assert main(["build", model, "--out", str(out), "--quiet"]) == 0
    before = out.stat().st_ino
    assert main(["build", model, "--out", str(out), "--quiet"]) == 0
    assert artefact.read(str(out)).metadata.bits == 2 and out.stat().st_ino != before


def test_a_servers_child_takes_what_is_there_if_it_is_sound(
    model: str, tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_command, "serve_parent", lambda _: None)  # this process is nobody's child
    out = tmp_path / "made"
    words = ["build", model, "--out", str(out), "--quiet", "--child-of", "1"]
    out.write_bytes(b"rubbish")
    assert main(words) == 0
    assert "It is built anew." in capsys.readouterr().err
    before = out.stat()
    assert main(words) == 0
    assert os.path.samestat(before, out.stat())


def test_whoever_waited_for_another_builder_takes_what_it_built(model: str, made: str, tmp_path: Path) -> None:
    out, lock = tmp_path / "a", str(tmp_path / "a.lock")
    waiter = threading.Thread(target=main, args=(["build", model, "--out", str(out), "--quiet"],))
    with cache.locked(str(out)):
        waiter.start()
        while sum(os.path.realpath(f"/proc/self/fd/{fd}") == lock for fd in os.listdir("/proc/self/fd")) < 2:
            time.sleep(0.01)
        shutil.copy(made, out)
        before = out.stat()
    waiter.join(60)
    assert os.path.samestat(before, out.stat()) and artefact.read(str(out)).metadata.bits == 8


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path, capsys: Said) -> None:
    status, line = failed(capsys, "build", str(tmp_path), "--dtype", "float32")
    assert status == 1 and str(tmp_path) in line and "cannot load" in line
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "exact", "--bits", "2"], "mode exact needs 8"),
        (["--mode", "safe", "--clusters"], "--clusters"),
    ],
)
def test_words_that_contradict_each_other_are_a_usage_error(
    model: str, capsys: Said, words: list[str], said: str
) -> None:
    status, line = failed(capsys, "build", model, *words)
    assert status == 2 and said in line


def test_a_model_that_does_not_say_its_type_needs_one(tmp_path: Path, capsys: Said) -> None:
    status, line = failed(capsys, "build", str(tmp_path))
    assert status == 2 and "--dtype" in line and "bfloat16" in line


def test_a_model_that_is_nowhere_is_one_line(capsys: Said) -> None:
    status, line = failed(capsys, "build", "org/none", "--dtype", "float32")
    assert status == 1 and "org/none: is no folder" in line and "Download it first" in line


def test_beside_a_model_that_is_no_folder_nothing_can_lie(
    capsys: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--org--name" / "snapshots" / "main").mkdir(parents=True)
    assert failed(capsys, "build", "org/name", "--beside-model", "--dtype", "float32")[0] == 2


@pytest.mark.parametrize(
    "words", [[], ["bild"], ["build"], ["build", "m", "--bits", "3"], ["build", "m", "--mode", "dense"]]
)
def test_words_that_mean_nothing_are_a_usage_error(capsys: Said, words: list[str]) -> None:
    assert main(words) == 2
    assert "usage: vplug-logits" in capsys.readouterr().err


def test_a_mode_that_is_none_is_told_what_is_possible_in_plain_words(capsys: Said) -> None:
    assert main(["build", "somewhere", "--mode", "sfae"]) == 2
    said = capsys.readouterr().err
    assert "'sfae'" in said and "safe" in said and "<Mode" not in said


# inspect and check


@pytest.fixture(scope="module")
def made(model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("made") / "a")
    assert main(["build", model, "--out", out, "--mode", "exact", "--quiet"]) == 0
    return out


def test_an_artefact_says_what_it_is(made: str, capsys: Said) -> None:
    assert main(["inspect", made]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["source"] == "tiny-model" and lines["bits"] == "8" and lines["vocabulary"] == "300"


def test_an_artefact_says_it_in_json(made: str, capsys: Said) -> None:
    assert main(["inspect", made, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["vocabulary"], said["width"], said["clusters"], said["states"]) == (300, 32, 0, 64)
    assert said["file_bytes"] == os.path.getsize(made)
    # 320 rows of 32 + 3 x 2 bytes, a transform and a mean, against 300 rows of 64 bytes
    assert said["sketch_share"] == round((320 * 38 + 2 * 32 * 32 + 4 * 32) / (300 * 64), 4)


def test_an_artefact_of_this_model_is_told_from_one_of_another(
    made: str, model: str, tmp_path: Path, capsys: Said
) -> None:
    assert main(["check", made, model]) == 0
    assert "300 rows equal" in capsys.readouterr().out
    other = tiny()
    other.lm_head.weight.data[7, 0] += 1
    other.save_pretrained(tmp_path / "other")
    status, line = failed(capsys, "check", made, str(tmp_path / "other"))
    assert status == 1 and "1 of 300 rows differ" in line and "vplug-logits build" in line


@pytest.mark.parametrize("command", ["inspect", "check"])
def test_a_file_that_is_no_artefact_is_one_line(command: str, model: str, tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "a").write_bytes(b"rubbish")
    words = [command, str(tmp_path / "a"), *([model] if command == "check" else [])]
    assert failed(capsys, *words)[0] == 1
    words[1] = str(tmp_path / "none")
    assert "is not there" in failed(capsys, *words)[1]


# The process


def command(*words: str, **how: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE)}
    program = [sys.executable, "-X", "importtime", "-m", "vplug_logits", *words]
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "words", [["--help"], ["build", "--help"], ["build", "org/none", "--mode", "exact", "--bits", "1"]]
)
def test_help_and_usage_import_no_torch(words: list[str]) -> None:
    done = command(*words)
    assert done.returncode == (0 if "--help" in words else 2)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "vplug_logits.cli" in imported and not {"torch", "numpy", "transformers"} & imported


def test_an_interrupt_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(build_command, "run", interrupted)
    assert main(["build", "m"]) == 130


def test_a_reader_that_left_ends_without_a_traceback() -> None:
    environment = os.environ | {"PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": ""}  # argparse hides what fails at once
    program = [sys.executable, "-m", "vplug_logits", "--help"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(program, env=environment, stdout=writing, stderr=subprocess.PIPE, timeout=100, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_what_only_servers_say_is_no_part_of_the_help(capsys: Said) -> None:
    assert main(["build", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--beside-model" in out and "--child-of" not in out
