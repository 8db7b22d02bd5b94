r"""Which adapter names are possible at all; every resolver asks here before it looks anywhere.

A name comes from a request. What is possible is listed and the rest is refused, so a name means one place on every file
system and in every store: parts of letters, numbers and a few signs, separated by single slashes.
"""

from __future__ import annotations

import unicodedata

from vplug_rs.lora.refusal import Refusal, shown

MOST_BYTES, MOST_PART_BYTES, MOST_PARTS = 512, 200, 8
SIGNS = frozenset("._-+=@, ()")
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in "0123456789"]
)
# letters and marks by their category, and yet nothing is seen of them
_INVISIBLE = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)  # fmt: skip
_HINT = "Ask for the adapter by its name below the folder, such as `team/adapter-1`."


def parts(name: object) -> tuple[str, ...]:
    """The parts of an adapter's name.

    Args:
        name: What a request asks for.

    Raises:
        Refusal: with a code that begins with `name-`; nothing has been looked at.
    """
    if not isinstance(name, str):
        raise _refusal("name-type", name, f"is {type(name).__name__}, and text is wanted")
    if not name:
        raise _refusal("name-empty", name, "is empty")
    _whole(name)
    found = tuple(name.split("/"))
    if len(found) > MOST_PARTS:
        raise _refusal("name-too-long", name, f"has {len(found)} parts, and {MOST_PARTS} are possible")
    for part in found:
        _part(name, part)
    return found


def _whole(name: str) -> None:
    # a character takes four bytes at most: what is far too long is not looked at
    if len(name) > MOST_BYTES or len(name.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise _refusal("name-too-long", name, f"is longer than {MOST_BYTES} bytes")
    for character in name:
        if unicodedata.category(character) in {"Cc", "Zl", "Zp"}:
            raise _refusal("name-control", name, f"has the control character U+{ord(character):04X}")
    if name[0] in "/~":
        raise _refusal("name-absolute", name, f"starts with `{name[0]}`")
    if name[1:2] == ":" and name[0].isascii() and name[0].isalpha():
        raise _refusal("name-drive", name, f"starts with the drive letter `{name[:2]}`")
    if "\\" in name:
        raise _refusal("name-backslash", name, "has a backslash")
    _characters(name)


def _characters(name: str) -> None:
    for character in name:
        category = unicodedata.category(character)
        code = f"U+{ord(character):04X}"
        if character in _INVISIBLE or category in {"Cf", "Cs", "Co", "Cn"}:
            raise _refusal("name-unicode", name, f"has {code}, of which nothing would be seen")
        if category == "Zs" and character != " ":
            raise _refusal("name-unicode", name, f"has {code}, a blank that is not the usual one")
    if unicodedata.normalize("NFKC", name) != name:
        raise _refusal("name-unicode", name, "is not in its normal form (NFKC): it could be another name's double")


def _part(name: str, part: str) -> None:
    if not part:
        raise _refusal("name-empty-part", name, "has an empty part")
    if part in {".", ".."}:
        raise _refusal("name-dots", name, f"has the part `{part}`")
    if part.startswith("."):
        raise _refusal("name-hidden", name, f"has the hidden part {shown(part)}")
    if part[0] in " -" or part[-1] in " .":
        raise _refusal("name-edge", name, "has a part that starts with a blank or dash, or ends with a blank or dot")
    if part.partition(".")[0].rstrip(" ").lower() in _DEVICES:
        raise _refusal("name-device", name, f"has the part {shown(part)}, a device's name on some systems")
    for character in part:
        if character not in SIGNS and unicodedata.category(character)[0] not in "LMN":
            raise _refusal("name-character", name, f"has the character {shown(character)}")
    if len(part.encode()) > MOST_PART_BYTES:
        raise _refusal("name-too-long", name, f"has a part that is longer than {MOST_PART_BYTES} bytes")


def _refusal(code: str, name: object, fault: str) -> Refusal:
    return Refusal(code, f"no adapter can be named {shown(name)}: it {fault}", hint=_HINT)
