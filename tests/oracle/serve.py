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
import sys
import warnings
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
        from importlib.machinery import PathFinder

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


def ask(function: Callable[[], Any]) -> list[Any]:
    """Call, and give the value or what was raised; a panic is told apart by its type's name."""
    try:
        return ["ok", function()]
    except Exception as exc:  # noqa: BLE001
        return ["raises", type(exc).__name__, str(exc)]
    except BaseException as exc:  # noqa: BLE001
        return ["panics", type(exc).__name__, str(exc)]


def brief(text: Any) -> Any:
    """A long text as its length and hash."""
    if not isinstance(text, str) or len(text) < LONG:
        return text
    return [len(text), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()]


def points(found: Any) -> list[Any]:
    """Entry points as lists, with the distribution's name and version."""
    if isinstance(found, dict):  # by group, as up to Python 3.11
        found = [point for group in found.values() for point in group]
    return [[brief(p.name), brief(p.value), brief(p.group), brief(repr(p)), None if p.dist is None else ask(lambda p=p: [p.dist.name, p.dist.version])] for p in found]


def files(found: Iterable[Any] | None) -> list[Any] | None:
    """File lists with everything that hangs on each file."""
    if found is None:
        return None
    rows: list[Any] = [len(list(found))]
    for p in found if rows[0] < LONG else list(found)[:100]:
        rows.append([brief(str(p)), ask(lambda p=p: p.hash and [p.hash.mode, p.hash.value]), ask(lambda p=p: p.size), ask(lambda p=p: brief(str(p.locate())))])
    return rows


def message(found: Any) -> list[Any]:
    """Headers and body, with the JSON form."""
    headers = [[brief(key), brief(str(value))] for key, value in found.items()]
    if len(headers) > LONG:
        return [len(headers), headers[:100]]
    return [headers, ask(lambda: brief(str(found.get_payload()))), ask(lambda: brief(json.dumps(found.json)))]


def one(d: Any) -> list[Any]:
    """Everything that one distribution can be asked."""
    return [
        ask(lambda: str(d._path)),
        ask(lambda: d.name),
        ask(lambda: d.version),
        ask(lambda: message(d.metadata)),
        ask(lambda: points(d.entry_points)),
        ask(lambda: files(d.files)),
        ask(lambda: d.requires),
        *(ask(lambda text=text: brief(d.read_text(text))) for text in TEXTS),
        ask(lambda: str(d.locate_file("some/file.py"))),
        ask(lambda: d._normalized_name),
    ]


def answers(md: Any, names: list[str], *, short: bool) -> list[list[Any]]:
    """Ask all questions in a fixed order."""
    out: list[list[Any]] = []

    def note(question: str, function: Callable[[], Any]) -> None:
        out.append([question, ask(function)])

    note("entry_points()", lambda: points(md.entry_points()))
    note("distributions()", lambda: [[ask(lambda d=d: d.name), ask(lambda d=d: d.version)] for d in md.distributions()])
    if short:
        return out
    note("entry_points(group='g')", lambda: points(md.entry_points(group="g")))
    note("entry_points(group='g', name='a')", lambda: points(md.entry_points(group="g", name="a")))
    note("each distribution", lambda: [one(d) for d in md.distributions()])
    note("packages_distributions()", lambda: list(dict(md.packages_distributions()).items()))
    for name in names:
        note(f"version({name!r})", lambda name=name: md.version(name))
        note(f"distribution({name!r})", lambda name=name: one(md.distribution(name)))
        note(f"distributions(name={name!r})", lambda name=name: [str(d._path) for d in md.distributions(name=name)])
        note(f"metadata({name!r})", lambda name=name: message(md.metadata(name)))
        note(f"requires({name!r})", lambda name=name: md.requires(name))
        note(f"files({name!r})", lambda name=name: files(md.files(name)))
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
            reply["diagnostics"] = [[d.code, d.severity, d.path, d.line, d.distribution, d.message, d.advice] for d in found[:LONG]]
        if request.get("cwd"):
            os.chdir("/")
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
