from importlib import resources
from pathlib import Path

import pytest

from vplug_logits.errors import ConfigError
from vplug_logits.evaluation import texts

WORDS = 4000  # characters at least: 1,500 tokens and more with any tokenizer of today


class Spelling:
    """A tokenizer of characters."""

    chat_template: str | None = None

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(self, messages: list[dict[str, str]], *, tokenize: bool) -> str:
        assert not tokenize
        return "".join(f"<{message['role']}>{message['content']}</>" for message in messages)


@pytest.mark.parametrize("domain", texts.DOMAINS)
def test_each_text_is_utf8_of_a_useful_size_and_ends_its_lines_plainly(domain: str) -> None:
    raw = (resources.files("vplug_logits.evaluation") / "texts" / texts.DOMAINS[domain]).read_bytes()
    text = raw.decode("utf-8")
    assert WORDS < len(text) < 12_000
    assert b"\r" not in raw and "\ufffd" not in text and not raw.startswith(b"\xef\xbb\xbf")
    assert text.endswith("\n")


@pytest.mark.parametrize("domain", texts.DOMAINS)
def test_no_text_repeats_itself(domain: str) -> None:
    (text,) = texts.shipped([domain])
    whole = text.content if isinstance(text.content, str) else "\n".join(m["content"] for c in text.content for m in c)
    lines = [line.strip() for line in whole.splitlines() if len(line.strip()) > 40]
    assert len(lines) == len(set(lines))


def test_the_texts_cover_the_scripts_and_languages_that_are_promised() -> None:
    (languages,) = texts.shipped(["languages"])
    (code,) = texts.shipped(["code"])
    assert isinstance(languages.content, str) and isinstance(code.content, str)
    for word in ("Straßenkarten", "règlement", "mermelada", "поезд", "图书馆", "ピアノ", "مفتاح", "गाँव"):
        assert word.lower() in languages.content.lower()
    for word in (
        "def __init__",
        "impl<T",
        "#include <stdio.h>",
        "Promise<T>",
        "CREATE TABLE",
        "#!/usr/bin/env",
        "func ",
    ):
        assert word in code.content


def test_an_unknown_domain_is_told_which_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'poetry' is no domain; possible: prose, code"):
        texts.shipped(["poetry"])


def test_conversations_take_the_shape_of_the_chat_template() -> None:
    (text,) = texts.shipped(["format"])
    spelling = Spelling()
    assert "".join(map(chr, text.token_ids(spelling))).startswith("system: You can call functions.")
    spelling.chat_template = "any"
    shaped = "".join(map(chr, text.token_ids(spelling)))
    assert shaped.startswith("<system>You can call functions.")
    assert '<assistant>{"name": "get_timetable"' in shaped


def test_a_text_of_ones_own_is_named_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "poems.txt"
    file.write_text("Rosen sind rot, Öl ist teuer.\n", "utf-8")
    assert texts.read(str(file)) == texts.Text("poems", "Rosen sind rot, Öl ist teuer.")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("latin.txt", "Öl".encode("latin-1"), "is not what its name says"),
        ("empty.txt", b" \n", "is empty"),
        ("broken.json", b"[{", "is not what its name says"),
        ("other.json", b'{"messages": []}', "must hold a list of conversations"),
        ("half.json", b'[[{"role": "user"}]]', "must hold a list of conversations"),
    ],
)
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=told) as refused:
        texts.read(str(file))
    assert name in str(refused.value)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.txt cannot be read: No such file"):
        texts.read(str(tmp_path / "nowhere.txt"))
