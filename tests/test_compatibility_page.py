"""docs/compatibility.md tells the truth about its tests: each one that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

from oracle.allowed import ENTRIES

HERE = Path(__file__).resolve().parent
PAGE = (HERE.parent / "docs" / "compatibility.md").read_text(encoding="utf-8")
OURS = PAGE.partition("## Our flavour")[2].partition("## install()")[0]
ROWS = [row for row in OURS.splitlines() if re.match(r"\| [a-z0-9-]+ \|", row) and not row.startswith("| entry |")]
LISTED = [row.split("|")[1].strip() for row in ROWS]


def test_each_test_named_on_the_page_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    files = [file.read_text(encoding="utf-8") for file in HERE.rglob("test_*.py")]
    defined = {name for text in files for name in re.findall(r"^ *def (test_\w+)\(", text, re.MULTILINE)}
    assert len(named) > 15
    assert named <= defined, named - defined


def test_each_entry_has_a_test_of_its_own() -> None:
    assert len(ROWS) > 15
    without = [row for row in ROWS if "`test_" not in row.rpartition(" | ")[2]]
    assert not without


def test_each_difference_that_the_oracle_lets_pass_is_an_entry() -> None:
    assert set(ENTRIES) <= set(LISTED), set(ENTRIES) - set(LISTED)
    assert len(LISTED) == len(set(LISTED))


def test_each_difference_that_the_oracle_of_platforms_shows_is_on_the_page() -> None:
    tests = (HERE / "test_platforms_oracle.py").read_text(encoding="utf-8").partition("# what differs on purpose")[2]
    shown = set(re.findall(r"^def (test_\w+)\(", tests, re.MULTILINE))
    page = PAGE.partition("## Platforms")[2].partition("\n## ")[0]
    told = {row.split("|")[-2].strip().strip("`") for row in page.splitlines() if row.endswith("` |")}
    assert shown == told
    assert len(shown) > 15


def test_each_mended_point_is_on_the_page() -> None:
    tests = re.findall(r"^def (test_(\d\d)_\w+)\(", (HERE / "test_mended.py").read_text(encoding="utf-8"), re.MULTILINE)
    told = {int(number) for number in re.findall(r"`test_(\d\d)_", PAGE)}
    assert {int(number) for _, number in tests} - {20, 21} <= told, "20 and 21 are the standard's own behaviour"
