"""The rules about the functions that vLLM calls: those that entry points name, and what they call in their module."""

from __future__ import annotations

import ast

from vplug_rs import groups
from vplug_rs.authoring.at_import import exit_call, is_exit
from vplug_rs.authoring.names import Function, aliases, bindings, defines, inside, text_of
from vplug_rs.authoring.rules import Finding
from vplug_rs.authoring.sources import Missing, Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vplug_rs.authoring.points import Target
    from vplug_rs.authoring.sources import Sources

_LOGGING = frozenset({"critical", "debug", "error", "exception", "info", "log", "print", "warn", "warning"})
_ONCE = frozenset({"addHandler", "register_oot", "register_at_fork"})
"""Methods that do a second time what must be done once: an assertion, or a doubled line."""


def check(target: Target, sources: Sources) -> Iterator[Finding]:
    """All rules, on the function of one entry point and its helpers.

    Args:
        target: What the entry point names.
        sources: The plugin's sources.
    """
    node = target.node
    if isinstance(node, ast.ClassDef):
        yield from _methods(target.home, node)
    if not isinstance(node, Function) or not target.group.called:
        return
    if not node.decorator_list:
        yield from _shape(target, node)
        if target.group.wants == groups.NAMER:
            yield from _answers(target.home, node, sources)
    if target.point.group == groups.PLATFORM:
        yield from _raises(target.home, node)
    if target.point.group == groups.GENERAL:
        yield from _contained(target, node)
        if not node.decorator_list:
            yield from _twice(target, node)
    for each in _called(target.home, node):
        known = aliases(target.home, each)
        yield from _ends(target.home, each, known)
        yield from _hidden(target.home, each, called=each is node)
        yield from _marked(target.home, each)


def _called(module: Module, start: Function) -> list[Function]:
    """A function, and those of its module that it calls by name."""
    bound, found, waiting = bindings(module.tree), [start], [start]
    while waiting:
        for node in inside(waiting.pop()):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                homes = bound.get(node.func.id, [])
                if len(homes) == 1 and isinstance(homes[0], Function) and homes[0] not in found:
                    found.append(homes[0])
                    waiting.append(homes[0])
    return found


def _shape(target: Target, node: Function) -> Iterator[Finding]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = [each.arg for each in positional[: len(positional) - len(arguments.defaults)]]
    needed += [
        each.arg for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None
    ]
    if needed:
        text = f"`{node.name}` wants {', '.join(f'`{name}`' for name in needed)}, and vLLM calls it without arguments"
        yield Finding("required-parameters", target.home.path, node.lineno, text)
    if isinstance(node, ast.AsyncFunctionDef):
        text = f"`{node.name}` is `async`, and vLLM calls it and does not await it"
        yield Finding("async-mismatch", target.home.path, node.lineno, text)


def _methods(module: Module, node: ast.ClassDef) -> Iterator[Finding]:
    """An endpoint plugin's methods; one that returns something may well return what can be awaited."""
    for each in node.body:
        if not isinstance(each, Function) or each.decorator_list:
            continue
        if each.name == "attach_router" and isinstance(each, ast.AsyncFunctionDef):
            yield Finding("async-mismatch", module.path, each.lineno, "`attach_router` is `async`: it is not awaited")
        if each.name == "init_state" and isinstance(each, ast.FunctionDef) and gives_nothing(each):
            yield Finding("async-mismatch", module.path, each.lineno, "`init_state` is awaited, and gives `None`")


def gives_nothing(node: Function) -> bool:
    """Whether a function certainly gives `None`; one that ends in a `raise` is there to be overridden."""
    values = [each.value for each in inside(node) if isinstance(each, ast.Return)]
    yields = any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in inside(node))
    return (
        not yields
        and not isinstance(node.body[-1], ast.Raise)
        and all(value is None or (isinstance(value, ast.Constant) and value.value is None) for value in values)
    )


def _ends(module: Module, node: Function, known: Mapping[str, str]) -> Iterator[Finding]:
    for each in inside(node):
        if isinstance(each, ast.Raise) and is_exit(each):
            yield Finding("exit-in-plugin", module.path, each.lineno, f"`{node.name}` raises `SystemExit`")
        elif isinstance(each, ast.Call) and (name := exit_call(each, known)):
            yield Finding("exit-in-plugin", module.path, each.lineno, f"`{node.name}` calls `{name}()`")


def _hidden(module: Module, node: Function, *, called: bool) -> Iterator[Finding]:
    """In what vLLM calls itself, to return says nothing either; in a helper it is an answer."""
    for each in inside(node):
        if not isinstance(each, ast.ExceptHandler):
            continue
        kind = each.type.id if isinstance(each.type, ast.Name) else None if each.type is None else ""
        if kind not in {None, "BaseException", "Exception"}:
            continue
        words = "except:" if kind is None else f"except {kind}:"
        if all(_is_idle(statement, returning=called) for statement in each.body):
            yield Finding("failure-hidden", module.path, each.lineno, f"`{words}` in `{node.name}` hides the failure")
        if kind != "Exception" and not any(isinstance(inner, ast.Raise) for inner in inside(each)):
            yield Finding("interrupt-swallowed", module.path, each.lineno, f"`{words}` in `{node.name}` has no `raise`")


def _is_idle(node: ast.stmt, *, returning: bool) -> bool:
    if isinstance(node, ast.Expr) or (returning and isinstance(node, ast.Return)):
        return node.value is None or isinstance(node.value, ast.Constant)
    return isinstance(node, (ast.Pass, ast.Continue, ast.Break))


def _marked(module: Module, node: Function) -> Iterator[Finding]:
    """A mark that is tested for an early return, set, and followed by work; one that is taken back is left alone."""
    tested = {
        _reading(each.test)
        for each in inside(node)
        if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Return)
    }
    declared = {name for each in inside(node) if isinstance(each, ast.Global) for name in each.names}
    sets = [
        each
        for each in inside(node)
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and _test_of(each.targets[0]) in tested
    ]
    for each in sets:
        place = each.targets[0]
        if not (isinstance(each.value, ast.Constant) and each.value.value is True):
            continue
        if isinstance(place, ast.Name) and place.id not in declared:
            continue
        if sum(_test_of(other.targets[0]) == _test_of(place) for other in sets) > 1:
            continue
        if any(_works(later) for later in _after(node, each)):
            text = f"`{ast.unparse(place)}` is set in `{node.name}`, and the work comes after it"
            yield Finding("mark-before-work", module.path, each.lineno, text)


def _test_of(place: ast.expr) -> str:
    """How a place reads where it is tested."""
    return _reading(place).replace("ctx=Store()", "ctx=Load()")


def _reading(node: ast.expr) -> str:
    try:
        return ast.dump(node)
    except RecursionError:  # no mark looks like that
        return f"nested too deeply: {id(node)}"


def _after(node: ast.AST, statement: ast.stmt) -> Sequence[ast.stmt]:
    """What follows a statement in its own block and in those around it, inside the function."""
    for _, block in ast.iter_fields(node):
        if not isinstance(block, list):
            continue
        for number, each in enumerate(block):
            if each is statement:
                return block[number + 1 :]
            if isinstance(each, ast.AST) and any(inner is statement for inner in ast.walk(each)):
                rest = block[number + 1 :] if isinstance(each, ast.stmt) and not isinstance(each, ast.If) else []
                return [*_after(each, statement), *rest]
    return []


def _works(statement: ast.stmt) -> bool:
    """Whether it calls anything but a logger, or imports."""
    nodes = [statement, *inside(statement)]
    for each in nodes:
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            return True
        if isinstance(each, ast.Call):
            name = each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
            if name not in _LOGGING:
                return True
    return False


def _contained(target: Target, node: Function) -> Iterator[Finding]:
    for each in inside(node, tried=False):
        if isinstance(each, ast.ImportFrom) and not each.level and (each.module or "").startswith("vllm."):
            text = f"`{node.name}` imports `{each.module}` outside any `try`, and vLLM does not catch its error"
            yield Finding("failure-uncontained", target.home.path, each.lineno, text)
            return


def _twice(target: Target, node: Function) -> Iterator[Finding]:
    """What must be done once, in a function without any condition."""
    if any(isinstance(each, (ast.If, ast.IfExp, ast.Match, ast.While)) for each in inside(node)):
        return
    for each in inside(node, tried=False):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _ONCE:
            text = f"`{each.func.attr}()` runs again whenever `{node.name}` is called again"
            yield Finding("guard-missing", target.home.path, each.lineno, text)


def _raises(module: Module, node: Function) -> Iterator[Finding]:
    for each in inside(node, tried=False):
        if isinstance(each, ast.Raise) and not is_exit(each):
            yield Finding("platform-raises", module.path, each.lineno, f"`{node.name}` raises")


def _answers(module: Module, node: Function, sources: Sources) -> Iterator[Finding]:
    known = aliases(module, node)
    for each in inside(node):
        if not isinstance(each, ast.Return) or each.value is None:
            continue
        value, line = each.value, each.lineno
        if isinstance(value, ast.Constant):
            wrong = groups.wrong_name(value.value)
            if wrong is not None:
                yield Finding("answer-wrong", module.path, line, f"`{node.name}`: {wrong[0]}")
            elif (text := text_of(value)) and (lost := lost_name(sources, *text.rsplit(".", 1))):
                yield Finding("answer-missing", module.path, line, f"`{node.name}` names `{text}`: {lost}")
        elif isinstance(value, ast.Name) and is_class(module, value.id, known, sources):
            yield Finding("answer-wrong", module.path, line, f"`{node.name}` returns the class `{value.id}` itself")


def is_class(module: Module, name: str, known: Mapping[str, str], sources: Sources) -> bool:
    """Whether a name is a class of the plugin's, or is imported from elsewhere and spelt like one."""
    if name in known:
        home, _, original = known[name].rpartition(".")
        found = sources.find(home) if home and sources.has(home.partition(".")[0]) else None
        if isinstance(found, Module):
            target = sources.resolve(found, original)
            return target is not None and isinstance(target[1], ast.ClassDef)
        return found is None and name[:1].isupper() and not name.isupper() and "_" not in name
    bound = bindings(module.tree).get(name, [])
    return len(bound) == 1 and isinstance(bound[0], ast.ClassDef)


def lost_name(sources: Sources, name: str, attribute: str) -> str:
    """Why a name of these sources is not there; empty where it is, or is not theirs to have.

    Args:
        sources: The plugin's sources.
        name: The module.
        attribute: What is wanted in it.
    """
    if not sources.has(name.partition(".")[0]):
        return ""
    module = sources.find(name)
    if isinstance(module, Missing):
        return f"there is no module `{module.near}`"
    if isinstance(module, Module) and not defines(module.tree, attribute.partition(".")[0]):
        return f"`{module.path}` does not define `{attribute}`"
    return ""
