"""Rows -> text or JSON, and the two streams they go to: data on stdout, messages on stderr.

In: strings and plain values. It knows no command and reads no file.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` for its own constant costs more than a listing
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

SCHEMA = 1
"""Number of the JSON layout. It rises when a key changes its meaning or goes away, not when one is added."""

# Names come from somebody else's files: none of them may steer the reader's terminal.
_CONTROLS = [*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" for code in _CONTROLS} | {code: f"\\u{code:04x}" for code in _DIRECTIONS}


def emit(text: str) -> None:
    """Write data to stdout, ending it with a line break.

    Characters that the stream cannot encode are written as backslash escapes, and so are those that would steer a
    terminal or change the direction of the text.

    Args:
        text: What to write. Nothing is written when it is empty, or when stdout is closed.

    Raises:
        OSError: stdout cannot be written.
    """
    _write(sys.stdout, text)


def message(kind: str, text: str, hint: str | None = None) -> None:
    """Write a message to stderr.

    Args:
        kind: The first word: `error`, `warning` or `note`.
        text: What happened.
        hint: The next step; it gets a line of its own.
    """
    lines = f"{kind}: {text}"
    if hint:
        lines += f"\nhint: {hint}"
    _write(sys.stderr, lines)


def visible(text: str) -> str:
    """Text that steers no terminal: control characters, and those that change its direction, as backslash escapes.

    Args:
        text: What somebody else's files may have had a hand in. Its line breaks stay.
    """
    return text.translate(_VISIBLE)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None or not text:  # stdout is None when the caller closed it (`>&-`)
        return
    encoding = stream.encoding or "utf-8"
    stream.write(visible(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")


def json_text(kind: str, body: dict[str, object]) -> str:
    """One JSON object with its `schema` and `kind` in front, in ASCII.

    Args:
        kind: The command that answers.
        body: The other keys, in the order in which they are to appear.
    """
    import json

    return json.dumps({"schema": SCHEMA, "kind": kind, **body}, indent=2)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns padded to their widest cell, two blanks apart; the last one is left ragged.

    Args:
        headers: Titles; the number of columns follows from them.
        rows: Cells, as many a row as there are titles.
        right: Indexes of the columns that are aligned to the right.
    """
    lines = [list(headers), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def fields(pairs: Iterable[tuple[str, str]]) -> str:
    """Indented `label  text` lines with the texts in one column.

    Args:
        pairs: Labels and texts. An empty label continues the line above.
    """
    lines = list(pairs)
    width = max((len(label) for label, _ in lines), default=0)
    return "\n".join(f"  {label.ljust(width)}  {one_line(text)}" for label, text in lines)


def one_line(text: str) -> str:
    """Text on one line: a folder's name, or what a driver says, may hold a line break.

    Args:
        text: Any text.
    """
    return text.replace("\n", "\\n")


def count(number: int, singular: str, plural: str | None = None) -> str:
    """`1 error`, `2 errors`.

    Args:
        number: How many.
        singular: The word for one.
        plural: The word for any other number; by default `singular` with an `s`.
    """
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
