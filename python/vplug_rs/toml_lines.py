"""The line of every key and list item in a TOML text; `tomllib` gives values, but not where they stand.

For texts that `tomllib` has read without a fault. Strings and comments are skipped whole, so that what stands in them
is never taken for a key.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Path = tuple["str | int", ...]

# a multi-line string ends at the first three quotes, which up to two more may follow
_TOKEN = re.compile(
    r'''(?P<blank>[ \t\r]+|\#[^\n]*)
    |(?P<string>"""(?:\\.|[^\\])*?"""(?:"{1,2})?|\'\'\'.*?\'\'\'(?:'{1,2})?|"(?:\\.|[^"\\])*"|'[^']*')
    |(?P<mark>[\n\[\]{}=.,])
    |(?P<bare>[^ \t\r\n\#"'\[\]{}=.,]+)''',
    re.DOTALL | re.VERBOSE,
)


def line_of(lines: dict[Path, int], path: Sequence[str | int]) -> int | None:
    """The line of a key, or else of the innermost table around it that is written down; None where none is."""
    wanted = tuple(path)
    return next((lines[wanted[:end]] for end in range(len(wanted), 0, -1) if wanted[:end] in lines), None)


def lines(text: str) -> dict[Path, int]:
    """The first line that names each key, by its path from the top; an item of a list has its number in its path."""
    reader = _Reader()
    number = 1
    for found in _TOKEN.finditer(text):
        if found.lastgroup != "blank":
            reader.take(found[0], number, mark=found.lastgroup == "mark")
        number += found[0].count("\n")
    return reader.lines


class _Reader:
    """Takes one piece after the other. `self.open` has what the piece stands in, outermost first."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.table: Path = ()
        self.tables: dict[Path, int] = {}  # how many of each list of tables there were
        self.key: list[str] = []
        self.header = 0  # how many brackets a header began with
        self.in_key = True
        self.path: Path = ()  # of the value that comes
        self.open: list[tuple[str, Path, int]] = []  # bracket, path, number of the item

    def take(self, piece: str, line: int, *, mark: bool) -> None:
        if self.in_key:
            self._key(piece, line, mark=mark)
        else:
            self._value(piece, line)

    def _key(self, piece: str, line: int, *, mark: bool) -> None:
        if not mark:
            self.key.append(_text(piece))
        elif piece == "[":
            self.header += 1
        elif piece == "]" and self.key:
            self._head(line)
        elif piece == "=":
            base = self.open[-1][1] if self.open else self.table
            self.path = self._note(base, line)
            self.in_key = False
        elif piece == "}":
            self._close()
        elif piece == "\n":
            self.header = 0

    def _head(self, line: int) -> None:
        self.table = self._note((), line)
        if self.header > 1:
            count = self.tables.get(self.table, 0)
            self.tables[self.table] = count + 1
            self.table = (*self.table, count)
            self.lines[self.table] = line

    def _note(self, base: Path, line: int) -> Path:
        """Notes a dotted key below a table, each of its parts."""
        for end, part in enumerate(self.key, 1):
            base = (*base, part)
            self.lines.setdefault(base, line)
            if base in self.tables and end < len(self.key):  # further in: in the last one of that list
                base = (*base, self.tables[base] - 1)
        self.key = []
        return base

    def _value(self, piece: str, line: int) -> None:
        if piece == "]":
            self._close()
            return
        if piece == ",":
            self._comma()
            return
        if piece == "\n":
            self.in_key = not self.open
            return
        if self.open and self.open[-1][0] == "[":
            _, path, number = self.open[-1]
            self.path = (*path, number)
            self.lines.setdefault(self.path, line)
        if piece in {"[", "{"}:
            self.open.append((piece, self.path, 0))
            self.in_key = piece == "{"
        elif piece == "}":
            self._close()

    def _comma(self) -> None:
        bracket, path, number = self.open[-1]
        self.open[-1] = (bracket, path, number + 1)
        self.in_key = bracket == "{"

    def _close(self) -> None:
        self.open.pop()
        self.in_key = False


def _text(piece: str) -> str:
    """The key that a bare or quoted piece stands for."""
    if piece[0] not in "\"'":
        return piece
    import tomllib

    return next(iter(tomllib.loads(f"{piece} = 0")))
