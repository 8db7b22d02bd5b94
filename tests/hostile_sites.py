"""Installations that somebody broke, or made to break us: one row for each, with the diagnostics it must leave.

Beside each lies the healthy distribution `sane`, whose answers must come out whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sites import Fifo, Link, Node, Socket, Sparse, Tree, Unreadable, dist, metadata

MIB = 1024 * 1024
HUGE = 100 * MIB
POINTS = "[g]\na = m:f\n"
LATIN = "caf\xe9".encode("latin-1")
SANE: Tree = {**dist("sane", "1.0", "[g]\nok = sane:f\n", RECORD="sane.py,,\n"), "sane.py": ""}


@dataclass(frozen=True)
class Hostile:
    """A folder `site` (with `sane` in it) and what else stands on the path.

    Attributes:
        site: further content of the folder `site`.
        beside: further content of the folder that holds `site`.
        path: expressions of the path entries; {here} is the folder that holds `site`.
        codes: diagnostics of which at least one must be left (none need be when empty).
        heavy: takes seconds; asked in one environment only, and of the genuine module in the long form only.
        blocks: the genuine module hangs on it, takes minutes or eats all memory, so that it is no oracle here.
    """

    site: Tree = field(default_factory=dict)
    beside: Tree = field(default_factory=dict)
    path: tuple[str, ...] = ("'{here}/site'",)
    codes: tuple[str, ...] = ()
    blocks: bool = False
    heavy: bool = False
    names: tuple[str, ...] = ()


def _info(name: str = "odd-1.0.dist-info", **files: Node) -> dict[str, Node]:
    tree: dict[str, Node] = {"METADATA": metadata("odd", "1.0"), "entry_points.txt": POINTS}
    tree.update({key.replace("_txt", ".txt"): node for key, node in files.items()})
    return {name: tree}


def _entry(*expressions: str, codes: tuple[str, ...] = ()) -> Hostile:
    return Hostile(path=(*expressions, "'{here}/site'"), codes=codes)


RECORDS: dict[str, str | bytes] = {
    "parents": "../../bin/tool,,\n../up.py,,\n..,,\nsane.py/../../..,,\n",
    "absolute": "/etc/passwd,,\n//x,,\n/,,\n",
    "huge name": "x" * 5000 + "/" + "y" * 300 + ".py,,\n",
    "nul": b"a\x00b.py,,\n",
    "empty path": ",,\n,sha256=x,1\n",
    "blank lines": "a.py,,\n\n\nb.py,,\n",
    "too many columns": "a.py,sha256=x,1,2,3\n",
    "bad size": "a.py,sha256=x,twelve\nb.py,,-5\nc.py,,99999999999999999999999\nd.py,,\u0663\ne.py,,1_0\n",
    "bad hash": "a.py,md5only,3\nb.py,=,\nc.py,sha256=,\nd.py,=x=y,\n",
    "open quote": '"a.py,,\nb.py,,\n',
    "odd quotes": 'a"b.py,,\n"c""d.py",,\n"e.py"f,,\n"g\nh.py",,\n',
    "field over csv's limit": "a.py,sha256=" + "A" * 140_000 + ",1\n",
    "lone carriage returns": b"a.py,,\rb.py,,\r\r\nc.py,,\r\n",
    "latin-1": LATIN + b".py,,\n",
}

TOP_LEVELS: dict[str, Node] = {
    "parents": "../x\n..\n/abs\n",
    "one huge word": "w" * 100_000,
    "latin-1": LATIN,
    "nul": b"a\x00b\n",
    "a folder": {},
    "socket": Socket(),
    "link to itself": Link("top_level.txt"),
}

FOLDER_NAMES = {
    "suffix alone": (".dist-info", ("folder-nameless",)),
    "egg suffix alone": (".egg-info", ("folder-nameless",)),
    "dash alone": ("-.dist-info", ()),
    "dash and version": ("-1.0.dist-info", ()),
    "dash first": ("-dd-1.0.dist-info", ("folder-interrupted-uninstall", "folder-nameless")),
    "tilde": ("~dd-1.0.dist-info", ("folder-interrupted-uninstall",)),
    "tilde alone": ("~.dist-info", ("folder-interrupted-uninstall", "folder-nameless")),
    "dots": ("...dist-info", ()),
    "blank": (" .dist-info", ()),
    "line break": ("a\nb-1.0.dist-info", ()),
    "not utf-8": ("caf\udce9-1.0.dist-info", ()),
    "longest": ("x" * 245 + ".dist-info", ()),
    "letters that grow": ("\u0130X-1.0.dist-info", ()),
    "kelvin": ("\u212a-1.0.DIST-INFO", ()),
    "no name but two dashes": ("--1.0.dist-info", ()),
    "controls": ("a\x1b[31m\x07-1.0.dist-info", ()),
    "only a version": ("1.0.dist-info", ()),
}

CASES: dict[str, Hostile] = {
    # ---- the path
    "path: folder that cannot be listed": Hostile(
        beside={"closed": Unreadable(dist("hidden", "1.0", POINTS))},
        path=("'{here}/closed'", "'{here}/site'"),
        codes=("path-entry-unreadable",),
    ),
    "path: folder that can be listed, not entered": Hostile(
        beside={"half": Unreadable(dist("hidden", "1.0", POINTS), 0o444)}, path=("'{here}/half'", "'{here}/site'")
    ),
    "path: bytes": _entry("b'{here}/site'", codes=("path-entry-not-a-string",)),
    "path: int": _entry("3", codes=("path-entry-not-a-string",)),
    "path: None": _entry("None", codes=("path-entry-not-a-string",)),
    "path: list": _entry("['x']", codes=("path-entry-not-a-string",)),
    "path: float and object": _entry("1.5", "object", codes=("path-entry-not-a-string",)),
    "path: Path": _entry("Path('{here}/site')"),
    "path: NUL": _entry("'/tmp/a\\0b'"),
    "path: surrogate": _entry("'/tmp/caf\\udce9'", "'/tmp/\\ud800'"),
    "path: too long": _entry("'/' + 'x' * 5000", "'/' + 'y/' * 5000"),
    "path: link to itself": Hostile(beside={"loop": Link("loop")}, path=("'{here}/loop'", "'{here}/site'")),
    "path: pipe": Hostile(beside={"pipe": Fifo()}, path=("'{here}/pipe'", "'{here}/site'"), blocks=True),
    "path: socket": Hostile(beside={"sock": Socket()}, path=("'{here}/sock'", "'{here}/site'")),
    "path: device": _entry("'/dev/null'"),
    "path: endless device": Hostile(path=("'/dev/zero'", "'{here}/site'"), blocks=True),
    "path: broken zip": Hostile(beside={"b.zip": b"PK\x03\x04 broken"}, path=("'{here}/b.zip'", "'{here}/site'")),
    "path: 100 MB of nothing": Hostile(beside={"b.zip": Sparse(HUGE)}, path=("'{here}/b.zip'", "'{here}/site'")),
    "path: relative, with dots": _entry("'.'", "'./site/../site'", "'..'", "'nowhere'"),
    "path: the same a hundred times": Hostile(path=("'{here}/site'",) * 100),
    "path: two thousand missing folders": Hostile(
        path=(*(f"'{{here}}/no{i}'" for i in range(2000)), "'{here}/site'"), heavy=True
    ),
    "path: placeholder of a hook": _entry("'__editable__.pkg-1.0.finder.__path_hook__'"),
    "path: egg that is a text": Hostile(beside={"x-1.egg": "no zip"}, path=("'{here}/x-1.egg'", "'{here}/site'")),
    "path: egg with an odd inside": Hostile(
        beside={"x-1.egg": {"EGG-INFO": {"PKG-INFO": LATIN, "entry_points.txt": LATIN}}},
        path=("'{here}/x-1.egg'", "'{here}/site'"),
    ),
    "path: egg whose inside is a pipe": Hostile(
        beside={"x-1.egg": {"EGG-INFO": {"PKG-INFO": Fifo(), "entry_points.txt": Fifo()}}},
        path=("'{here}/x-1.egg'", "'{here}/site'"),
        blocks=True,
    ),
    # ---- the metadata folder itself
    "info: cannot be entered": Hostile(
        {"odd-1.0.dist-info": Unreadable({"METADATA": metadata("odd", "1.0"), "entry_points.txt": POINTS})},
        codes=("entry-points-unreadable", "metadata-unreadable"),
    ),
    "info: dangling link": Hostile({"odd-1.0.dist-info": Link("nowhere")}, codes=("folder-dangling-link",)),
    "info: link to itself": Hostile({"odd-1.0.dist-info": Link("odd-1.0.dist-info")}),
    "info: link to its own folder": Hostile({"odd-1.0.dist-info": Link("."), "up-1.0.dist-info": Link("..")}),
    "info: forty links deep": Hostile(
        {
            "odd-1.0.dist-info": Link("l0"),
            **{f"l{i}": Link(f"l{i + 1}") for i in range(60)},
            "l60": {"METADATA": "Name: odd\n"},
        }
    ),
    "info: text file": Hostile({"odd-1.0.dist-info": "Name: odd\n"}),
    "info: pipe": Hostile({"odd-1.0.dist-info": Fifo(), "even-1.0.egg-info": Fifo()}, blocks=True),
    "info: socket": Hostile({"odd-1.0.dist-info": Socket(), "even-1.0.egg-info": Socket()}),
    "info: endless device": Hostile({"even-1.0.egg-info": Link("/dev/zero")}, blocks=True),
    "info: 100 MB file": Hostile(
        {"even-1.0.egg-info": Sparse(HUGE, b"Name: even\nVersion: 1\n\n")},
        codes=("metadata-too-large",),
        blocks=True,
        heavy=True,
    ),
    "info: empty folder": Hostile({"odd-1.0.dist-info": {}}, codes=("metadata-missing",)),
    # ---- entry_points.txt
    "points: cannot be read": Hostile(_info(entry_points_txt=Unreadable(POINTS)), codes=("entry-points-unreadable",)),
    "points: latin-1": Hostile(_info(entry_points_txt=LATIN), codes=("entry-points-not-utf8",)),
    "points: utf-16": Hostile(_info(entry_points_txt=POINTS.encode("utf-16")), codes=("entry-points-not-utf8",)),
    "points: NUL": Hostile(_info(entry_points_txt=b"[g]\n\x00\x00 = x\x00:y\n")),
    "points: no equals sign": Hostile(
        _info(entry_points_txt="[g]\nword\n"), codes=("entry-points-line-without-equals",)
    ),
    "points: 100 MB of nothing": Hostile(
        _info(entry_points_txt=Sparse(HUGE, b"[g]\na = m:f\n")), codes=("entry-points-too-large",), heavy=True
    ),
    "points: a million comments": Hostile(
        _info(entry_points_txt="[g]\n" + "# c\n" * 1_000_000 + "a = m:f\n"), heavy=True
    ),
    "points: a million bad lines": Hostile(
        _info(entry_points_txt="[g]\n" + "b\n" * 1_000_000), codes=("entry-points-line-without-equals",), heavy=True
    ),
    "points: a million groups": Hostile(_info(entry_points_txt="[g]\n[h]\n" * 500_000 + "a = m:f\n"), heavy=True),
    "points: one line of a megabyte": Hostile(_info(entry_points_txt="[g]\na = " + "m" * MIB + "\n")),
    "points: pipe": Hostile(_info(entry_points_txt=Fifo()), codes=("entry-points-not-a-file",), blocks=True),
    "points: socket": Hostile(
        _info(entry_points_txt=Socket()), codes=("entry-points-not-a-file", "entry-points-unreadable")
    ),
    "points: folder": Hostile(_info(entry_points_txt={})),
    "points: dangling link": Hostile(_info(entry_points_txt=Link("nowhere"))),
    "points: link to itself": Hostile(
        _info(entry_points_txt=Link("entry_points.txt")), codes=("entry-points-unreadable",)
    ),
    "points: endless device": Hostile(
        _info(entry_points_txt=Link("/dev/zero")), codes=("entry-points-not-a-file",), blocks=True
    ),
    "points: bad references": Hostile(
        _info(entry_points_txt="[g]\na = not-a-module!!\nb =\n= c\n=\nd = a:b:c\ne = [x\n"),
        codes=("entry-points-bad-reference",),
    ),
    "points: strange line ends": Hostile(_info(entry_points_txt="[g]\x0b\x0ca = b\x85c = d\u2028e\x1cf = g\r\r\n")),
    # ---- METADATA
    "metadata: cannot be read": Hostile(_info(METADATA=Unreadable("Name: odd\n")), codes=("metadata-unreadable",)),
    "metadata: latin-1": Hostile(
        _info(METADATA=b"Name: odd\nVersion: 1\nAuthor: " + LATIN + b"\n"), codes=("metadata-not-utf8",)
    ),
    "metadata: latin-1 name": Hostile(_info(METADATA=b"Name: " + LATIN + b"\n"), codes=("metadata-not-utf8",)),
    "metadata: 0xff first": Hostile(_info(METADATA=b"\xff\xfe"), codes=("metadata-not-utf8",)),
    "metadata: NUL": Hostile(_info(METADATA=b"Name: o\x00dd\nVersion: \x00\n")),
    "metadata: empty": Hostile(_info(METADATA="")),
    "metadata: no colon anywhere": Hostile(_info(METADATA="word\n" * 10)),
    "metadata: continuation first": Hostile(_info(METADATA=" x: y\n\tz\nName: odd\n")),
    "metadata: a hundred thousand headers": Hostile(
        _info(METADATA="Name: odd\nVersion: 1\n" + "C: x\n" * 100_000), blocks=True, heavy=True
    ),
    "metadata: a body of a million lines": Hostile(
        _info(METADATA="Name: odd\nVersion: 1\n\n" + "C: x\n" * 1_000_000), blocks=True, heavy=True
    ),
    "metadata: 100 MB": Hostile(
        _info(METADATA=Sparse(HUGE, b"Name: odd\nVersion: 1\n\n")),
        codes=("metadata-too-large",),
        blocks=True,
        heavy=True,
    ),
    "metadata: pipe": Hostile(_info(METADATA=Fifo()), codes=("metadata-unreadable", "metadata-missing"), blocks=True),
    "metadata: socket": Hostile(_info(METADATA=Socket()), codes=("metadata-unreadable", "metadata-missing")),
    "metadata: folder": Hostile(_info(METADATA={})),
    "metadata: link to itself": Hostile(_info(METADATA=Link("METADATA")), codes=("metadata-unreadable",)),
    "metadata: endless device": Hostile(_info(METADATA=Link("/dev/zero")), blocks=True),
    "metadata: odd content type": Hostile(
        _info(
            METADATA="Name: odd\nVersion: 1\nContent-Type: multipart/mixed; boundary=x\n"
            "Content-Transfer-Encoding: base64\n\n--x\n\nzz\n"
        )
    ),
    # ---- RECORD and its relatives
    "record: cannot be read": Hostile(_info(RECORD=Unreadable("a.py,,\n")), codes=("record-unreadable",)),
    "record: pipe": Hostile(_info(RECORD=Fifo()), codes=("record-unreadable",), blocks=True),
    "record: socket": Hostile(_info(RECORD=Socket()), codes=("record-unreadable",)),
    "record: folder": Hostile(_info(RECORD={})),
    "record: link to itself": Hostile(_info(RECORD=Link("RECORD")), codes=("record-unreadable",)),
    "record: endless device": Hostile(_info(RECORD=Link("/dev/zero")), blocks=True),
    "record: 100 MB": Hostile(
        _info(RECORD=Sparse(HUGE, b"a.py,,\n")), codes=("record-too-large", "record-malformed"), blocks=True, heavy=True
    ),
    "record: a million lines": Hostile(
        _info(RECORD="a.py,,\n" * 1_000_000), blocks=True, heavy=True
    ),  # genuine: minutes
    **{f"record: {what}": Hostile(_info(RECORD=text)) for what, text in RECORDS.items()},
    **{
        f"sources: {what}": Hostile({"odd.egg-info": {"PKG-INFO": "Name: odd\n", "SOURCES.txt": text}})
        for what, text in RECORDS.items()
    },
    **{
        f"installed-files: {what}": Hostile({"odd.egg-info": {"PKG-INFO": "Name: odd\n", "installed-files.txt": text}})
        for what, text in RECORDS.items()
    },
    **{f"top_level: {what}": Hostile(_info(top_level_txt=node)) for what, node in TOP_LEVELS.items()},
    "requires: odd": Hostile({"odd.egg-info": {"PKG-INFO": "Name: odd\n", "requires.txt": "[x:y:z]\n[\nq\n[]\n=\n"}}),
    "requires: latin-1": Hostile({"odd.egg-info": {"PKG-INFO": "Name: odd\n", "requires.txt": LATIN}}),
    # ---- names
    **{
        f"name: {what}": Hostile({stem: {"METADATA": metadata("odd", "1.0"), "entry_points.txt": POINTS}}, codes=codes)
        for what, (stem, codes) in FOLDER_NAMES.items()
    },
    **{
        f"name without metadata: {what}": Hostile({stem: {"entry_points.txt": POINTS}})
        for what, (stem, _) in FOLDER_NAMES.items()
    },
    "name: questions": Hostile(names=("", "-", ".", "a/b", "a\0b", "..", "x" * 100_000, "\udce9", "\u0130")),
}
