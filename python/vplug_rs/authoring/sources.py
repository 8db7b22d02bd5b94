"""The Python sources of one plugin, found by looking at files and parsed; nothing is imported.

In: the folders that its packages lie in. Out: modules with their syntax trees, or why there is none.
"""

from __future__ import annotations

import ast
import os
import stat
import warnings
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES

from vplug_rs.authoring.names import at_import, bindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOST_BYTES = 4 * 1024 * 1024  # far above any source that somebody wrote
MOST_FILES = 2000
Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_TESTS = frozenset({"test", "tests"})
MOST_STEPS = 8  # of a name through `from ... import`


class Missing:
    """There is no such module among the sources. `near` is the part that was not found."""

    def __init__(self, near: str) -> None:
        self.near = near


class Unknown:
    """The module is there, or may be, but cannot be looked into.

    Attributes:
        reason: Why.
        path: The file that is to blame, or None.
        folders: Where its submodules are.
    """

    def __init__(self, reason: str, path: str | None = None, folders: Sequence[str] = ()) -> None:
        self.reason, self.path, self.folders = reason, path, folders


class Module:
    """A parsed source.

    Attributes:
        name: Its dotted name.
        path: Its file.
        package: Where its relative imports start.
        tree: Its syntax tree.
        folders: Where its submodules are.
    """

    def __init__(self, name: str, path: str, tree: ast.Module, *, is_package: bool) -> None:
        self.name, self.path, self.tree = name, path, tree
        self.package = name if is_package else name.rpartition(".")[0]
        self.folders: Sequence[str] = [os.path.dirname(path)] if is_package else []

    def absolute(self, node: ast.ImportFrom) -> str:
        """The full name of the module that an import names."""
        if not node.level:
            return node.module or ""
        parts = self.package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])


def read(path: str) -> ast.Module | str:
    """Parse a file; the reason where that cannot be done."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            return "it is not a regular file"
        if found.st_size > MOST_BYTES:
            return f"it has {found.st_size} bytes; at most {MOST_BYTES} are read"
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES)
        with warnings.catch_warnings():  # invalid escapes are the author's own affair
            warnings.simplefilter("ignore")
            return ast.parse(text, path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (SyntaxError, ValueError) as error:
        return f"it cannot be parsed: {error}"
    except (RecursionError, MemoryError):
        return "it is nested too deeply"


class Sources:
    """All modules below some folders."""

    def __init__(self, roots: Sequence[str], own: Collection[str] | None = None) -> None:
        self.roots = list(dict.fromkeys(roots))
        self._own = own  # the plugin's top-level names, where others lie in the same folders
        self._known: dict[str, Module | Missing | Unknown] = {}

    def has(self, top: str) -> bool:
        """Whether a top-level module lies in one of the folders."""
        return not isinstance(self.find(top), Missing)

    def find(self, name: str) -> Module | Missing | Unknown:
        """One module, by its dotted name."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def tops(self) -> list[str]:
        """The names of the top-level modules and packages."""
        found = set()
        for root in self.roots:
            for child in _children(root):
                stem = child.removesuffix(".py")
                if stem.isidentifier() and (stem != child or os.path.isdir(os.path.join(root, child))):
                    found.add(stem)
        return sorted(found)

    def _find(self, name: str) -> Module | Missing | Unknown:
        above, _, last = name.rpartition(".")
        if not above:
            if self._own is not None and last not in self._own:
                return Missing(name)
            found = _step(last, self.roots)
            return self._outcome(name, found, self.roots)
        parent = self.find(above)
        if isinstance(parent, Missing) or (isinstance(parent, Unknown) and not parent.folders):
            return parent
        folders = parent.folders
        found = _step(last, folders)
        here = found is not None or any(os.path.isdir(os.path.join(folder, last)) for folder in folders)
        if not here and (isinstance(parent, Unknown) or _is_dynamic(parent.tree)):
            return Unknown(f"`{above}` may have parts elsewhere")
        return self._outcome(name, found, folders)

    def _outcome(self, name: str, found: str | None, places: Sequence[str]) -> Module | Missing | Unknown:
        if found is not None:
            return self._parse(name, found)
        last = name.rpartition(".")[2]
        portions = [path for place in places if os.path.isdir(path := os.path.join(place, last))]
        return Unknown("it is a folder without `__init__`", folders=portions) if portions else Missing(name)

    def _parse(self, name: str, path: str) -> Module | Unknown:
        if not path.endswith(".py"):
            return Unknown("it is no Python source")
        tree = read(path)
        if isinstance(tree, str):
            return Unknown(tree, path)
        return Module(name, path, tree, is_package=os.path.basename(path) == "__init__.py")

    def all_of(self, top: str) -> list[Module | Unknown]:
        """All sources of a top-level module or package but its tests, at most `MOST_FILES`."""
        names: dict[str, None] = {top: None}
        for root in self.roots:
            for folder, below, files in os.walk(os.path.join(root, top)):
                below[:] = sorted(each for each in below if each.isidentifier() and each not in _TESTS)
                package = os.path.relpath(folder, root).replace(os.sep, ".")
                stems = [each.removesuffix(".py") for each in sorted(files) if each.endswith(".py")]
                names |= {package if stem == "__init__" else f"{package}.{stem}": None for stem in stems}
        found = (self.find(name) for name in list(names)[:MOST_FILES])
        result = [each for each in found if isinstance(each, Module) or (isinstance(each, Unknown) and each.path)]
        if len(names) > MOST_FILES:
            result.append(Unknown(f"it has {len(names)} sources, of which the first {MOST_FILES} were read", top))
        return result

    def loaded_with(self, name: str) -> list[Module]:
        """The modules of these sources that certainly run when one is imported, its parents and itself among them."""
        found: dict[str, Module] = {}
        waiting = [name]
        while waiting:
            wanted = waiting.pop()
            parts = wanted.split(".")
            for end in range(1, len(parts) + 1):
                module = self.find(".".join(parts[:end]))
                if not isinstance(module, Module) or module.name in found:
                    continue
                found[module.name] = module
                for node in at_import(module.tree):
                    if isinstance(node, ast.Import):
                        waiting += [alias.name for alias in node.names]
                    elif isinstance(node, ast.ImportFrom):
                        base = module.absolute(node)
                        waiting += [base, *(f"{base}.{name}" for name in self._submodules(base, node))]
        return list(found.values())

    def _submodules(self, base: str, node: ast.ImportFrom) -> list[str]:
        """What `from base import name` imports: a package's own name comes before a module of that name in it."""
        package = self.find(base)
        bound = bindings(package.tree) if isinstance(package, Module) else {}
        names = [alias.name for alias in node.names]
        return [] if {"__getattr__", "*"} & bound.keys() else [name for name in names if name not in bound]

    def resolve(self, module: Module, name: str) -> tuple[Module, Defined] | None:
        """The definition of a name, followed through `from ... import`; None where it is none that can be seen."""
        for _ in range(MOST_STEPS):
            bound = bindings(module.tree).get(name, [])
            if len(bound) != 1:
                return None
            node = bound[0]
            if isinstance(node, Defined):
                return module, node
            if not isinstance(node, ast.ImportFrom):
                return None
            original = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
            target = self.find(module.absolute(node))
            if not isinstance(target, Module):
                return None
            module, name = target, original
        return None


def _step(part: str, places: Sequence[str]) -> str | None:
    """The file of one component, by the rules of the import system."""
    for place in places:
        stem = os.path.join(place, part)
        for path in (os.path.join(stem, "__init__.py"), stem + ".py"):
            if os.path.isfile(path):
                return path
        for suffix in (*EXTENSION_SUFFIXES, *BYTECODE_SUFFIXES):
            if os.path.isfile(stem + suffix):
                return stem + suffix
    return None


def _is_dynamic(tree: ast.Module) -> bool:
    """Whether a package may have submodules that are no files of its folder."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return bool(names & {"__path__"}) or any(
        isinstance(node, ast.Attribute) and node.attr == "modules" for node in ast.walk(tree)
    )


def _children(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # a folder that the project only speaks of
        return []
