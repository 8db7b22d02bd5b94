"""Which adapter names are possible: what is refused, by which code, and that it says so without steering a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vplug_rs.lora import names
from vplug_rs.lora.refusal import CODES, Refusal

ZERO_WIDTH = [
    "\u200b",
    "\u200d",
    "\u200e",
    "\u202e",
    "\u2060",
    "\u2066",
    "\ufeff",
    "\u00ad",
    "\u061c",
    "\ufe0f",
    "\u3164",
]
ZERO_WIDTH += ["\u034f", "\u115f", "\u180b", "\U000e0041", "\U000e0100", "\ue000", "\ud800", "\udcff", "\u0378"]
HOSTILE: dict[str, list[Any]] = {
    "name-type": [None, 1, b"a", ["a"], 1.5, ("a",), True, {"a": 1}],
    "name-empty": [""],
    "name-too-long": [
        "a" * 513, "a" * 10_000_000, "é" * 300, "a/" * 8 + "a", "/".join("a" * 9), "a" * 201,
        "x/" + "ü" * 101, "ø" * 257, "a/" * 400, "../" * 400, "/" * 513, "\0" * 600,
    ],
    "name-absolute": ["/", "//", "/etc", "/etc/passwd", "//host/share", "/a", "~", "~/a", "~root/a", "/proc/self/root"],
    "name-drive": ["C:", "C:/a", "c:a", "Z:/..", "d:\\a"],
    "name-backslash": ["a\\b", "..\\..\\a", "\\\\host\\share", "\\", "a/..\\b", "\\\\?\\C:\\a", "\\\\.\\NUL"],
    "name-control": [
        *("a" + chr(code) + "b" for code in [*range(0x20), 0x7F, 0x80, 0x85, 0x9F, 0x2028, 0x2029]),
        "\0", "a\0/../b", "../\0", "a/\n", "a\r\nX: y",
    ],
    "name-empty-part": ["a//b", "a/", "a/b//", "a///b"],
    "name-dots": [
        "..", ".", "../a", "a/..", "a/../b", "./a", "a/.", "a/./b", "../../etc/passwd", "a/../../b",
        "a/b/../../..", "../..", "a/b/..", "team/../../team/a", "../lora/a",
    ],
    "name-hidden": [".git", "...", "....", "a/.ssh", ".cache/a", "..a", "a/..b", ". .", "a/... "],
    "name-edge": [" a", "a ", "a.", "a/b.", "a/ b", "a /b", "-a", "a/-rf", "--help", "a..", "a. ", "a/b ."],
    "name-device": [
        "con", "CON", "Nul", "nul.txt", "a/aux", "PRN.a.b", "com1", "COM9.x", "lpt1/a", "lpt0", "CONIN$", "clock$",
        "nul .a", "a/b/NUL.safetensors",
    ],
    "name-unicode": [
        *(f"a{sign}b" for sign in ZERO_WIDTH), "a\u00a0b", "a\u2003b", "a\u3000b", "a\uff0fb", "a\u2024\u2024b",
        "\uff0e\uff0e/a", "\uff46ull", "e\u0301", "\ufb01ne", "a\u2215\u2025", "K\u212a", "a\u212b",
    ],
    "name-character": [
        "a*", "a?b", "a|b", "a<b", "a>b", 'a"b', "a'b", "a;b", "a&b", "a$b", "a%2e%2e", "%2e%2e/a", "a/%2fa", "a`b",
        "a{b}", "a[b]", "a!b", "a#b", "a^b", "s3:a", "file:a", "ab:c", "a\u2044b", "a\u2215b", "a\u29f8b", "a\u2216b",
        "a~b", "€",
    ],
}  # fmt: skip
CASES = [(code, name) for code, some in HOSTILE.items() for name in some]


@pytest.mark.parametrize(("code", "name"), CASES, ids=[f"{code}-{index}" for index, (code, _) in enumerate(CASES)])
def test_a_hostile_name_is_refused_with_its_code(code: str, name: Any) -> None:
    with pytest.raises(Refusal) as caught:
        names.parts(name)
    assert caught.value.code == code, caught.value
    assert caught.value.hint
    str(caught.value).encode()  # no lone surrogates
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_every_code_of_a_name_has_a_case() -> None:
    assert set(HOSTILE) == {code for code in CODES if code.startswith("name-")}
    assert len(CASES) >= 200


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ("a",)),
        ("team/adapter-1", ("team", "adapter-1")),
        ("org/repo/sub/v1.0", ("org", "repo", "sub", "v1.0")),
        ("My Adapter (2)", ("My Adapter (2)",)),
        ("größe/アダプタ/适配器", ("größe", "アダプタ", "适配器")),
        ("a..b", ("a..b",)),
        ("a@v1+x=y,z_", ("a@v1+x=y,z_",)),
        ("console/com10/nullable", ("console", "com10", "nullable")),
        ("a" * 200, ("a" * 200,)),
        ("/".join("abcdefgh"), tuple("abcdefgh")),
    ],
)
def test_an_ordinary_name_is_possible(name: str, parts: tuple[str, ...]) -> None:
    assert names.parts(name) == parts


@given(st.text(st.sampled_from("a./\\~: \0-é\u200b\uff0e\ud800COMnul1") | st.characters(codec=None), max_size=40))
def test_whatever_is_possible_stays_below_its_folder(name: str) -> None:
    try:
        parts = names.parts(name)
    except Refusal:
        return
    assert "/".join(parts) == name
    assert all(part and not part.startswith(".") and not {"/", "\\", "\0"} & set(part) for part in parts)
    name.encode()
