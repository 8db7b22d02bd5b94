"""Synthetic site-packages folders, the same for the same size and seed.

About 30 % of the distributions have an entry_points.txt, four of them register a plugin in GROUP (and are
importable, since some libraries load as they list), and the folder holds about two names per distribution:
the shape of a real environment.

    python benches/python/site_generator.py FOLDER --size 300
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import dataclass
from pathlib import Path

GROUP = "vllm.general_plugins"
PLUGINS = 4
SHARE_WITH_ENTRY_POINTS = 0.30

_SYLLABLES = [
    "al",
    "an",
    "ar",
    "be",
    "bo",
    "ca",
    "co",
    "da",
    "de",
    "do",
    "el",
    "en",
    "er",
    "fa",
    "fi",
    "ga",
    "go",
    "ha",
    "he",
    "in",
    "io",
    "ka",
    "ko",
    "la",
    "le",
    "li",
    "lo",
    "ma",
    "me",
    "mi",
    "mo",
    "na",
    "ne",
    "no",
    "on",
    "or",
    "pa",
    "pe",
    "pi",
    "po",
    "qu",
    "ra",
    "re",
    "ri",
    "ro",
    "sa",
    "se",
    "si",
    "so",
    "ta",
    "te",
    "ti",
    "to",
    "ul",
    "um",
    "un",
    "va",
    "ve",
    "vi",
    "vo",
    "xa",
    "ya",
    "yo",
    "za",
    "ze",
]
_PREFIXES = [
    "aio",
    "async",
    "azure",
    "data",
    "django",
    "fast",
    "flask",
    "google",
    "jupyter",
    "nv",
    "open",
    "py",
    "pytest",
    "sphinx",
    "torch",
    "types",
]
_GROUPS = [
    "babel.extractors",
    "distutils.commands",
    "fsspec.specs",
    "gui_scripts",
    "jupyterlab.plugins",
    "keyring.backends",
    "mypy.plugins",
    "opentelemetry_context",
    "pytest11",
    "sphinx.html_themes",
    "sqlalchemy.dialects",
]
_SENTENCE = "A small, well tested and documented set of functions; the user guide tells how to install and use it.\n"


@dataclass(frozen=True)
class Counts:
    """What was put into a site."""

    distributions: int
    with_entry_points: int
    entry_points: int
    plugins: int


def _module_name(random_: random.Random, taken: set[str]) -> str:
    while True:
        words = [
            "".join(random_.choice(_SYLLABLES) for _ in range(random_.randint(2, 4)))
            for _ in range(random_.choice((1, 1, 2, 2, 3)))
        ]
        if random_.random() < 0.35:
            words.insert(0, random_.choice(_PREFIXES))
        name = "_".join(words)
        if name not in taken:
            taken.add(name)
            return name


def _project_name(random_: random.Random, module: str) -> str:
    """Most names are as wheels spell them today; a few keep their dots and capitals."""
    kind = random_.random()
    if kind < 0.06:
        return module.title().replace("_", ".")
    return module.title() if kind < 0.10 else module


def _entry_points(random_: random.Random, module: str, *, plugin: bool) -> tuple[str, int]:
    groups: dict[str, list[str]] = {}
    command = module.replace("_", "-")
    for number in range(random_.randint(1, 5)):
        group = "console_scripts" if random_.random() < 0.85 else random_.choice(_GROUPS)
        name = command if number == 0 else f"{command}-{random_.choice(_SYLLABLES)}{number}"
        value = f"{module}.{random_.choice(('cli', '__main__', 'main', 'app'))}:{random_.choice(('main', 'run'))}"
        extra = " [extra]" if random_.random() < 0.02 else ""
        groups.setdefault(group, []).append(f"{name} = {value}{extra}\n")
    if plugin:
        groups[GROUP] = [f"{command} = {module}.plugin:register\n"]
    text = "\n".join(f"[{group}]\n{''.join(lines)}" for group, lines in groups.items())
    return text, sum(map(len, groups.values()))


def _metadata(random_: random.Random, name: str, version: str, others: list[str], size: int) -> str:
    head = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Synthetic distribution\n"
        "License: MIT\nRequires-Python: >=3.9\n"
    )
    for _ in range(random_.randint(0, 12)):
        head += f"Requires-Dist: {random_.choice(others).replace('_', '-')}>={random_.randint(0, 20)}\n"
    length = max(len(head) + 100, int(random_.gauss(size, size / 4)))
    return (head + "\n" + _SENTENCE * (1 + length // len(_SENTENCE)))[:length]


def _module(random_: random.Random, site: Path, module: str, *, plugin: bool) -> None:
    if random_.random() < 0.08 and not plugin:
        (site / f"{module}.py").write_text("x = 1\n")
        return
    (site / module).mkdir()
    (site / module / "__init__.py").touch()
    if plugin:
        (site / module / "plugin.py").write_text("def register():\n    return None\n")


def build(site: Path, size: int, *, seed: int = 1, metadata_bytes: int = 10_000) -> Counts:
    """Write `size` distributions into `site`, which must not hold any yet.

    Args:
        site: the folder; it is made where it does not exist.
        size: how many distributions.
        seed: another seed gives other names and contents.
        metadata_bytes: mean length of METADATA.
    """
    random_ = random.Random(seed * 100_003 + size)
    site.mkdir(parents=True, exist_ok=True)
    with_entry_points = set(random_.sample(range(size), max(min(PLUGINS, size), round(size * SHARE_WITH_ENTRY_POINTS))))
    plugins = set(random_.sample(sorted(with_entry_points), min(PLUGINS, len(with_entry_points))))
    taken: set[str] = set()
    names: list[str] = []
    entries = 0
    for number in range(size):
        module = _module_name(random_, taken)
        names.append(module)
        name = _project_name(random_, module)
        version = f"{random_.randint(0, 9)}.{random_.randint(0, 30)}.{random_.randint(0, 12)}"
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(_metadata(random_, name, version, names, metadata_bytes))
        record = (
            f"{module}/{random_.choice(_SYLLABLES)}{line}.py,sha256={'A' * 43},{random_.randint(100, 50_000)}\n"
            for line in range(random_.randint(8, 90))
        )
        (info / "RECORD").write_text("".join(record))
        (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: none\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        (info / "INSTALLER").write_text("pip\n")
        if random_.random() < 0.5:
            (info / "top_level.txt").write_text(f"{module}\n")
        if random_.random() < 0.3:
            (info / "licenses").mkdir()
            (info / "licenses" / "LICENSE").write_text("MIT\n" * 50)
        if number in with_entry_points:
            text, count = _entry_points(random_, module, plugin=number in plugins)
            (info / "entry_points.txt").write_text(text)
            entries += count
        _module(random_, site, module, plugin=number in plugins)
    for other in ("distutils-precedence.pth", "typing_compat.py", "_native.abi3.so"):
        (site / other).touch()
    return Counts(size, len(with_entry_points), entries, len(plugins))


def main() -> None:
    """Build one site and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counts = build(arguments.folder, arguments.size, seed=arguments.seed)
    print(json.dumps(vars(counts)))


if __name__ == "__main__":
    main()
