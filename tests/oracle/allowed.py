"""The differences between our flavour and the standard that `docs/compatibility.md` admits, and nothing else.

`Site.entry_for` names the entry of that page that a difference of `oracle_compare.py --order any` belongs to.
The rules know the installation: what may differ is what is damaged or contested there.
An answer about a project that is neither must be the standard's.
"""

from __future__ import annotations

import ast
import json
import re
import zipfile
from pathlib import Path
from typing import Any

ENTRIES = (
    "bad-reference",
    "broken-origin",
    "byte-order-mark",
    "contained",
    "dangling-link",
    "interrupted-uninstall",
    "leftovers",
    "malformed-line",
    "missing-files",
    "nameless-folder",
    "open-quote",
    "order",
    "query-key",
    "same-folder",
    "two-versions",
    "undecodable-byte",
    "unnamed-in-packages",
)
SUFFIXES = (".dist-info", ".egg-info")
BROKEN = {  # exception type and a part of its text -> entry
    ("JSONDecodeError", ""): "broken-origin",
    ("UnicodeDecodeError", ""): "undecodable-byte",
    ("TypeError", "Pair.__new__"): "malformed-line",
    ("TypeError", "expected string"): "nameless-folder",
    ("TypeError", "make_file"): "contained",
    ("TypeError", "positional argument"): "contained",
    ("ValueError", "invalid literal for int"): "contained",
    ("ValueError", "is not in the subpath"): "contained",
    ("ValueError", "not enough values to unpack"): "contained",
    ("AttributeError", "'Path' object has no attribute"): "contained",
    ("AttributeError", "'NoneType' object has no attribute 'group'"): "bad-reference",
    ("AssertionError", ""): "bad-reference",
    ("OSError", ""): "contained",
    ("FileNotFoundError", ""): "contained",
}
REFERENCE_ERRORS = {"AttributeError", "AssertionError", "ValueError"}


def normalise(name: str) -> str:
    """Give the key that a name counts as."""
    return re.sub(r"[-_.]+", "-", name).lower().replace("-", "_")


def is_utf8(content: bytes) -> bool:
    """Tell whether a file can be decoded."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def raises(answer: Any) -> bool:
    """Tell whether an answer is an exception."""
    return isinstance(answer, list) and len(answer) == 4 and answer[0] == "raises"


def references_levelled(value: Any) -> Any:
    """Give an answer in which every exception of a bad reference looks the same."""
    if raises(value):
        return ["raises", "reference"] if value[1] in REFERENCE_ERRORS else value
    if isinstance(value, list):
        return [references_levelled(inner) for inner in value]
    if isinstance(value, dict):
        return {key: references_levelled(inner) for key, inner in value.items()}
    return value


def keyed(rows: Any) -> dict[str, Any]:
    """Rows by their text: each once, in no order."""
    if not isinstance(rows, list):
        return {"": rows}
    return {json.dumps(row, sort_keys=True): row for row in rows}


class Site:
    """What is contested or damaged in an installation made by oracle_site.py."""

    def __init__(self, folder: Path, minor: int) -> None:
        self.folder = folder
        self.minor = minor
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="ascii"))
        self.keys: dict[str, set[str]] = {}  # key -> the metadata folders that may count as it
        self.unclosed: set[str] = set()  # metadata folders whose RECORD has a quote that is not closed
        self.marked: set[str] = set()  # metadata folders whose entry_points.txt has a byte order mark
        for entry in self.manifest["path"]:
            self._look_at((folder / entry).resolve())
        self.contested = {key for key, places in self.keys.items() if len(places) > 1}
        # whose metadata may give no name: import names then lead to the name of the folder
        odd = [d for d in self.manifest["distributions"] if any("metadata:" in trait for trait in d["traits"])]
        stems = [d["at"].rpartition("/")[2].rpartition(".")[0].partition("-")[0] for d in odd]
        self.unnamed = {normalise(name) for name in [*stems, *(d["name"] for d in odd)]}

    def _look_at(self, entry: Path) -> None:
        if entry.name.endswith(".egg"):
            self._note(str(entry), entry.name.partition("-")[0])
        if entry.is_dir():
            for child in entry.iterdir():
                if child.name.lower().endswith(SUFFIXES):
                    self._look_into(child)
        elif zipfile.is_zipfile(entry):
            with zipfile.ZipFile(entry) as archive:
                for top in {name.partition("/")[0] for name in archive.namelist()}:
                    self._note(f"{entry}/{top}", top.rpartition(".")[0].partition("-")[0])

    def _look_into(self, info: Path) -> None:
        stem = info.name.rpartition(".")[0]
        names = {stem.partition("-")[0], stem, stem.lstrip("~").partition("-")[0]}
        undecodable = False
        for text in (info, info / "METADATA", info / "PKG-INFO"):
            if text.is_file():
                undecodable = undecodable or not is_utf8(text.read_bytes())
                headers = text.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n").partition("\n\n")[0]
                names.update(
                    re.findall(r"^name:[ \t]*(.*?)[ \t]*$", headers.replace("\r", "\n"), re.MULTILINE | re.IGNORECASE)
                )
        first = {normalise(name) for name in names}
        for name in names:
            self._note(str(info), name)
        if undecodable or len(first) > 2 or stem.startswith(("~", "-")) or not stem:
            # the folder's name and the metadata disagree: whoever asks by either name may get another answer
            for key in first:
                self.keys[key].add(f"{info} as another")
        points = info / "entry_points.txt"
        if points.is_file() and points.read_bytes().startswith(b"\xef\xbb\xbf"):
            self.marked.add(info.name)
        record = info / "RECORD"
        if record.is_file() and record.read_bytes().count(b'"') % 2:
            self.unclosed.add(info.name)

    def _note(self, place: str, name: str) -> None:
        self.keys.setdefault(normalise(name), set()).add(place)

    def unsettled(self, name: Any) -> bool:
        """Tell whether answers about this project may differ."""
        return name is None or normalise(str(name).strip()) in self.contested

    # ---- the rules

    def entry_for(self, difference: dict[str, Any]) -> str | None:
        """Name the documented entry that explains a difference; None for an unexplained one."""
        asked, first, second = difference["asked"], difference["reference"], difference["candidate"]
        if second == "(not there)":
            return self._hidden(asked)
        if first == "(not there)":
            return None
        if raises(first) and first[1] != "PackageNotFoundError" and first[1] != "KeyError":
            return self._mended(first, second)
        one = re.match(r"distributions\(path=\[.*\]\)\[(.*?)\]\.(.*)", asked)
        if one:
            return self._of_one(one[1], one[2], first, second)
        by_name = re.match(
            r"(?:version|requires|files|metadata|distribution)\((.*)\)'*$|distributions\(name=(.*)\)", asked
        )
        if by_name:
            return self._by_name(asked, by_name[1] or by_name[2], first, second)
        return self._listing(asked, first, second)

    def _hidden(self, asked: str) -> str | None:
        name = re.match(r"distributions\(path=\[.*\]\)\[(.*?)\]\.", asked)
        stem = name[1].rpartition(".")[0] if name else "?"
        if stem.startswith(("~", "-")):
            return "interrupted-uninstall"
        if not stem:
            return "nameless-folder"
        if stem.startswith("dangling-"):
            return "dangling-link"
        return "two-versions" if normalise(stem.partition("-")[0]) in self.contested else None

    @staticmethod
    def _mended(first: list[Any], second: Any) -> str | None:
        if raises(second) and second[1] not in ("KeyError", "ValueError", "PackageNotFoundError"):
            return None
        for (kind, part), entry in BROKEN.items():
            if first[1] == kind and part in first[3]:
                return entry
        return None

    def _of_one(self, info: str, what: str, first: Any, second: Any) -> str | None:
        if raises(second):
            return None
        if what.startswith("entry_points"):
            if references_levelled(first) == references_levelled(second):
                return "bad-reference"
            more = keyed(references_levelled(second[1])).keys() >= keyed(references_levelled(first[1])).keys()
            if any(self.unsettled(self._name_of(row)) for row in first[1]):
                return "undecodable-byte"
            return "byte-order-mark" if more and info in self.marked else None
        if what == "files" and info in self.unclosed:
            return "open-quote"
        return self._files(first[1], second[1]) if what == "files" else None

    def _files(self, first: Any, second: Any) -> str | None:
        if not first or second is None or self.minor > 11:
            return None
        one, two = keyed(first), keyed(second)
        dropped = [one[key]["locate"] for key in one.keys() - two.keys()]
        gone = [raises(at) or not Path(at[1].replace("<site>", str(self.folder))).exists() for at in dropped]
        return "missing-files" if two.keys() <= one.keys() and all(gone) else None

    def _by_name(self, asked: str, shown: str, first: Any, second: Any) -> str | None:
        if raises(second) and second[1] != "PackageNotFoundError":
            return None
        name = ast.literal_eval(shown)
        if name.lower() == "dangling":
            return "dangling-link"
        if self.unsettled(name):
            return "query-key"
        if references_levelled(first) == references_levelled(second):
            return "bad-reference"
        if raises(first) or raises(second):
            return None
        if asked.startswith("files"):
            unclosed = any(normalise(name) == normalise(info.partition("-")[0]) for info in self.unclosed)
            return "open-quote" if unclosed else self._files(first[1], second[1])
        if asked.startswith("distribution(") and self._marked_row([["ok", name]]):
            return "byte-order-mark"
        return "same-folder" if keyed(first[1]) == keyed(second[1]) else None

    def _listing(self, asked: str, first: Any, second: Any) -> str | None:
        if raises(second):
            return "two-versions" if second[1] in ("KeyError", "ValueError") and self.contested else None
        if asked.startswith("packages_distributions"):
            return self._packages(first[1], second[1])
        if raises(first) or ".names" in asked or ".groups" in asked or " kind" in asked:
            return "two-versions" if self.contested else None  # the rows themselves are compared beside it
        if not isinstance(first[1], list):
            if references_levelled(first) == references_levelled(second):
                return "bad-reference"
            if "]['" in asked or ")['" in asked:
                return "order"  # the first of a name
            rows = [answer[1] for answer in (first, second) if isinstance(answer[1], dict)]
            return "two-versions" if any(self.unsettled(self._name_of(row)) for row in rows) else None
        one, two = keyed(references_levelled(first[1])), keyed(references_levelled(second[1]))
        if one == two:
            return "bad-reference" if len(first[1]) == len(second[1]) else "same-folder"
        changed = [one.get(key) or two[key] for key in one.keys() ^ two.keys()]
        return (
            "two-versions"
            if all(self.unsettled(self._name_of(row)) or self._marked_row(row) for row in changed)
            else None
        )

    @staticmethod
    def _name_of(row: Any) -> Any:
        if isinstance(row, dict):  # an entry point
            dist = row["dist"][1]
            return dist[0] if isinstance(dist, list) else None
        return row[0][1] if row[0][0] == "ok" else None  # a distribution: [["ok", name], ["ok", version]]

    def _marked_row(self, row: Any) -> bool:
        name = self._name_of(row)
        return any(normalise(str(name)) == normalise(info.partition("-")[0]) for info in self.marked)

    def _packages(self, first: Any, second: Any) -> str | None:
        def settled(rows: Any) -> dict[str, set[str]]:
            out = {}
            for name, owners in rows:
                kept = {owner for owner in owners if not self.unsettled(owner) and normalise(owner) not in self.unnamed}
                if kept:
                    out[name] = kept
            return out

        one, two = settled(first), settled(second)
        if one == two:
            return "unnamed-in-packages"
        fewer = all(owners <= one.get(name, set()) for name, owners in two.items())
        return "missing-files" if self.minor == 11 and fewer else None
