"""Run in a child process: random metadata files, asked with and without `install()`; prints what differs.

    strict_fuzz.py MODULE FOLDER SEED ROUNDS

MODULE is importlib.metadata or importlib_metadata; FOLDER must not exist. The last line is `compared raised different`.
"""

from __future__ import annotations

import importlib
import pathlib
import random
import re
import shutil
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import vplug_rs

if TYPE_CHECKING:
    from collections.abc import Callable

metadata: Any = importlib.import_module(sys.argv[1])

# Pieces separated by blanks; `~` stands for a blank and escapes are as in Python.
_PIECES = {
    "METADATA": r"""Name:~a Name:b name:~~c~ Version:~1 Version: Version:\n~2 ~more \tmore \n \n\n body From~x
        Content-Type:~multipart/mixed;~boundary=x MIME-Version:~1.0 no~colon :~x X~y:~z Requires-Dist:~r
        Requires-Dist:~s\n~~~~~~~~t \r\n \r \x0b \x0c \x1c \x85 \u2028 \xe9 \x00 --x Keywords:~a,b \ufeff >From~x
        Description:~d Summary:~|x""",
    "RECORD": r"""p/__init__.py,, p/a.py,sha256=x,1 q.py,, q.pyc,, q.so,, r.pth,, ../../bin/s,, /abs.py,, 'x',,
        "a,b.py",, "a""b",, "open" a.py a.py,b a,b,c,d a,,x ,, p//c.py,, ./d.py,, \n \r\n \r ~,, \xe9.py,,
        .py,, p/.,, p/..,, \x0c
        a\\b.py,, n.py,h,007 t.py,,+5 w.py,,1_0 dir/,, x.tar.gz,, p.dist-info/RECORD,,""",
    "entry_points.txt": r"""[g] [~h~] [[i]] [] [j [k]~x a~=~b a=b:c~[d] =x y= bare ;~c #~c [l]~=~m [n]~=~o~[p] \n
        \r\n \r \t~a~=~b \x0c \x1c \x85 \u2028 \xe9~=~f \xa0a~=~b\xa0 \ufeff[g] a~==~b a:~b x~=~y~#~z \x00~=~n""",
    "top_level.txt": r"p q~r \n \t \xe9 p \x1c \u3000 \x0b",
    "PKG-INFO": r"Name:~e\n Version:~9\n \n x",
    "installed-files.txt": r"../p/a.py \n PKG-INFO",
    "SOURCES.txt": r"p/a.py \n setup.py a,b.py",
    "requires.txt": r"x [e] y>1 \n [e:z] u~@~http://v",
}
PIECES = {
    file: [piece.encode().decode("unicode_escape").replace("~", " ") for piece in pieces.split()]
    for file, pieces in _PIECES.items()
}
FOLDERS = (
    "a-1.dist-info", "B_b-2.dist-info", "c.egg-info", "-x.dist-info", "D-1.DIST-INFO", "e.e-1.dist-info",
    "a-3.dist-info",
)  # fmt: skip
EXISTING = ("p/__init__.py", "p/a.py", "q.py", "q.pyc", "q.so", "r.pth", "a.py", "a,b.py", "d.py")


def words(value: Any) -> Any:
    if isinstance(value, metadata.EntryPoint):
        return value.name, value.value, value.group, str(value.dist._path)
    if isinstance(value, metadata.PackagePath):
        return str(value), repr(value.hash), value.size
    if isinstance(value, metadata.Distribution):
        return str(value._path)
    if hasattr(value, "get_all"):
        parts = value.items(), value._payload, value.defects, value.get_content_type(), sorted(vars(value))
        return re.sub(" at 0x[0-9a-f]+", "", repr(parts))
    if isinstance(value, dict):
        return [(words(key), words(dict.__getitem__(value, key))) for key in dict.keys(value)]
    if isinstance(value, list | tuple):
        return type(value).__name__, [words(item) for item in value]
    return repr(value)


def one(call: Callable[[], Any]) -> Any:
    try:
        return words(call())
    except Exception as error:
        return "raised", type(error).__name__, str(error)


def ask() -> list[Any]:
    calls: list[Callable[[], Any]] = [
        metadata.entry_points,
        partial(metadata.entry_points, group="g"),
        partial(metadata.entry_points, name="a"),
        metadata.packages_distributions,
        lambda: list(metadata.distributions()),
    ]
    for name in ("a", "b-b", "c", "e-e", "x", "nonsuch"):
        calls += [partial(metadata.version, name), partial(metadata.distribution, name)]
    for dist in metadata.distributions():
        for attribute in ("_normalized_name", "name", "version", "requires", "files", "entry_points", "metadata"):
            calls.append(partial(getattr, dist, attribute))
    return [one(call) for call in calls]


def fill(site: pathlib.Path, rng: random.Random) -> None:
    for old in site.glob("*-*"):
        shutil.rmtree(old)
    for folder in rng.sample(FOLDERS, rng.randint(1, 3)):
        (site / folder).mkdir()
        for file, pieces in PIECES.items():
            if rng.random() < 0.3:
                continue
            ends = ("\n", "\n", "\n", "", "\r\n")
            text = "".join(rng.choice(pieces) + rng.choice(ends) for _ in range(rng.randint(0, 6)))
            if file == "METADATA" and rng.random() < 0.7:
                text = "Name: n\nVersion: 1\n" + text
            data = text.encode() + (b"\xe9" if rng.random() < 0.03 else b"")
            (site / folder / file).write_bytes(data)


def main() -> None:
    warnings.simplefilter("ignore")
    site, rng, rounds = pathlib.Path(sys.argv[2]), random.Random(int(sys.argv[3])), int(sys.argv[4])
    for name in EXISTING:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("")
    sys.path.insert(0, str(site))
    compared = raised = different = 0
    for _ in range(rounds):
        fill(site, rng)
        metadata.FastPath.__new__.cache_clear()
        genuine = ask()
        undo = vplug_rs.install()
        mine = ask()
        undo()
        compared += len(genuine)
        raised += sum(type(answer) is tuple and answer[0] == "raised" for answer in genuine)
        wrong = [pair for pair in zip(genuine, mine, strict=True) if pair[0] != pair[1]]
        different += len(wrong)
        if wrong:
            print(ascii(wrong[0]), {str(file): file.read_bytes() for file in site.glob("*-*/*")})
    print(compared, raised, different)


if __name__ == "__main__":
    main()
