"""The step-aside rules: is everything that the genuine code would use still the genuine thing?

Programs and their tests rebind names in `importlib.metadata`, fake the file system, add finders. Each replacement asks
here first, each time, and runs the genuine code on a no. A check looks only at what its replacement stands for, since
it is paid at every call.
"""

from __future__ import annotations

import _io
import builtins
import io
import os
import pathlib
import posix
import sys
from operator import attrgetter, itemgetter
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Probe = tuple[Callable[[Any], tuple[Any, ...]], Any, tuple[Any, ...]]

_PATH = "joinpath parent read_text open exists stat"
# concern -> holder -> names. A class is asked through its bases, so that a name added to a subclass shows; with a
# colon behind it, what is stored in itself (class methods are bound anew at each look-up). "" is the module.
_CONCERNS: dict[str, dict[str, str]] = {
    "files": {"os:": "listdir stat", "io:": "open BytesIO", "builtins:": "open map", "PosixPath": _PATH},
    "folder": {"PathDistribution": "__init__ read_text"},
    "header": {"PathDistribution": "metadata name version"},
    "name": {"PathDistribution": "_normalized_name _name_from_stem", "Prepared": "normalize __init__"},
    "offer": {
        "": "EntryPoint EntryPoints Sectioned Pair",
        "PathDistribution": "entry_points",
        "EntryPoint": "__init__ __setattr__ _for matches",
        "EntryPoints": "__init__ select _from_text",
        "EntryPoints:": "_from_text_for select",
        "Sectioned:": "section_pairs read valid",
    },
    "record": {
        "": "PackagePath FileHash",
        "PathDistribution": "files locate_file _read_files_distinfo",
        "PackagePath": "__init__ locate",
        "FileHash": "__init__ __new__",
    },
    "requires": {"PathDistribution": "requires _read_dist_info_reqs"},
    "listing": {
        "": "os pathlib FastPath Lookup Prepared",
        "FastPath": "__init__ search children zip_children joinpath mtime",
        "Lookup": "__init__ search",
        "Prepared": "__init__ normalize legacy_normalize",
    },
    "discovery": {
        "": "Distribution DistributionFinder MetadataPathFinder PathDistribution distribution distributions _unique",
        "Distribution:": "from_name discover _discover_resolvers",
        "DistributionFinder:": "Context find_distributions",
        "MetadataPathFinder:": "find_distributions _search_paths",
    },
    "inferred": {"": "_top_level_declared _top_level_inferred always_iterable"},
}
_MODULES = ("os", "pathlib", "re", "email", "functools", "itertools", "operator", "collections")


class Guard:
    """Remembers a genuine module as it was found.

    Args:
        module: The metadata module, executed.

    Raises:
        LookupError: A name that must be there is missing, or already replaced.
    """

    __slots__ = ("_module", "_name")

    def __init__(self, module: ModuleType) -> None:
        space = vars(module)
        for name in _MODULES:
            if type(space[name]) is not ModuleType or space[name] is not sys.modules.get(name):
                raise LookupError(name)
        if (os.listdir, os.stat) != (posix.listdir, posix.stat) or {io.open, builtins.open} != {_io.open}:
            raise LookupError("open")
        if not pathlib.PosixPath.__module__.startswith("pathlib"):
            raise LookupError("PosixPath")
        self._module = module
        self._name = module.__name__

    def check(self, *concerns: str) -> Callable[[], bool]:
        """A function that says whether nothing of these concerns has been rebound since."""
        names: dict[str, dict[str, None]] = {}
        for concern in concerns:
            for holder, words in _CONCERNS[concern].items():
                names.setdefault(holder, {}).update(dict.fromkeys(words.split()))
        probes = tuple(self._probe(holder, tuple(found)) for holder, found in names.items())

        def intact() -> bool:
            try:
                for getter, holder, expected in probes:
                    if getter(holder) != expected:
                        return False
            except (AttributeError, KeyError):  # a name was deleted
                return False
            return True

        return intact

    def _probe(self, holder: str, names: tuple[str, ...]) -> Probe:
        known: dict[str, Any] = {
            "": self._module, "os": os, "io": io, "builtins": builtins, "PosixPath": pathlib.PosixPath,
        }  # fmt: skip
        bare = holder.removesuffix(":")
        owner = known[bare] if bare in known else vars(self._module)[bare]
        if holder == bare and bare:
            resolve = attrgetter(*names)
            return resolve, owner, resolve(owner)
        stored = itemgetter(*names)
        return stored, vars(owner), stored(vars(owner))

    def alone(self) -> bool:
        """Whether `PathFinder`, with the interpreter's own method, is the one finder of distributions on the path.

        Also that its method, which looks the module up by name, will find this one and not a second copy.
        """
        legs = 0
        for finder in sys.meta_path:
            found = getattr(finder, "find_distributions", None)
            if found:
                if found is not _LEG:
                    return False
                legs += 1
        return legs == 1 and sys.modules.get(self._name) is self._module


def search_path() -> list[str] | None:
    """`sys.path` if it is a plain list of plain strings that the system could take, otherwise `None`."""
    path = sys.path
    if type(path) is list and set(map(type, path)) == {str} and "\0" not in "".join(path):
        return path
    return None


def _path_finder_method() -> Any:
    import _frozen_importlib_external as external

    found = getattr(external.PathFinder, "find_distributions", None)
    # The back-port deletes it: then there is no leg that we could answer.
    return found if getattr(found, "__module__", "") == "_frozen_importlib_external" else object()


_LEG = _path_finder_method()
