"""What is installed and allowed in a group, as one short text that two processes or hosts can compare."""

from __future__ import annotations

import hashlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from vplug_rs.loading.plugin import Plugin

Row = tuple[str, str, str, str, str, str]


class Fingerprint:
    """The allowed plugins of a group in loading order, and a digest of them.

    Attributes:
        rows: (group, name, value, distribution, version, SHA-256 of its entry_points.txt) of each plugin.
        digest: SHA-256 of all rows, in hexadecimal.
    """

    def __init__(self, rows: Iterable[Sequence[str]]) -> None:
        self.rows: tuple[Row, ...] = tuple(tuple(row) for row in rows)  # type: ignore[misc]  # six each, from `of` or JSON
        text = "\0".join("\1".join(row) for row in self.rows)
        self.digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    @classmethod
    def of(cls, plugins: Iterable[Plugin]) -> Fingerprint:
        """The fingerprint of plugins in their loading order."""
        return cls(
            (p.group, p.name, p.value, p.project or "", p.version or "", _hash(p.metadata_path)) for p in plugins
        )

    def difference(self, other: Fingerprint) -> str:
        """How another fingerprint differs, line by line: `-` only here, `+` only there; empty if they are equal."""
        here, there = _named(self.rows), _named(other.rows)
        lines = []
        for key in dict.fromkeys([*here, *there]):
            one, two = here.get(key), there.get(key)
            if one != two:
                lines += [f"- {key[1]}: {one}"] if one is not None else []
                lines += [f"+ {key[1]}: {two}"] if two is not None else []
        if not lines and self.digest != other.digest:
            lines = [
                f"- order: {', '.join(row[1] for row in self.rows)}",
                f"+ order: {', '.join(row[1] for row in other.rows)}",
            ]
        return "\n".join(lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return self.digest[:16]


def _named(rows: Iterable[Row]) -> dict[tuple[str, str, str, int], str]:
    """What is compared, by group, name, distribution, and a number where it offers a name several times."""
    out: dict[tuple[str, str, str, int], str] = {}
    for group, name, value, distribution, version, digest in rows:
        number = 0
        while (group, name, distribution, number) in out:
            number += 1
        text = f"{value} of {distribution} {version}, entry_points.txt {digest[:12] or 'unread'}"
        out[group, name, distribution, number] = text
    return out


def _hash(metadata_path: Any) -> str:
    if metadata_path is None:
        return ""
    try:
        with open(os.path.join(metadata_path, "entry_points.txt"), "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return ""
