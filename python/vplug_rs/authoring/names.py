"""What names mean in a syntax tree, and what of it certainly runs when the module is imported."""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vplug_rs.authoring.sources import Module

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# what may run, or runs later
_UNSURE = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Match,
    ast.IfExp,
    ast.BoolOp,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.ExceptHandler,
)
# by which a module may get names that its text does not show
_HIDDEN = frozenset({"__getattr__", "globals", "exec", "vars", "setattr"})


# The walks keep a stack of their own: a source may be nested deeper than Python calls may be.


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield each node that is certainly reached when the module is imported, in the order of the text."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        below: list[ast.AST] = []
        if isinstance(node, Function):
            below += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, (ast.Try, ast.TryStar)):
            below += [*node.body, *node.finalbody]
        elif not isinstance(node, _UNSURE):
            yield node
            below += ast.iter_child_nodes(node)
        waiting += reversed(below)


def inside(tree: ast.AST, *, tried: bool = True, classes: bool = False) -> Iterator[ast.AST]:
    """Yield each node of a body, those of functions in it left out, in the order of the text.

    Args:
        tree: The function, module or statement.
        tried: Also what stands in the body of a `try` with handlers.
        classes: Also what stands in classes.
    """
    left_out = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, *([] if classes else [ast.ClassDef]))
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node is not tree:
            yield node
        below = list(ast.iter_child_nodes(node))
        if not tried and isinstance(node, (ast.Try, ast.TryStar)) and node.handlers:
            below = [*node.handlers, *node.orelse, *node.finalbody]
        waiting += [child for child in reversed(below) if not isinstance(child, left_out)]


def bindings(tree: ast.Module) -> dict[str, list[ast.AST]]:
    """What each name of a module is bound by. Names of functions and classes hide what is inside them."""
    found: dict[str, list[ast.AST]] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            for name in _bound(child):
                found.setdefault(name, []).append(node if isinstance(child, ast.Name) else child)
            if not isinstance(child, _DEFINITIONS):
                waiting.append(child)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                found.setdefault(name, []).append(node)
    return found


def _bound(node: ast.AST) -> list[str]:
    """The names that a node binds by itself."""
    if isinstance(node, _DEFINITIONS):
        return [node.name]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return [node.id]
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        return [node.name]
    return []


def defines(tree: ast.Module, name: str) -> bool:
    """Whether a module has a name; True where only running it would tell."""
    bound = bindings(tree)
    if name in bound or "*" in bound or "__getattr__" in bound:
        return True
    text = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    text |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return bool(text & (_HIDDEN | {"modules", "__dict__"}))


def aliases(module: Module, function: Function | None = None) -> dict[str, str]:
    """What imported names stand for, in full, in a module or in one of its functions.

    A name that is bound by anything else too is left out, but for `None` where an import failed.
    """
    found = _imported(module, bindings(module.tree))
    if function is not None:
        local = bindings(ast.Module(function.body, []))
        arguments = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
        declared = {name for node in inside(function) if isinstance(node, ast.Global) for name in node.names}
        found = {
            name: full for name, full in found.items() if name not in arguments and name not in local.keys() - declared
        }
        found |= _imported(module, local)
    return found


def _imported(module: Module, bound: Mapping[str, list[ast.AST]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, nodes in bound.items():
        meanings = {_meaning(module, name, node) for node in nodes if not _is_none(node)}
        if len(meanings) == 1 and (full := meanings.pop()):
            found[name] = full
    return found


def _meaning(module: Module, name: str, node: ast.AST) -> str:
    """What an import binds a name to; empty for anything else."""
    if isinstance(node, ast.Import):
        alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
        return alias.name if alias.asname else name
    if isinstance(node, ast.ImportFrom):
        alias = next(a for a in node.names if (a.asname or a.name) == name)
        return f"{module.absolute(node)}.{alias.name}"
    return ""


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is None


def full_name(node: ast.AST, known: Mapping[str, str]) -> str:
    """The full dotted name of an expression whose root was imported; empty for any other."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in known:
        return ""
    return ".".join([known[node.id], *reversed(parts)])


def text_of(node: ast.AST | None) -> str | None:
    """A text that is written down, or None."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
