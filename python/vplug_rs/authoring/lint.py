"""All rules on one plugin: its metadata, the modules that its entry points import, the functions that vLLM calls."""

from __future__ import annotations

from vplug_rs import groups
from vplug_rs.authoring import at_import, functions, points, uses
from vplug_rs.authoring.rules import Finding, in_order
from vplug_rs.authoring.sources import Module, Sources
from vplug_rs.errors import NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vplug_rs.authoring.project import Point, Project


class Report:
    """What was checked, and what was found.

    Attributes:
        label: The plugin.
        points: How many entry points of vLLM's groups it has.
        files: How many sources were read.
        findings: The worst first.
        roots: The folders that its packages lie in.
        targets: The entry points whose module is there.
    """

    __slots__ = ("files", "findings", "label", "points", "roots", "targets")

    def __init__(
        self, project: Project, points: int, files: int, findings: list[Finding], targets: list[Point]
    ) -> None:
        self.label, self.roots = project.label, project.roots
        self.points, self.files, self.findings, self.targets = points, files, findings, targets


def check(project: Project) -> Report:
    """Check a plugin.

    Args:
        project: What its files declare.

    Raises:
        NotFoundError: It declares no entry point of vLLM's groups.
    """
    own = [point for point in project.points if points.is_vllms(point.group)]
    if not own:
        raise NotFoundError(
            f"`{project.label}` declares no entry point of vLLM's groups",
            hint="setup.py and setup.cfg are not read: install the plugin, and name its distribution",
        )
    tops = {point.value.partition(":")[0].partition(".")[0].strip() for point in own}
    sources = Sources(project.roots, tops if project.whole else None)
    findings = list(points.metadata(project))
    targets: list[points.Target] = []
    for found in points.targets(project, sources):
        if isinstance(found, Finding):
            findings.append(found)
        else:
            targets.append(found)
    for target in targets:
        for module in sources.loaded_with(target.module.name):
            findings += at_import.check(target, module)
        findings += functions.check(target, sources)
    modules: list[Module] = []
    for top in sorted({target.module.name.partition(".")[0] for target in targets}):
        for each in sources.all_of(top):
            if isinstance(each, Module):
                modules.append(each)
            else:
                findings.append(points.unread(each))
    trees = [module.tree for module in modules]
    patches = uses.patches_blindly(trees)
    endpoints = any(target.point.group == groups.ENDPOINT for target in targets)
    for module in modules:
        findings += uses.check(module, sources, patches=patches, endpoints=endpoints)
    findings += uses.switch(targets, trees)
    return Report(project, len(own), len(modules), in_order(findings), [target.point for target in targets])
