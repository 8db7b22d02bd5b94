"""What the genuine functions must look like before we stand in for them.

A function's shape is the set of names that its code reads, nested code included. It is the same from 3.11 to 3.14
and in every release of the back-port as long as the function does the same thing. A shape that is not listed (a
later release, a distributor's patch, a mock) means: leave alone whatever relies on that function.
"""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_OS_ERRORS = "FileNotFoundError IsADirectoryError KeyError NotADirectoryError PermissionError"
_PARSE = "PackagePath FileHash csv dist hash int list pass_none reader size starmap _read_files_distinfo"
_MAPPING = "_top_level_declared _top_level_inferred append collections defaultdict dict distributions list metadata"
_LOOKUP = "legacy_normalize list lower normalize os partition path root rpartition"
_FIND = "PackageNotFoundError StopIteration ValueError discover next"

_SHAPES: dict[str, tuple[str, ...]] = {
    "distribution": ("Distribution from_name",),
    "distributions": ("Distribution discover",),
    "entry_points": (
        "SelectableGroups _unique chain distributions entry_points from_iterable itertools load select",
        "EntryPoints _unique chain distributions entry_points from_iterable itertools select",
    ),
    "packages_distributions": (_MAPPING,),
    "version": ("distribution version",),
    "_top_level_declared": ("read_text split",),
    "_top_level_inferred": (
        "always_iterable files len name parts suffix with_suffix",
        "always_iterable files filter getmodulename inspect len parts pass_none",
        "_get_toplevel_name always_iterable files filter map set",
    ),
    "Distribution._discover_resolvers": ("filter getattr meta_path sys",),
    "Distribution._read_dist_info_reqs": ("get_all metadata",),
    "Distribution._read_files_distinfo": ("read_text splitlines",),
    "Distribution.discover": (
        "Context DistributionFinder ValueError _discover_resolvers chain from_iterable itertools pop",
        "Context DistributionFinder ValueError _discover_resolvers chain from_iterable itertools",
    ),
    "Distribution.entry_points": ("EntryPoints _from_text_for read_text",),
    "Distribution.files": (
        _PARSE + " _read_files_egginfo",
        _PARSE + " _read_files_egginfo_installed _read_files_egginfo_sources exists filter locate",
    ),
    "Distribution.from_name": (_FIND, _FIND + " iter"),
    "Distribution.metadata": (
        "Message _adapters email message_from_string read_text",
        "Message _adapters cast email message_from_string read_text str",
    ),
    "Distribution.name": ("metadata",),
    "Distribution.requires": ("_read_dist_info_reqs _read_egg_info_reqs list",),
    "Distribution.version": ("metadata",),
    "EntryPoint.__init__": ("update vars",),
    "EntryPoint._for": ("update vars",),
    "EntryPoints._from_text": ("EntryPoint Sectioned name section_pairs value",),
    "EntryPoints._from_text_for": ("_for _from_text",),
    "FastPath.children": ("Exception listdir os root suppress zip_children",),
    "FastPath.joinpath": ("Path pathlib root",),
    "FastPath.mtime": ("OSError cache_clear lookup os root st_mtime stat suppress",),
    "FastPath.search": ("lookup mtime search",),
    "FileHash.__init__": ("mode partition value",),
    "Lookup.__init__": (
        "FreezableDefaultDict Prepared append basename children eggs endswith freeze infos joinpath " + _LOOKUP,
    ),
    "Lookup.search": ("chain eggs from_iterable infos itertools legacy_normalized normalized values",),
    "MetadataPathFinder._search_paths": ("FastPath Prepared chain from_iterable itertools map search",),
    "MetadataPathFinder.find_distributions": ("PathDistribution _search_paths map name path",),
    "PathDistribution.__init__": ("_path",),
    "PathDistribution._has_metadata": ("_path exists is_file joinpath",),
    "PathDistribution._name_from_stem": ("os partition path splitext",),
    "PathDistribution._normalized_name": (
        "Prepared _name_from_stem _normalized_name _path basename normalize os pass_none path str super",
    ),
    "PathDistribution.locate_file": ("_path parent",),
    "PathDistribution.read_text": (_OS_ERRORS + " _path joinpath read_text suppress",),
    "Prepared.__init__": ("legacy_normalize legacy_normalized name normalize normalized",),
    "Prepared.normalize": ("lower re replace sub",),
    "Sectioned.read": ("Pair endswith filter map splitlines startswith str strip",),
    "Sectioned.section_pairs": ("Pair _replace name parse read valid value",),
    "Sectioned.valid": ("startswith",),
}

# What every replacement of a group relies on, besides the function that it stands in for.
FOLDER = ("PathDistribution.__init__", "PathDistribution.read_text", "PathDistribution.locate_file")
LISTING = (
    "FastPath.search", "FastPath.children", "FastPath.joinpath", "FastPath.mtime",
    "Lookup.__init__", "Lookup.search", "Prepared.__init__", "Prepared.normalize",
)  # fmt: skip
OFFER = (
    "EntryPoint.__init__", "EntryPoint._for", "EntryPoints._from_text", "EntryPoints._from_text_for",
    "Sectioned.read", "Sectioned.section_pairs", "Sectioned.valid", "Distribution.entry_points",
)  # fmt: skip
DISCOVERY = (
    "Distribution.discover", "Distribution._discover_resolvers", "Distribution.from_name", "distributions",
    "distribution", "MetadataPathFinder.find_distributions", "MetadataPathFinder._search_paths",
)  # fmt: skip


def function_of(module: ModuleType, name: str) -> FunctionType | None:
    """The plain function called `name` in a genuine module: below property, classmethod and decorators.

    Args:
        module: The metadata module.
        name: `function` or `Class.function`.

    Returns:
        The innermost function, if it was written in this module; otherwise `None`.
    """
    holder, _, attribute = name.rpartition(".")
    namespace: Any = vars(module)
    if holder:
        namespace = getattr(namespace.get(holder), "__dict__", {})
    found = namespace.get(attribute)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, classmethod | staticmethod):
        found = found.__func__
    while type(found) is FunctionType and "__wrapped__" in vars(found):
        found = vars(found)["__wrapped__"]
    if type(found) is FunctionType and found.__globals__ is vars(module):
        return found
    return None


def is_known(module: ModuleType, names: Iterable[str]) -> bool:
    """Whether each of the functions has one of the shapes that the replacements were written against.

    Args:
        module: The metadata module.
        names: As for `function_of`.
    """
    for name in names:
        function = function_of(module, name)
        if function is None:
            return False
        read = names_in(function.__code__) - {""}  # `from . import x` reads a module without a name
        if all(read != set(shape.split()) for shape in _SHAPES[name]):
            return False
    return True


def names_in(code: CodeType) -> set[str]:
    """The names that a piece of code reads, with those of the code nested in it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if type(constant) is CodeType:
            names |= names_in(constant)
    return names
