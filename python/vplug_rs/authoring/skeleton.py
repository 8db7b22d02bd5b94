"""A new plugin's folder, written from templates: it keeps every rule, and its own test passes at once.

In: a name and a kind. Out: files that were not there before; nothing is ever overwritten.
"""

from __future__ import annotations

import keyword
import os
import re
import sys
from string import Template

from vplug_rs import groups
from vplug_rs.authoring.at_import import HEAVY
from vplug_rs.errors import UsageError

TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
_SUFFIX = ".txt"  # so that no tool takes a template for a source of ours
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_MOST_CHARACTERS = 100
_TAKEN = HEAVY | {"test", "tests", "vplug_rs", "vplug_logits"}

_TOLD = " vLLM loads endpoint plugins only if `VLLM_PLUGINS` names them."
_FOLDER = " It does nothing until `${switch}_FOLDER` names a folder with adapters in it."


class Kind:
    """What one kind of plugin is made of; `value` is what its entry point names, inside the package."""

    __slots__ = ("about", "group", "remark", "value")

    def __init__(self, group: str, value: str, about: str, remark: str = "") -> None:
        self.group, self.value, self.about, self.remark = group, value, about, remark


KINDS = {
    "general": Kind(groups.GENERAL, "plugin:register", "A model architecture for vLLM, registered in every process"),
    "platform": Kind(groups.PLATFORM, "plugin:platform", "A hardware platform for vLLM"),
    "io-processor": Kind(groups.IO_PROCESSOR, "plugin:processor", "An IO processor for vLLM's pooling models"),
    "stat-logger": Kind(groups.STAT_LOGGER, "stats:${title}Stats", "A stat logger for vLLM"),
    "endpoint": Kind(groups.ENDPOINT, "plugin:${title}Endpoint", "Routes on vLLM's API server", _TOLD),
    "lora-resolver": Kind(groups.GENERAL, "plugin:register", "LoRA adapters for vLLM, found on request", _FOLDER),
}


def package_of(name: str) -> str:
    """The package of a distribution's name.

    Raises:
        UsageError: It is no name of a distribution, or its package could not be imported or would hide another.
    """
    package = re.sub(r"[-_.]+", "_", name).lower()
    if not _NAME.fullmatch(name) or len(name) > _MOST_CHARACTERS:
        raise UsageError(
            f"`{name}` is no name for a distribution", hint="letters, digits, `-`, `_` and `.`, as in `acme-models`"
        )
    if not package.isidentifier() or keyword.iskeyword(package):
        raise UsageError(f"`{package}` can be no package", hint="let the name begin with a letter")
    if package in _TAKEN or package in sys.stdlib_module_names:
        raise UsageError(f"the package `{package}` would hide another one", hint=f"as in `{name}-plugin`")
    return package


def render(name: str, kind: str) -> dict[str, str]:
    """The files of a new plugin: path inside its folder, and text.

    Args:
        name: The distribution's name, which is also that of the entry point.
        kind: One of `KINDS`.

    Raises:
        UsageError: See `package_of`.
    """
    package = package_of(name)
    what = KINDS[kind]
    words = {
        "name": name,
        "package": package,
        "title": "".join(part.capitalize() for part in package.split("_")),
        "switch": package.upper(),
        "group": what.group,
        "about": what.about,
    }
    words["value"] = f"{package}.{Template(what.value).substitute(words)}"
    words["remark"] = Template(what.remark).substitute(words)
    files: dict[str, str] = {}
    for part in ("common", kind):  # the kind's own file wins
        top = os.path.join(TEMPLATES, part)
        for folder, _, children in os.walk(top):
            for child in children:
                path = os.path.relpath(os.path.join(folder, child.removesuffix(_SUFFIX)), top)
                path = path.replace(os.path.join("src", "package"), os.path.join("src", package))
                with open(os.path.join(folder, child), encoding="utf-8") as file:
                    files[path] = Template(file.read()).substitute(words)
    return dict(sorted(files.items()))


def write(name: str, kind: str, place: str) -> list[str]:
    """Write a new plugin into a folder of its name, and give the paths of its files.

    Args:
        name: See `render`.
        kind: See `render`.
        place: The folder that the plugin's own is made in.

    Raises:
        UsageError: See `package_of`; or one of the files is there already, or cannot be written.
    """
    files = {os.path.join(place, name, path): text for path, text in render(name, kind).items()}
    there = [path for path in files if os.path.lexists(path)]
    if there:
        raise UsageError(f"`{there[0]}` is there already; nothing was written", hint="choose another name or place")
    path = ""
    try:
        for path, text in files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"`{error.filename or path}` cannot be written: {error.strerror}") from None
    return list(files)
