import argparse
import json
from pathlib import Path

import pytest

from models import tiny_that_reads
from vplug_logits.cli import evaluate, main
from vplug_logits.errors import BuildError, ConfigError
from vplug_logits.evaluation.texts import DOMAINS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_that_reads(tmp_path_factory.mktemp("model") / "tiny")


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    evaluate.add_arguments(parser)
    return evaluate.run(parser.parse_args(words))


def test_a_model_is_evaluated_from_its_folder(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    assert run(folder, "--states", "250", "--quick", "--json", str(file)) == 0
    shown = capsys.readouterr()
    document = json.loads(file.read_text("utf-8"))
    assert document["model"] == "tiny" and document["states"] == 250
    assert list(document["sources"]) == list(DOMAINS)
    found = {one["name"]: one["all"]["misses"] for one in document["methods"]}
    assert found["exact"] == 0 and found["cosine-clusters"] > 0
    assert "tiny: V = 900, d = 128, float32; 250 distinct states" in shown.out
    assert shown.err.splitlines()[-1].endswith(" s")


def test_ones_own_texts_are_domains_of_their_own(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poem = tmp_path / "poem.txt"
    poem.write_text("Der Mond ist aufgegangen über einer Stadt aus Papier. " * 3, "utf-8")
    words = ("--states", "60", "--quick", "--quiet", "--modes", "safe", "dense", "--dtype", "bfloat16")
    assert run(folder, "--texts", str(poem), *words) == 0
    shown = capsys.readouterr()
    assert "bfloat16; 60 distinct states" in shown.out and "poem" in shown.out
    assert not shown.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--states", "3"), "3 are too few for 5 domains"),
        (("--json", "/nowhere/at/all.json"), "/nowhere/at is no folder that you can write to"),
        (("--plots", "/nowhere/at/all"), "/nowhere/at is no folder that you can write to"),
        (("--texts", "/nowhere/poem.txt"), "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_model_is_loaded(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        run("/nowhere/model", *words)


def test_the_command_answers_a_bad_word_with_one_line_and_its_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # what the command sets would stay
    assert main(["evaluate", "/nowhere/model", "--states", "3"]) == 2
    assert capsys.readouterr().err == "error: states: 3 are too few for 5 domains.\n"


def test_two_texts_of_one_name_are_refused(tmp_path: Path) -> None:
    for ending in ("txt", "md"):
        (tmp_path / f"poem.{ending}").write_text("Rot und blau", "utf-8")
    with pytest.raises(ConfigError, match="two files have the same name"):
        run("/nowhere/model", "--texts", str(tmp_path / "poem.txt"), str(tmp_path / "poem.md"))


def test_a_model_without_a_tokenizer_is_told_so(folder: str, tmp_path: Path) -> None:
    for file in Path(folder).iterdir():
        if "token" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(BuildError, match="its tokenizer cannot be loaded"):
        run(str(tmp_path), "--quick", "--quiet")


@pytest.mark.parametrize(("option", "word"), [("--modes", "turbo"), ("--domains", "poetry"), ("--dtype", "int8")])
def test_a_word_that_is_none_is_answered_with_those_there_are(
    option: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run("model", option, word)
    assert stopped.value.code == 2
    assert f"invalid choice: '{word}'" in capsys.readouterr().err
