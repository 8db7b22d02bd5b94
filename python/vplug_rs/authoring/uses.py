"""The rules about what a plugin does with vLLM anywhere in its sources: models, patches, routes, a switch."""

from __future__ import annotations

import ast

from vplug_rs import groups
from vplug_rs.authoring.functions import gives_nothing, is_class, lost_name
from vplug_rs.authoring.names import Function, aliases, full_name, inside, text_of
from vplug_rs.authoring.points import reference
from vplug_rs.authoring.rules import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vplug_rs.authoring.points import Target
    from vplug_rs.authoring.sources import Module, Sources

_ARGUMENTS = 2  # of `register_model`
_SETATTR = 3
_SWITCHES = frozenset({"environ", "getenv", "envs", "settings"})
_VERSIONS = ("version", "signature", "patching")
_GUARDED = ("/v1", "/v2", "/inference", "/cohere")
_METHODS = frozenset({"delete", "get", "head", "options", "patch", "post", "put"})
_POSTS = (
    "/classify /detokenize /invocations /pooling /rerank /score /tokenize /v1/audio/transcriptions "
    "/v1/audio/translations /v1/chat/completions /v1/completions /v1/embeddings /v1/rerank /v1/responses /v1/score "
    "/v2/rerank"
)
CORE = {("post", path) for path in _POSTS.split()} | {("get", path) for path in ("/health", "/v1/models", "/version")}
"""Routes of vLLM 0.33's own server, by method and path."""


def check(module: Module, sources: Sources, *, patches: bool, endpoints: bool) -> Iterator[Finding]:
    """All rules on one module.

    Args:
        module: The module.
        sources: The plugin's sources.
        patches: Whether a patch of vLLM's is a finding: nothing in the plugin compares versions.
        endpoints: Whether the plugin has an endpoint plugin, whose routes are meant for vLLM's server.
    """
    yield from _scope(module, module.tree, aliases(module), sources, patches=patches)
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            yield from _scope(module, node, aliases(module, node), sources, patches=patches)
            if endpoints and node.name == "attach_router":
                yield from _routes(module, node)
        elif isinstance(node, ast.ClassDef):
            yield from _resolver(module, node)


def _scope(
    module: Module, scope: ast.AST, known: Mapping[str, str], sources: Sources, *, patches: bool
) -> Iterator[Finding]:
    for node in inside(scope, classes=True):
        if isinstance(node, ast.Call):
            name = full_name(node.func, known)
            if name.endswith(("ModelRegistry.register_model", "model_registry.register_model")):
                yield from _model(module, node, known, sources)
            elif patches and _is_setattr(node) and _is_vllms(node.args[0], known):
                yield _patch(module, node, f"{full_name(node.args[0], known)}.{text_of(node.args[1]) or '*'}")
        elif patches and isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):  # else a setting
            for place in node.targets:
                if isinstance(place, ast.Attribute) and _is_vllms(place.value, known):
                    yield _patch(module, node, full_name(place, known))


def _is_setattr(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Name) or node.func.id != "setattr" or len(node.args) < _SETATTR:
        return False
    return not isinstance(node.args[-1], ast.Constant)


def _is_vllms(node: ast.expr, known: Mapping[str, str]) -> bool:
    return full_name(node, known).startswith("vllm.")


def _patch(module: Module, node: ast.stmt | ast.expr, what: str) -> Finding:
    text = f"`{what}` is changed, and no source of the plugin compares a version or signature"
    return Finding("patch-without-version-check", module.path, node.lineno, text)


def _model(module: Module, node: ast.Call, known: Mapping[str, str], sources: Sources) -> Iterator[Finding]:
    given = node.args[1] if len(node.args) >= _ARGUMENTS else None
    given = given or next((each.value for each in node.keywords if each.arg in {"model_cls", "target"}), None)
    text = text_of(given)
    if isinstance(given, ast.Name) and is_class(module, given.id, known, sources):
        yield Finding("model-class", module.path, node.lineno, f"the class `{given.id}` itself is registered")
    if text is None:
        return
    named = reference(text)
    if named is None or text.count(":") != 1 or text != text.strip():
        yield Finding("model-reference-malformed", module.path, node.lineno, f"`{text}` is not `module:Class`")
    elif lost := lost_name(sources, *named):
        yield Finding("model-reference-missing", module.path, node.lineno, f"`{text}`: {lost}")


def _resolver(module: Module, node: ast.ClassDef) -> Iterator[Finding]:
    if "LoRAResolver" not in map(_last, node.bases):
        return
    for each in node.body:
        plain = isinstance(each, ast.FunctionDef) and each.name == "resolve_lora" and not each.decorator_list
        if plain and isinstance(each, ast.FunctionDef) and (gives_nothing(each) or _gives_requests(each)):
            text = f"`{node.name}.resolve_lora` is awaited, and gives what cannot be"
            yield Finding("async-mismatch", module.path, each.lineno, text)


def _last(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _gives_requests(node: Function) -> bool:
    values = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
    return all(
        value is None
        or isinstance(value, ast.Constant)
        or (isinstance(value, ast.Call) and _last(value.func) == "LoRARequest")
        for value in values
    )


def _routes(module: Module, node: Function) -> Iterator[Finding]:
    """Routes that `attach_router` puts on the app itself; those of a router have a prefix that may come later."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    app = arguments[-1].arg if arguments else ""
    for each in ast.walk(node):
        if not (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.args):
            continue
        owner, method, path = each.func.value, each.func.attr, text_of(each.args[0])
        if not (isinstance(owner, ast.Name) and owner.id == app) or method not in _METHODS or path is None:
            continue
        if (method, path) in CORE:
            text = f"`{method.upper()} {path}` is vLLM's own route"
            yield Finding("endpoint-core-path", module.path, each.lineno, text)
        elif not path.startswith(_GUARDED):
            text = f"`{method.upper()} {path}` is not covered by `--api-key`"
            yield Finding("endpoint-unguarded", module.path, each.lineno, text)


def mentions(trees: Sequence[ast.AST], words: Sequence[str] | frozenset[str]) -> bool:
    """Whether a name, an attribute, a module or a text of some sources has one of these words in it."""
    for tree in trees:
        for node in ast.walk(tree):
            texts = []
            if isinstance(node, ast.Name):
                texts.append(node.id)
            elif isinstance(node, ast.Attribute):
                texts.append(node.attr)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                texts += [alias.name for alias in node.names]
                texts.append(getattr(node, "module", None) or "")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            if any(word in text.lower() for word in words for text in texts):
                return True
    return False


def patches_blindly(trees: Sequence[ast.AST]) -> bool:
    """Whether nothing in some sources speaks of versions or signatures."""
    return not mentions(trees, _VERSIONS)


def switch(targets: Sequence[Target], trees: Sequence[ast.AST]) -> Iterator[Finding]:
    """A general plugin or a platform that asks nothing of the environment, in none of its sources."""
    if mentions(trees, _SWITCHES):
        return
    for target in targets:
        if target.point.group in {groups.GENERAL, groups.PLATFORM} and isinstance(target.node, Function):
            text = f"nothing in the plugin of {target.point} reads the environment"
            yield Finding("switch-missing", target.home.path, target.node.lineno, text)
