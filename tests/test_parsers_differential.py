"""The native parsers against the running interpreter's importlib.metadata, on the same generated files.

A strict function may answer NotImplemented (ask the genuine code), but where it answers, it must be right. That it does
answer on ordinary files is tested too: a parser that steps aside for everything would never be wrong.
"""

from __future__ import annotations

import csv
import email
import importlib.machinery
import importlib.metadata
import sys
import warnings
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vplug_rs import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GENERATION = sys.version_info[1]
SUFFIXES = importlib.machinery.all_suffixes()
GENUINE = vars(importlib.metadata)

# Characters that some reader treats in its own way: rare line breaks and blanks, a byte order mark, NUL.
RARE = ["\v", "\f", "\x1c", "\x1e", "\x1f", "\x85", "\u2028", "\xa0", "\u200b", "\ufeff", "\0", "é", "\U0001f600"]


def pieces(*common: str) -> st.SearchStrategy[bytes]:
    """Give bytes made of these pieces, now and then with something rare or undecodable among them."""
    piece = st.sampled_from(common)
    plain = st.lists(piece, max_size=30).map("".join)
    rare = st.lists(st.one_of(piece, piece, piece, st.sampled_from(RARE)), max_size=30).map("".join)
    text = st.one_of(plain, rare).map(str.encode)
    return st.one_of(text, text, text, text, st.tuples(text, st.binary(max_size=3)).map(b"".join))


# fmt: off
ENTRY_POINTS = pieces(
    "[g]\n", "[g]\n", "[h]\r\n", "a = m:f\n", "b=m.n:f.g [x, y]\n",
    "\n", "\r", "\r\n", " ", "\t", "=", "[", "]", "#", ";", "c", "d:",
)
METADATA = pieces(
    "Name: demo\n", "Version:1\r\n", "name: other\n", "Requires-Dist: a ; extra == 'b'\n", "License: x\n", "\n    y\n",
    "\n", "\n\n", "\r", "\r\n", " ", "\t", ":", "x", "    z\n", "From ", "Description", "body\n", "Content-Type: a/b\n",
)
RECORD = pieces(
    "p/a.py,sha256=x,1\n", "p/gone.py,,\n", "q/b.so,,\n", "a.py,,\n", "d.dist-info/RECORD,,\r\n", "../bin/x,,\n",
    "\n", "\r", ",", ",", '"', '""', "/", "./", "../", "//", ".", ".py", ".pyc", "p", "q/", "sha=", "0", "12", " ", "-",
)
# fmt: on
FIELDS = st.sampled_from(["Name", "VERSION", "requires-dist", "license", "Description", "x", "missing"])


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a metadata folder beside some files that a RECORD may name."""
    site = tmp_path_factory.mktemp("site")
    for name in ("p/a.py", "p/p/q", "q/b.so", "a.py", "b.pyc", "p.py", "12", ".py"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    made = site / "demo-1.0.dist-info"
    made.mkdir()
    return made


@pytest.fixture
def content(info: Path) -> Iterator[Callable[[str, bytes], None]]:
    """Give a function that writes a file of the metadata folder; all are gone afterwards."""

    def write(name: str, data: bytes) -> None:
        (info / name).write_bytes(data)

    yield write
    for file in info.iterdir():
        file.unlink()


def genuine(question: Callable[[], Any]) -> Any:
    """Answer as the standard does; an exception is an answer that only NotImplemented can match."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return question()
        except (TypeError, ValueError, AttributeError, LookupError, csv.Error):
            return NotImplemented


def check(answer: Any, expected: Any) -> None:
    """Accept the genuine answer, or none."""
    if answer is not NotImplemented:
        assert answer == expected


def entry_points(info: Path) -> Any:
    """Give name, value and group of each entry point, as the standard reads them."""
    dist = importlib.metadata.PathDistribution(info)
    return genuine(lambda: [(point.name, point.value, point.group) for point in dist.entry_points])


@given(data=ENTRY_POINTS)
def test_strict_entry_points_are_the_genuine_ones(info: Path, data: bytes) -> None:
    (info / "entry_points.txt").write_bytes(data)
    check(_core.read_entry_points(str(info)), entry_points(info))


def test_strict_entry_points_are_read_natively_from_an_ordinary_file(
    info: Path, content: Callable[[str, bytes], None]
) -> None:
    content("entry_points.txt", b"# note\n[console_scripts]\r\nrun = demo.main:run [all]\n\n[g]\nx=y\n")
    assert _core.read_entry_points(str(info)) == [("run", "demo.main:run [all]", "console_scripts"), ("x", "y", "g")]


@given(data=ENTRY_POINTS)
def test_the_mended_grammar_differs_only_by_what_it_skips(data: bytes) -> None:
    text = data.decode(errors="ignore")
    found = [(name, value, group) for name, value, group, _ in _core.parse_entry_points(text)[0]]
    lines = [line.strip() for line in text.removeprefix("\ufeff").splitlines()]
    sound = [line for line in lines if "=" in line or line.startswith("#") or (line[:1] == "[" and line[-1:] == "]")]
    pairs = GENUINE["Sectioned"].section_pairs("\n".join(sound))
    assert found == [(pair.value.name, pair.value.value, pair.name) for pair in pairs]


@given(data=ENTRY_POINTS)
def test_an_entry_point_stands_in_its_line(data: bytes) -> None:
    text = data.decode(errors="ignore")
    editor = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for name, value, _, number in _core.parse_entry_points(text)[0]:
        assert name in editor[number - 1]
        assert value in editor[number - 1]


# The letters beyond ASCII are old ones: the tables of both languages agree on them, whatever their age.
@given(name=st.text(st.one_of(st.sampled_from("aZ09-_.~ "), st.sampled_from("éÉİΣ\u03c3\u03c2\u212aßÖǅ")), max_size=12))
def test_names_are_normalized_as_by_the_standard(name: str) -> None:
    assert _core.normalize(name) == GENUINE["Prepared"].normalize(name)


def parsed(info: Path) -> email.message.Message:
    """Give the email parser's view of the metadata."""
    return email.message_from_string((info / "METADATA").read_text(encoding="utf-8"))


def fields(info: Path) -> list[tuple[str, str]]:
    """Give the fields that the standard shows, without the Description made from the body."""
    shown = list(importlib.metadata.PathDistribution(info).metadata.items())  # type: ignore[attr-defined]
    return shown[:-1] if parsed(info).get_payload() else shown


@given(data=METADATA)
def test_strict_headers_are_the_genuine_ones(info: Path, data: bytes) -> None:
    (info / "METADATA").write_bytes(data)
    check(_core.read_headers(str(info), strict=True), genuine(lambda: fields(info)))


@given(data=METADATA, field=FIELDS)
def test_a_strict_field_is_the_genuine_one(info: Path, data: bytes, field: str) -> None:
    (info / "METADATA").write_bytes(data)
    dist = importlib.metadata.PathDistribution(info)
    check(_core.read_header(str(info), field, strict=True), genuine(lambda: dist.metadata[field]))


@given(data=METADATA)
def test_a_strict_message_is_the_genuine_one(info: Path, data: bytes) -> None:
    (info / "METADATA").write_bytes(data)
    answer = _core.read_message(str(info))
    if answer is NotImplemented:
        return
    message = parsed(info)
    assert answer == (vars(message)["_headers"], message.get_payload())
    assert (message.defects, message.get_unixfrom()) == ([], None)


def test_strict_headers_are_read_natively_from_an_ordinary_file(
    info: Path, content: Callable[[str, bytes], None]
) -> None:
    content("METADATA", "Name: demo\nAuthor: é\nLicense: a\n        b\n\n# Demo\n".encode())
    expected = [("Name", "demo"), ("Author", "é"), ("License", "a\nb")]
    assert _core.read_headers(str(info), strict=True) == expected
    assert _core.read_header(str(info), "license", strict=True) == "a\nb"
    assert _core.read_message(str(info)) == ([*expected[:2], ("License", "a\n        b")], "# Demo\n")


@given(data=METADATA)
def test_mended_headers_are_the_genuine_ones_where_those_are_text(info: Path, data: bytes) -> None:
    (info / "METADATA").write_bytes(data)
    strict = _core.read_headers(str(info), strict=True)
    if strict is not NotImplemented:
        assert _core.read_headers(str(info), strict=False) == strict


def test_mended_headers_survive_bytes_that_are_not_utf_8(info: Path, content: Callable[[str, bytes], None]) -> None:
    content("METADATA", b"Name: demo\nAuthor: Jos\xe9\n\n\xff")
    assert _core.read_headers(str(info), strict=True) is NotImplemented
    assert _core.read_headers(str(info), strict=False) == [("Name", "demo"), ("Author", "Jos\ufffd")]


def files(info: Path) -> Any:
    """Give path, hash and size of each installed file, as the standard lists them."""
    listed = importlib.metadata.PathDistribution(info).files
    return listed and [(PurePosixPath(file), file.hash and vars(file.hash), file.size) for file in listed]


@given(data=RECORD)
def test_strict_record_rows_are_the_genuine_ones(info: Path, data: bytes) -> None:
    (info / "RECORD").write_bytes(data)
    rows = _core.read_record(str(info), str(info.parent), exists=GENERATION >= 12)
    if rows is not NotImplemented and rows is not None:
        rows = [(PurePosixPath(path), spec and vars(GENUINE["FileHash"](spec)), size) for path, spec, size in rows]
    check(rows, genuine(lambda: files(info)))


@given(data=RECORD)
def test_strict_import_names_are_the_genuine_ones_in_their_order(info: Path, data: bytes) -> None:
    (info / "RECORD").write_bytes(data)
    answer = _core.top_level(str(info), str(info.parent), generation=GENERATION, suffixes=SUFFIXES, strict=True)
    dist = importlib.metadata.PathDistribution(info)
    expected = genuine(lambda: list(GENUINE["_top_level_inferred"](dist)))
    if answer is NotImplemented:
        return
    declared, names = answer
    assert not declared
    # Built in the same order, a set is iterated in the same order; the filter of later releases comes after that.
    made = set(names)
    found = made if GENERATION == 11 else (name for name in made if name is not None and "." not in name)
    assert list(found) == expected


def test_record_and_import_names_are_read_natively_from_an_ordinary_file(
    info: Path, content: Callable[[str, bytes], None]
) -> None:
    content("RECORD", b"p/a.py,sha256=x,1\r\np/p/q,,\na.py,,\nq/b.so\n")
    root = str(info.parent)
    assert _core.read_record(str(info), root, exists=True) == [
        ("p/a.py", "sha256=x", 1),
        ("p/p/q", None, None),
        ("a.py", None, None),
        ("q/b.so", None, None),
    ]
    names = ["p", "a"] if GENERATION == 11 else ["p", "a", "q"]
    assert _core.top_level(str(info), root, generation=GENERATION, suffixes=SUFFIXES, strict=True) == (False, names)
    content("top_level.txt", b" x\ny z\n")
    declared = _core.top_level(str(info), root, generation=GENERATION, suffixes=SUFFIXES, strict=True)
    assert declared == (True, ["x", "y", "z"])


def test_a_mended_record_keeps_its_sound_rows(info: Path, content: Callable[[str, bytes], None]) -> None:
    content("RECORD", b"p/a.py,,\n\nx,y,z,a\nq/b.so,,many\n")
    root = str(info.parent)
    assert _core.read_record(str(info), root, exists=True) is NotImplemented
    rows = _core.read_files(str(info), root)[0]
    assert rows == [("p/a.py", None, None), ("q/b.so", None, None)]
