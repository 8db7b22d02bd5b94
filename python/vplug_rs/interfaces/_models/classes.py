"""Whether a class is defined at the top level of a module, read from its source."""

from __future__ import annotations

import ast
import difflib
import warnings

from vplug_rs.interfaces._models.errors import ModelReferenceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

CLASS, FUNCTION, OTHER = "class", "function", "other"


def source(spec: ModuleSpec) -> str | None:
    """The source of a module, or None where it has none that can be read.

    Raises:
        SyntaxError: it is in another encoding than it says.
    """
    read = getattr(spec.loader, "get_source", None)
    try:
        text = None if read is None else read(spec.name)
    except UnicodeDecodeError as error:
        raise SyntaxError(str(error)) from error
    except (ImportError, OSError):  # not there any more, or not ours to read: the import will tell
        return None
    return text if isinstance(text, str) else None


def check(subject: str, spec: ModuleSpec, module: str, name: str) -> str:
    """What cannot be told about the class, in one sentence; empty if it is there.

    Raises:
        ModelReferenceError: the module has no such class, or is no Python.
    """
    where = spec.origin or module
    try:
        text = source(spec)
        if text is None:
            return f"`{where}` has no source that can be read, so whether it defines `{name}` is not known"
        with warnings.catch_warnings():  # its own warnings are for its import
            warnings.simplefilter("ignore")
            tree = ast.parse(text, where)
    except (SyntaxError, ValueError) as error:  # ValueError: NUL bytes, on 3.11
        line = getattr(error, "lineno", None)
        at = f"{where}:{line}" if line else where
        raise ModelReferenceError(
            f"{subject}: `{at}` is no valid Python: {getattr(error, 'msg', error)}", hint="Mend the module."
        ) from error
    except (RecursionError, MemoryError):
        return f"`{where}` is nested too deeply to be read, so whether it defines `{name}` is not known"
    names = _Names()
    names.visit(tree)
    kind = names.found.get(name)
    if kind == FUNCTION:
        raise ModelReferenceError(
            f"{subject}: `{name}` in `{where}:{names.lines[name]}` is a function", hint="Name the class itself."
        )
    if kind is not None:
        return ""
    if names.doubt:
        return f"`{where}` {names.doubt}, so whether it defines `{name}` is not known"
    known = [one for one, what in names.found.items() if what == CLASS]
    near = difflib.get_close_matches(name, known, 1)
    hint = f"Did you mean `{module}:{near[0]}`?" if near else f"Define `class {name}` at the top level of that file."
    raise ModelReferenceError(f"{subject}: `{where}` defines no `{name}` at its top level", hint=hint)


class _Names(ast.NodeVisitor):
    """What the statements of a module bind, those under `if`, `try`, `with` and loops included."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.lines: dict[str, int] = {}
        self.doubt = ""

    def _bind(self, name: str, kind: str, line: int) -> None:
        self.found[name], self.lines[name] = kind, line

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # the visitor's own names
        self._bind(node.name, CLASS, node.lineno)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # one that is decorated may be anything
        self._bind(node.name, OTHER if node.decorator_list else FUNCTION, node.lineno)
        if node.name == "__getattr__":
            self.doubt = "makes names when they are asked for (`__getattr__`)"
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global):
                for name in inner.names:
                    self.found.setdefault(name, OTHER)
            elif isinstance(inner, ast.Name) and inner.id in {"exec", "globals"}:
                self.doubt = f"makes names by `{inner.id}`"

    def visit_If(self, node: ast.If) -> None:
        if getattr(node.test, "attr", getattr(node.test, "id", "")) == "TYPE_CHECKING":
            for statement in node.orelse:  # the rest is for type checkers alone
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Nothing in it is bound here."""

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.doubt = f"has `from {'.' * getattr(node, 'level', 0)}{getattr(node, 'module', '') or ''} import *`"
            else:
                self._bind(alias.asname or alias.name.partition(".")[0], OTHER, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.visit_Import(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bind(node.id, OTHER, node.lineno)
        elif node.id in {"exec", "globals", "setattr", "vars"}:
            self.doubt = f"makes names by `{node.id}`"
