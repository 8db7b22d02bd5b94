"""Run in a child process: disturb the genuine importlib.metadata in many ways, and print what it answers then.

    strict_scenarios.py FOLDER [install]

FOLDER is empty and becomes the current directory. The parent runs this twice, with and without `install`, and compares
the two JSON objects {scenario: answers}; the standard library is the oracle, so nothing here knows what is right.
"""

from __future__ import annotations

import builtins
import contextlib
import csv  # noqa: F401 (imported late by the genuine code, when sys.path may be disturbed)
import importlib.machinery
import importlib.metadata
import io
import itertools
import json
import os
import pathlib
import pickle
import re
import sys
import types
import warnings
import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# ruff: noqa: PT008 (the stand-ins must be plain functions, as programs put them in)
metadata: Any = importlib.metadata  # its private parts are what is asked for

ENTRY_POINTS = (
    "[demo.plugins]\none = alpha.mod:run\ntwo = alpha.mod:other [x, y]\n[zeta]\none = alpha\n[other]\na = b\n"
)
RECORD = 'alpha/__init__.py,sha256=abc,10\nalpha/mod.py,,\ngone.py,,3\nalpha_ext.so,sha256=d,\n"a,b.py",,\n'


def make_site(folder: str) -> str:
    """A small site in which every kind of answer has something to say."""
    files = {
        "Alpha-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: Alpha\nVersion: 1.0\n"
        "Requires-Dist: x; extra == 'y'\nClassifier: A\nClassifier: B\nKeywords: a b\n\nbody\n\nmore\n",
        "Alpha-1.0.dist-info/entry_points.txt": ENTRY_POINTS,
        "Alpha-1.0.dist-info/RECORD": RECORD,
        "alpha/__init__.py": "",
        "alpha/mod.py": "",
        "alpha_ext.so": "",
        "a,b.py": "",
        "beta.egg-info/PKG-INFO": "Name: beta\nVersion: 2\nSummary: long\n        more\n",
        "beta.egg-info/top_level.txt": "beta\nbeta_too\n",
        "beta.egg-info/SOURCES.txt": "alpha/mod.py\nsetup.py\n",
        "beta.egg-info/requires.txt": "one\n[extra]\ntwo\n",
        "gamma-3.egg-info": "Name: gamma\nVersion: 3\n",
        "no_version-1.dist-info/METADATA": "Name: no-version\n",
        "no_name-1.dist-info/METADATA": "Version: 5\n",
        "no_name-1.dist-info/top_level.txt": "no_name\n",
        "empty-1.dist-info/INSTALLER": "pip\n",
        "Delta.X-1.dist-info/METADATA": "Name: Delta.X\nVersion: 1\n",
        "Delta.X-1.dist-info/entry_points.txt": "[demo.plugins]\nthree = delta\n",
        "odd-1.dist-info/METADATA": "Name: odd\nVersion: 1\nSummary: caf\u00e9\n\nna\u00efve\n",
        "odd-1.dist-info/entry_points.txt": "[demo.plugins]\n\u00e9 = odd:\u00fc\n",
    }
    site = os.path.join(folder, "site")
    for name, text in files.items():
        path = os.path.join(site, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    return site


def answer(call: Callable[[], Any]) -> Any:
    """What a call gives, in words: its value, or its exception, and the warnings with their places."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = words(call())
        except Exception as error:
            value = ["raised", *[cls.__name__ for cls in type(error).__mro__[:-2]], str(error)]
    places = [[w.category.__name__, str(w.message), os.path.basename(w.filename), w.lineno] for w in caught]
    return [value, places] if places else value


def words(value: Any) -> Any:
    """A value as JSON can hold it, with the types that a caller can see."""
    kind = type(value).__name__
    if isinstance(value, metadata.EntryPoint):
        dist = value.dist
        return [kind, *map(repr, (value.name, value.value, value.group)), list(vars(value)), dist and where(dist)]
    if isinstance(value, metadata.Distribution):
        return [kind, where(value)]
    if isinstance(value, metadata.PackagePath):
        return [
            kind,
            str(value),
            repr(value.hash),
            value.size,
            where(value.dist),
            str(value.locate()),
            hash(value) != 0,
        ]
    if hasattr(value, "get_all") and hasattr(value, "json"):
        return [kind, value.items(), value.get_payload(), sorted(vars(value)), repr(value.json), value.as_string()]
    if isinstance(value, dict):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [kind, [[words(key), words(dict.__getitem__(value, key))] for key in dict.keys(value)]]
    if isinstance(value, list | tuple | set):
        return [kind, [words(item) for item in (sorted(value) if isinstance(value, set) else value)]]
    return [kind, re.sub(r" at 0x[0-9a-f]+", "", repr(value))]


def where(dist: Any) -> str:
    """The path object of a distribution, class and all."""
    return repr(getattr(dist, "_path", None))


def everything() -> dict[str, Any]:
    """All questions."""
    found: list[Any] = []
    with contextlib.suppress(Exception):
        found = list(metadata.distributions())
    asked: dict[str, Callable[[], Any]] = {
        "listing": lambda: list(metadata.distributions()),
        "all": metadata.entry_points,
        "group": lambda: metadata.entry_points(group="demo.plugins"),
        "name": lambda: metadata.entry_points(name="one"),
        "both": lambda: metadata.entry_points(group="demo.plugins", name="one"),
        "neither": lambda: metadata.entry_points(group="", name="one"),
        "none": lambda: metadata.entry_points(group=None),
        "odd name": lambda: metadata.entry_points(name="\u00e9"),
        "value": lambda: metadata.entry_points(group="zeta", value="alpha"),
        "extras": lambda: metadata.entry_points(group="demo.plugins", extras=["x", "y"]),
        "unknown": lambda: metadata.entry_points(nonsuch=1),
        "group twice": lambda: [metadata.entry_points(group="demo.plugins") for _ in range(2)],
        "packages": metadata.packages_distributions,
        "on the class": lambda: [d._normalized_name for d in metadata.distributions(name="Alpha")],
    }
    for name in ("alpha", "Alpha", "beta", "gamma", "delta-x", "no.version", "no-name", "empty", "absent", "odd", ""):
        asked[f"version {name}"] = partial(metadata.version, name)
        asked[f"requires {name}"] = partial(metadata.requires, name)
        asked[f"files {name}"] = partial(metadata.files, name)
        asked[f"distribution {name}"] = partial(metadata.distribution, name)
    for number, dist in enumerate(found):
        for attribute in ("_normalized_name", "name", "version", "metadata", "entry_points", "files", "requires"):
            asked[f"{number} {attribute}"] = partial(getattr, dist, attribute)
    return {question: answer(call) for question, call in asked.items()}


SCENARIOS: dict[str, Callable[[str], contextlib.AbstractContextManager[Any]]] = {}


def scenario(make: Callable[[str], contextlib.AbstractContextManager[Any]]) -> Callable[..., Any]:
    SCENARIOS[make.__name__] = make
    return make


def paths(*entries: Any) -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(sys, "path", list(entries))


class Lies:
    """Stand-ins that change what is seen, so that an answer from behind them shows."""

    @staticmethod
    def listdir(path: str = ".") -> list[str]:
        return [name for name in LISTDIR(path) if not name.startswith("Alpha")]

    @staticmethod
    def stat(path: Any, **more: Any) -> os.stat_result:
        if "Alpha" in str(path) or "alpha" in str(path):
            raise FileNotFoundError(path)
        return STAT(path, **more)

    @staticmethod
    def open(file: Any, *more: Any, **named: Any) -> Any:
        if str(file).endswith(("METADATA", "PKG-INFO", "entry_points.txt")):
            return io.StringIO("Name: liar\nVersion: 99\n[demo.plugins]\nlie = liar\n[x]\n")
        return OPEN(file, *more, **named)

    @staticmethod
    def read_text(path: pathlib.Path, *_more: Any, **_named: Any) -> str:
        if path.name == "entry_points.txt":
            return "[demo.plugins]\nlie = liar\n"
        return "Name: liar\nVersion: 99\n"


LISTDIR, STAT, OPEN = os.listdir, os.stat, io.open


@scenario
def nothing(_site: str) -> Any:
    return contextlib.nullcontext()


@scenario
def listdir_replaced(_site: str) -> Any:
    return mock.patch("os.listdir", Lies.listdir)


@scenario
def stat_replaced(_site: str) -> Any:
    return mock.patch("os.stat", Lies.stat)


@scenario
def open_replaced(_site: str) -> Any:
    return mock.patch("io.open", Lies.open)


@scenario
def builtin_open_replaced(_site: str) -> Any:
    return mock.patch.object(builtins, "open", Lies.open)


@scenario
def path_read_text_replaced(_site: str) -> Any:
    return mock.patch.object(pathlib.Path, "read_text", Lies.read_text)


@scenario
def path_exists_replaced(_site: str) -> Any:
    return mock.patch.object(pathlib.Path, "exists", lambda _self, **_named: False)


@scenario
def path_joinpath_replaced(_site: str) -> Any:
    return mock.patch.object(pathlib.PurePath, "joinpath", lambda self, *_names: self / "METADATA")


@scenario
def module_pathlib_replaced(_site: str) -> Any:
    class Other:
        class Path(pathlib.PosixPath):
            pass

        PurePosixPath = pathlib.PurePosixPath

    return mock.patch.object(metadata, "pathlib", Other)


@scenario
def module_os_replaced(_site: str) -> Any:
    class Other:
        path, stat, listdir = os.path, Lies.stat, Lies.listdir

    return mock.patch.object(metadata, "os", Other)


@scenario
def distributions_replaced(_site: str) -> Any:
    genuine = metadata.distributions
    return mock.patch.object(metadata, "distributions", lambda **named: itertools.islice(genuine(**named), 2))


@scenario
def distribution_replaced(_site: str) -> Any:
    return mock.patch.object(metadata, "distribution", lambda _name: metadata.PathDistribution(pathlib.Path("beta")))


@scenario
def unique_replaced(_site: str) -> Any:
    return mock.patch.object(metadata, "_unique", lambda found: list(found) * 2)


@scenario
def from_name_replaced(_site: str) -> Any:
    stand_in = types.SimpleNamespace(version="7", metadata={"Name": "mock"}, files=None, requires=None)
    return mock.patch.object(metadata.Distribution, "from_name", lambda _name: stand_in)


@scenario
def discover_replaced(_site: str) -> Any:
    return mock.patch.object(metadata.Distribution, "discover", lambda **_named: iter(()))


@scenario
def read_text_replaced(_site: str) -> Any:
    return mock.patch.object(
        metadata.PathDistribution, "read_text", lambda _self, _name: "Name: liar\nVersion: 9\n[g]\nn = v\n"
    )


@scenario
def metadata_property_added(_site: str) -> Any:
    return mock.patch.object(
        metadata.PathDistribution, "metadata", property(lambda _self: {"Name": "n", "Version": "v"}), create=True
    )


@scenario
def version_property_added(_site: str) -> Any:
    return mock.patch.object(metadata.PathDistribution, "version", "7", create=True)


@scenario
def entry_points_property_added(_site: str) -> Any:
    return mock.patch.object(metadata.PathDistribution, "entry_points", (), create=True)


@scenario
def locate_file_replaced(_site: str) -> Any:
    return mock.patch.object(metadata.PathDistribution, "locate_file", lambda _self, _path: pathlib.Path("/"))


@scenario
def normalize_replaced(_site: str) -> Any:
    return mock.patch.object(metadata.Prepared, "normalize", staticmethod(lambda _name: "alpha"))


@scenario
def name_from_stem_replaced(_site: str) -> Any:
    return mock.patch.object(metadata.PathDistribution, "_name_from_stem", staticmethod(lambda _stem: "same"))


@scenario
def path_distribution_subclass(_site: str) -> Any:
    class Mine(metadata.PathDistribution):  # type: ignore[misc]
        @property
        def version(self) -> str:
            return "mine"

    return mock.patch.object(metadata, "PathDistribution", Mine)


@scenario
def entry_point_subclass(_site: str) -> Any:
    class Mine(metadata.EntryPoint):  # type: ignore[misc]
        pass

    return mock.patch.object(metadata, "EntryPoint", Mine)


@scenario
def entry_points_subclass(_site: str) -> Any:
    class Mine(metadata.EntryPoints):  # type: ignore[misc]
        def select(self, **params: Any) -> Any:
            return ("selected", sorted(params))

    return mock.patch.object(metadata, "EntryPoints", Mine)


@scenario
def entry_point_matches_replaced(_site: str) -> Any:
    return mock.patch.object(metadata.EntryPoint, "matches", lambda _self, **_params: False)


@scenario
def fast_path_children_replaced(_site: str) -> Any:
    return mock.patch.object(metadata.FastPath, "children", lambda _self: ["liar-1.dist-info"])


@scenario
def search_paths_replaced(_site: str) -> Any:
    return mock.patch.object(metadata.MetadataPathFinder, "_search_paths", lambda _name, _paths: [])


@scenario
def top_level_replaced(_site: str) -> Any:
    return mock.patch.object(metadata, "_top_level_declared", lambda _dist: ["same"])


@contextlib.contextmanager
def finders(*first: Any, keep: bool = True) -> Iterator[None]:
    with mock.patch.object(sys, "meta_path", [*first, *(sys.meta_path if keep else ())]):
        yield


class Finder:
    def __init__(self, find: Any) -> None:
        self.find_distributions = find

    def find_spec(self, *_asked: Any) -> None:
        return None


class Foreign(metadata.Distribution):  # type: ignore[misc]
    def read_text(self, filename: Any) -> str | None:
        texts = {"METADATA": "Name: alpha\nVersion: 77\n", "entry_points.txt": "[demo.plugins]\nforeign = f\n"}
        return texts.get(filename)

    def locate_file(self, path: Any) -> Any:
        return pathlib.Path(path)


@scenario
def foreign_finder_in_front(_site: str) -> Any:
    return finders(Finder(lambda _context: iter([Foreign()])))


@scenario
def finder_with_a_list(_site: str) -> Any:
    return finders(Finder(lambda _context: [Foreign()]))


@scenario
def finder_with_none(_site: str) -> Any:
    return finders(Finder(lambda _context: None))


@scenario
def finder_attribute_none(_site: str) -> Any:
    return finders(Finder(None))


@scenario
def finder_without_context(_site: str) -> Any:
    return finders(Finder(list))


@scenario
def finder_that_edits_the_context(site: str) -> Any:
    def find(context: Any) -> list[Any]:
        vars(context)["path"] = [os.path.join(site, "nowhere")]
        return []

    return finders(Finder(find))


@scenario
def no_finders(_site: str) -> Any:
    return finders(keep=False)


@scenario
def path_finder_twice(_site: str) -> Any:
    return finders(importlib.machinery.PathFinder)


@contextlib.contextmanager
def _without_method() -> Iterator[None]:
    finder: Any = importlib.machinery.PathFinder
    kept = vars(finder)["find_distributions"]
    del finder.find_distributions
    try:
        yield
    finally:
        finder.find_distributions = kept


@scenario
def path_finder_without_method(_site: str) -> Any:
    return _without_method()


@scenario
def path_finder_method_replaced(_site: str) -> Any:
    return mock.patch.object(importlib.machinery.PathFinder, "find_distributions", lambda *_a, **_n: iter([Foreign()]))


@contextlib.contextmanager
def _second_copy() -> Iterator[None]:
    kept = sys.modules.pop("importlib.metadata")
    second = importlib.import_module("importlib.metadata")

    try:
        assert second is not kept
        yield
    finally:
        sys.modules["importlib.metadata"] = kept


@scenario
def second_copy_of_the_module(_site: str) -> Any:
    return _second_copy()


@scenario
def path_tuple(site: str) -> Any:
    return mock.patch.object(sys, "path", (site,))


@scenario
def path_object(site: str) -> Any:
    return paths(pathlib.Path(site), site)


@scenario
def path_bytes(site: str) -> Any:
    return paths(site, os.fsencode(site))


@scenario
def path_number(site: str) -> Any:
    return paths(site, 3)


@scenario
def path_none(site: str) -> Any:
    return paths(None, site)


@scenario
def path_str_subclass(site: str) -> Any:
    return paths(type("Text", (str,), {})(site))


@scenario
def path_with_nul(site: str) -> Any:
    return paths(site, "a\0b")


@scenario
def path_with_surrogate(site: str) -> Any:
    return paths("/nonsuch\udcff", site)


@scenario
def path_spellings(site: str) -> Any:
    return paths(site + "/", site, site + "//", "site", "./site", site + "/../site", "nonsuch", __file__, "/dev/null")


@contextlib.contextmanager
def _inside(site: str) -> Iterator[None]:
    with contextlib.chdir(site), paths("", ".", "/nonsuch"):
        yield


@scenario
def path_here(site: str) -> Any:
    return _inside(site)


@scenario
def path_linked(site: str) -> Any:
    twin = site + "-twin"
    os.symlink(site, twin)
    return paths(site, twin)


@scenario
def path_non_ascii(site: str) -> Any:
    twin = site + "-\u00e9"
    os.symlink(site, twin)
    return paths(twin)


@scenario
def path_undecodable(site: str) -> Any:
    twin = site + "-\udce9"
    os.symlink(site, twin)
    return paths(twin)


@scenario
def path_egg(site: str) -> Any:
    egg = os.path.join(os.path.dirname(site), "My_Egg-1.egg")
    os.makedirs(os.path.join(egg, "EGG-INFO"))
    with open(os.path.join(egg, "EGG-INFO", "PKG-INFO"), "w", encoding="utf-8") as stream:
        stream.write("Name: My_Egg\nVersion: 1\n")
    return paths(egg, site)


@scenario
def path_archive(site: str) -> Any:
    archive = os.path.join(os.path.dirname(site), "archive.zip")
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("zipped-1.dist-info/METADATA", "Name: zipped\nVersion: 1\n")
        stream.writestr("zipped-1.dist-info/entry_points.txt", "[demo.plugins]\nz = zipped\n")
        stream.writestr("zipped-1.dist-info/RECORD", "zipped.py,,\n")
        stream.writestr("zipped.py", "")
    return paths(site, archive)


@scenario
def path_empty(_site: str) -> Any:
    return paths()


def arguments(site: str) -> dict[str, Any]:
    """Odd arguments, lazy results and objects handed in: what does not fit `everything`."""
    text = type("Text", (str,), {})
    info = pathlib.Path(site, "Alpha-1.0.dist-info")
    named = metadata.PathDistribution(info)
    named.read_text = lambda _name: "Name: own\nVersion: own\n"
    subclass = type("Mine", (metadata.PathDistribution,), {"read_text": lambda _s, _n: "Name: sub\nVersion: sub\n"})
    context = metadata.DistributionFinder.Context
    calls: dict[str, Callable[[], Any]] = {
        f"{function.__name__} {name!r}": partial(function, name)
        for function in (metadata.version, metadata.distribution, metadata.files, metadata.metadata)
        for name in (None, 1, b"alpha", text("alpha"), "\u0130X", "al\0pha", "\udcff", "-", "a" * 300)
    }
    calls |= {
        "keyword": lambda: metadata.version(distribution_name="alpha"),
        "too many": lambda: metadata.version("alpha", "beta"),
        "positional": lambda: metadata.entry_points("demo.plugins"),
        "text group": lambda: metadata.entry_points(group=text("demo.plugins")),
        "class group": lambda: metadata.entry_points(group=int),
        "own attribute": lambda: (named.name, named.version, list(named.entry_points)),
        "subclass": lambda: (subclass(info).name, subclass(info).version, subclass(info).files),
        "string path": lambda: metadata.PathDistribution(str(info)).version,
        "at": lambda: metadata.Distribution.at(info).metadata,
        "at a relative path": lambda: metadata.Distribution.at("site/Alpha-1.0.dist-info").files,
        "at nothing": lambda: metadata.Distribution.at("nonsuch").entry_points,
        "by path": lambda: list(metadata.distributions(path=[site])),
        "by iterator": lambda: list(metadata.distributions(path=iter([site, site]))),
        "by name and path": lambda: list(metadata.distributions(name="beta", path=[site])),
        "by empty name": lambda: list(metadata.distributions(name="", path=[site])),
        "by odd name": lambda: list(metadata.distributions(name="\u00e9", path=[site])),
        "by context": lambda: list(metadata.distributions(context=context(name="alpha", path=[site]))),
        "context and more": lambda: list(metadata.distributions(context=context(), name="x")),
        "by number": lambda: list(metadata.distributions(name=1)),
        "finder": lambda: list(metadata.MetadataPathFinder.find_distributions(context(path=[site]))),
        "finder without context": lambda: len(list(metadata.MetadataPathFinder.find_distributions())) > 0,
        "search": lambda: list(metadata.MetadataPathFinder._search_paths("Alpha", [site])),
        "lazy types": lambda: (
            type(metadata.distributions()).__name__,
            type(metadata.MetadataPathFinder.find_distributions()).__name__,
            type(metadata.MetadataPathFinder._search_paths(None, [])).__name__,
        ),
        "same dist": lambda: len({id(point.dist) for point in metadata.entry_points(group="demo.plugins")}),
        "pickles": lambda: [
            pickle.loads(pickle.dumps(point, protocol)) == point
            for point in metadata.entry_points(group="demo.plugins")
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ],
        "pickled files": lambda: pickle.dumps(metadata.files("alpha")) == pickle.dumps(metadata.files("alpha")),
        "equal to made": lambda: metadata.entry_points(name="two")["two"]
        == metadata.EntryPoint("two", "alpha.mod:other [x, y]", "demo.plugins"),
        "immutable": lambda: setattr(metadata.entry_points(name="two")["two"], "x", 1),
        "paths behave": lambda: [
            (str(path.parent), path.suffix, path.stem, path.parts, path / "x" == type(path)(str(path) + "/x"))
            for path in metadata.files("alpha") or ()
        ],
        "files read": lambda: [path.read_text() for path in metadata.files("alpha") or () if path.suffix == ".py"],
    }  # fmt: skip
    return {question: answer(call) for question, call in calls.items()}


def main() -> None:
    folder = os.path.realpath(sys.argv[1])
    os.chdir(folder)
    site = make_site(folder)
    if "install" in sys.argv:
        import vplug_rs

        vplug_rs.install()
    sys.path.insert(0, site)
    result = {"arguments": arguments(site)}
    for name, make in SCENARIOS.items():
        # the standard would go on showing what a scenario before this one has put into its cache of listings
        metadata.FastPath.__new__.cache_clear()
        with make(site):
            result[name] = everything()
    result["nothing, again"] = everything()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
