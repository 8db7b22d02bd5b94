#!/usr/bin/env python3
"""A long-lived process that answers every question about a path, one JSON line for each JSON line it gets.

    serve.py MODULE [--install] [--obey-modes] [-- IMPORT_FOLDER ...]

A request: `path` (Python expressions of the sys.path entries), `names` (to ask for), `short` (entry points and
distributions only), `cwd`.  The reply: `answers` ([question, ["ok", value] or ["raises", type, text]]), and for
vplug_rs.metadata `diagnostics`.  --install calls vplug_rs.install() first.  --obey-modes gives up root's right to read
files whose mode forbids it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import pathlib
import re
import sys
import warnings
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TEXTS = ("METADATA", "PKG-INFO", "RECORD", "entry_points.txt", "top_level.txt", "no-such-file", "")
LONG = 10_000


class ImportOnly:
    """Finds modules, but no distributions, on the path as it was before."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Give what the usual machinery finds on the old path."""
        return PathFinder.find_spec(fullname, self.paths if path is None else path, target)


def obey_modes() -> None:
    """Give up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH; raises OSError where that cannot be done."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    for i in range(3):  # effective, permitted, inheritable
        data[i] &= ~0b110 & 0xFFFFFFFF
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")


def ask(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Call, and give the value or what was raised; a panic is told apart by its word."""
    try:
        return ["ok", function(*arguments)]
    except Exception as exc:
        return ["raises", type(exc).__name__, str(exc)]
    except BaseException as exc:
        return ["panics", type(exc).__name__, str(exc)]


def brief(text: Any) -> Any:
    """A long text as its length and hash."""
    if not isinstance(text, str):
        return text
    if len(text) < LONG:
        return re.sub(r"\bat 0x[0-9a-f]+", "at 0x", text)  # of an object that got into a message
    return [len(text), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()]


def origin(point: Any) -> list[Any] | None:
    """Name and version of the distribution that an entry point came with."""
    return None if point.dist is None else [point.dist.name, point.dist.version]


def points(found: Any) -> list[Any]:
    """Entry points as lists, with the distribution's name and version."""
    if isinstance(found, dict):  # by group, as up to Python 3.11
        found = [point for group in found.values() for point in group]
    return [[brief(p.name), brief(p.value), brief(p.group), brief(repr(p)), ask(origin, p)] for p in found]


def digest(path: Any) -> list[Any] | None:
    """The hash that RECORD gives for a file."""
    return path.hash and [path.hash.mode, path.hash.value]


def size(path: Any) -> Any:
    """The size that RECORD gives for a file."""
    return path.size


def located(path: Any) -> Any:
    """Where a file lies."""
    return brief(str(path.locate()))


def files(found: Iterable[Any] | None) -> list[Any] | None:
    """The number of files, and of each (of the first hundred, when there are very many) everything that hangs on it."""
    if found is None:
        return None
    every = list(found)
    looked_at = every if len(every) < LONG else every[:100]
    return [len(every), *([brief(str(p)), ask(digest, p), ask(size, p), ask(located, p)] for p in looked_at)]


def message(found: Any) -> list[Any]:
    """Headers and body, with the JSON form."""
    headers = [[brief(key), brief(str(value))] for key, value in found.items()]
    if len(headers) > LONG:
        return [len(headers), headers[:100]]
    return [
        headers,
        ask(lambda: brief(str(found.get_payload()))),
        ask(lambda: brief(json.dumps(found.json, default=str))),
    ]


def name_of(d: Any) -> Any:
    """The name that a distribution gives itself."""
    return d.name


def version_of(d: Any) -> Any:
    """The version that a distribution gives itself."""
    return d.version


def text_of(d: Any, name: str) -> Any:
    """A file of the metadata folder."""
    return brief(d.read_text(name))


def one(d: Any) -> list[Any]:
    """Everything that one distribution can be asked."""
    return [
        ask(lambda: str(d._path)),
        ask(name_of, d),
        ask(version_of, d),
        ask(lambda: message(d.metadata)),
        ask(lambda: points(d.entry_points)),
        ask(lambda: files(d.files)),
        ask(lambda: d.requires),
        *(ask(text_of, d, text) for text in TEXTS),
        ask(lambda: str(d.locate_file("some/file.py"))),
        ask(lambda: d._normalized_name),
    ]


def answers(md: Any, names: list[str], *, short: bool) -> list[list[Any]]:
    """Ask all questions in a fixed order."""
    out: list[list[Any]] = []

    def note(question: str, function: Callable[..., Any], *arguments: Any) -> None:
        out.append([question, ask(function, *arguments)])

    note("entry_points()", lambda: points(md.entry_points()))
    note("distributions()", lambda: [[ask(name_of, d), ask(version_of, d)] for d in md.distributions()])
    if short:
        return out
    note("entry_points(group='g')", lambda: points(md.entry_points(group="g")))
    note("entry_points(group='g', name='a')", lambda: points(md.entry_points(group="g", name="a")))
    note("each distribution", lambda: [one(d) for d in md.distributions()])
    note("packages_distributions()", lambda: list(dict(md.packages_distributions()).items()))
    for name in names:
        shown = repr(name) if len(name) < 100 else f"a name of {len(name)}"
        note(f"version({shown})", md.version, name)
        note(f"distribution({shown})", lambda n: one(md.distribution(n)), name)
        note(f"distributions(name={shown})", lambda n: [str(d._path) for d in md.distributions(name=n)], name)
        note(f"metadata({shown})", lambda n: message(md.metadata(n)), name)
        note(f"requires({shown})", md.requires, name)
        note(f"files({shown})", lambda n: files(md.files(n)), name)
    note("entry_points() again", lambda: points(md.entry_points()))
    return out


def main() -> None:
    """Serve until the input ends."""
    module, *rest = sys.argv[1:]
    options, folders = (rest[: rest.index("--")], rest[rest.index("--") + 1 :]) if "--" in rest else (rest, [])
    sys.path[:0] = folders
    if "--install" in options:
        importlib.import_module("vplug_rs").install()
    warnings.simplefilter("ignore")
    md = importlib.import_module(module)
    sys.meta_path.insert(0, ImportOnly(list(sys.path)))
    if "--obey-modes" in options:
        obey_modes()
    ours = sys.modules.get("vplug_rs") if module.startswith("vplug_rs") else None
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("cwd"):
            with contextlib.suppress(FileNotFoundError):
                os.chdir(request["cwd"])
        if request.get("remove"):  # a current folder that is gone
            os.rmdir(request["remove"])
        sys.path[:] = [eval(entry, {"Path": pathlib.Path}) for entry in request["path"]]
        reply: dict[str, Any] = {"answers": answers(md, request.get("names", []), short=request.get("short", False))}
        if ours is not None:
            found = ours.diagnostics()
            reply["count"] = len(found)
            reply["diagnostics"] = [
                [d.code, d.severity, d.path, d.line, d.distribution, d.message, d.advice] for d in found[:LONG]
            ]
        if request.get("cwd"):
            os.chdir("/")
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
